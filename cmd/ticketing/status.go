package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

func statusCommand() *command {
	var f adminFlags
	c := &command{
		name:    "status",
		summary: "show the state of a server, or with several admin addresses of a cluster",
		environ: adminEnviron(),
		exits:   append([]string{"0 every endpoint answers and is ready", "1 one is not ready, or not reachable while others are"}, adminExits()...),
		example: "ticketing status --admin http://127.0.0.1:5425",
		flags:   newFlags("status"),
	}
	f.register(c.flags)
	asJSON := c.flags.Bool("json", false, "print JSON: what /status says, for several endpoints a list")
	c.run = func(p *process, args arguments) error {
		if len(args.all()) > 0 {
			return usageError("takes no arguments; --admin says which servers")
		}
		if err := f.prepare(p); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		nodes, problems := askAll(ctx, f.endpoints())
		ready := !slices.ContainsFunc(nodes, func(n nodeReport) bool { return !n.status.Ready })
		if len(problems) == len(nodes) {
			return joinUnreachable(problems, lookAtAdmin)
		}
		var err error
		switch {
		case *asJSON && len(nodes) == 1:
			err = writeJSON(p.stdout, nodes[0].Status)
		case *asJSON:
			err = writeJSON(p.stdout, nodes)
		case len(nodes) == 1:
			err = printNode(p.stdout, nodes[0].status)
		default:
			err = printNodes(p.stdout, nodes)
		}
		if err == nil && !ready {
			err = exitWith(exitNegative)
		}
		return err
	}
	return c
}

// nodeReport is what one endpoint says, or why it says nothing.
type nodeReport struct {
	Admin  string          `json:"admin"`
	Status json.RawMessage `json:"status,omitempty"`
	Error  string          `json:"error,omitempty"`
	status nodeStatus
}

// askAll asks all endpoints at the same time, so that one that is silent does not keep the others waiting.
func askAll(ctx context.Context, endpoints []*adminEndpoint) (nodes []nodeReport, problems []error) {
	nodes, problems = make([]nodeReport, len(endpoints)), make([]error, len(endpoints))
	var asking sync.WaitGroup
	for i, e := range endpoints {
		asking.Go(func() {
			n := &nodes[i]
			n.Admin = e.url
			n.status, n.Status, problems[i] = e.status(ctx)
			if problems[i] != nil {
				n.Error = problems[i].Error()
			}
		})
	}
	asking.Wait()
	return nodes, slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

func printNode(w io.Writer, s nodeStatus) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(t, "%s\t%v\n", name, value) }
	row("version", plain(s.Version))
	row("role", plain(s.Role))
	row("ready", readiness(s))
	row("domain", plain(s.Domain))
	if s.Mode == "cluster" {
		row("seat", s.Seat)
		row("term", s.Term)
		row("leader", leaderOf(s))
		for _, m := range s.Members {
			row(fmt.Sprintf("seat %d", m.Seat), fmt.Sprintf("%s  clients %s  peers %s  lag %s", plain(m.Role), plain(m.ClientAddr), plain(m.PeerAddr), count(m.Lag)))
		}
	}
	if s.Replacement != nil {
		row("replacement", s.Replacement)
	}
	row("held keys", s.HeldKeys)
	row("waiters", count(s.Waiters))
	row("connections", s.Connections)
	row("last token", plain(s.Token))
	row("up for", uptime(s))
	return t.Flush()
}

// printNodes prints a line for each endpoint, and below the table, where there is room for it, replacements and why an endpoint is not
// ready.
func printNodes(w io.Writer, nodes []nodeReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ADMIN\tROLE\tREADY\tSEAT\tTERM\tLEADER\tHELD\tWAITERS\tCONNECTIONS\tUP\n")
	var reasons, replacements []string
	for _, n := range nodes {
		s, ready := n.status, "yes"
		if n.Error != "" {
			fmt.Fprintf(t, "%s\t-\tno\t-\t-\t-\t-\t-\t-\t-\n", n.Admin)
			reasons = append(reasons, fmt.Sprintf("%s: %s", n.Admin, plainText(n.Error)))
			continue
		}
		if s.Replacement != nil && !slices.Contains(replacements, s.Replacement.String()) {
			replacements = append(replacements, s.Replacement.String())
		}
		if !s.Ready {
			ready = "no"
			reasons = append(reasons, fmt.Sprintf("%s: %s", n.Admin, strconv.Quote(s.WhyNotReady)))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t%d\t%s\t%d\t%s\n", n.Admin, plain(s.Role), ready, s.Seat, s.Term, leaderOf(s),
			s.HeldKeys, count(s.Waiters), s.Connections, uptime(s))
	}
	err := t.Flush()
	if len(replacements) > 0 {
		_, err = fmt.Fprintf(w, "\nreplacement:\n  %s\n", strings.Join(replacements, "\n  "))
	}
	if len(reasons) > 0 {
		_, err = fmt.Fprintf(w, "\nnot ready:\n  %s\n", strings.Join(reasons, "\n  "))
	}
	return err
}

// plainText returns a sentence that a server sent, quoted if it could steer a terminal.
func plainText(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

func readiness(s nodeStatus) string {
	if s.Ready {
		return "yes"
	}
	return fmt.Sprintf("no: %q", s.WhyNotReady)
}

func leaderOf(s nodeStatus) string {
	if s.Leader == nil {
		return "-"
	}
	return plain(s.Leader.ClientAddr)
}

// count returns a number that a node may not know.
func count(n *uint64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func uptime(s nodeStatus) time.Duration {
	return time.Duration(s.Uptime * float64(time.Second)).Round(time.Second)
}
