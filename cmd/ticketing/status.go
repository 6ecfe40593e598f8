package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
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
		var nodes []nodeReport
		var problems []error
		ready := true
		for _, e := range f.endpoints() {
			n := nodeReport{Admin: e.url}
			status, raw, err := e.status(ctx)
			if err != nil {
				problems = append(problems, err)
				n.Error = err.Error()
			}
			n.status, n.Status = status, raw
			ready = ready && status.Ready
			nodes = append(nodes, n)
		}
		if len(problems) == len(nodes) {
			return joinUnreachable(problems)
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
			row(fmt.Sprintf("seat %d", m.Seat), fmt.Sprintf("%s  clients %s  peers %s  lag %d", plain(m.Role), plain(m.ClientAddr), plain(m.PeerAddr), m.Lag))
		}
	}
	row("held keys", s.HeldKeys)
	row("waiters", count(s.Waiters))
	row("connections", s.Connections)
	row("last token", plain(s.Token))
	row("up for", uptime(s))
	return t.Flush()
}

func printNodes(w io.Writer, nodes []nodeReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ADMIN\tROLE\tREADY\tSEAT\tTERM\tLEADER\tHELD\tWAITERS\tCONNECTIONS\tUP\n")
	for _, n := range nodes {
		if n.Error != "" {
			fmt.Fprintf(t, "%s\t-\t%q\n", n.Admin, n.Error)
			continue
		}
		s := n.status
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t%d\t%s\t%d\t%s\n", n.Admin, plain(s.Role), readiness(s), s.Seat, s.Term, leaderOf(s),
			s.HeldKeys, count(s.Waiters), s.Connections, uptime(s))
	}
	return t.Flush()
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

func count(n *uint64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func uptime(s nodeStatus) time.Duration {
	return time.Duration(s.Uptime * float64(time.Second)).Round(time.Second)
}
