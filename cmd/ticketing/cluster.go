package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ticketing.internal/server"
)

// clusterCommands are `ticketing cluster ...`, each a command of its own whose name has two words.
func clusterCommands() []*command {
	return []*command{
		clusterInitCommand(), clusterStatusCommand(), clusterReplaceCommand(), clusterAbortCommand(), clusterTransferCommand(), clusterCanStopCommand(),
	}
}

// clusterFlags say how a cluster is reached.
type clusterFlags struct {
	peers   listFlag
	timeout time.Duration
}

// clusterTimeout bounds a command: long enough for an election in between.
const clusterTimeout = 10 * time.Second

func (f *clusterFlags) register(fs *flag.FlagSet) {
	fs.Var(&f.peers, "peer", "`HOST:PORT` of a node's peer port; may be repeated")
	fs.DurationVar(&f.timeout, "timeout", clusterTimeout, "how long to wait for an answer")
}

func clusterEnviron() []string {
	return []string{
		"TICKETING_PEERS peer addresses of nodes, with commas between them (--peer)",
		"TICKETING_CLUSTER_SECRET the cluster secret (or TICKETING_CLUSTER_SECRET_FILE)",
		"TICKETING_PEER_TLS_CERT PEM file, where nodes use TLS; with TICKETING_PEER_TLS_KEY and TICKETING_PEER_TLS_CA",
	}
}

func clusterExits(more ...string) []string {
	return append(more, "64 usage", "69 no node reachable, or none that leads", "76 whether it took effect is not known", "77 another cluster secret", "78 configuration")
}

// secrets reads the cluster secrets of the environment.
func (p *process) clusterSecrets() ([][]byte, error) {
	text, err := p.secret("TICKETING_CLUSTER_SECRET")
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, withExit(exitConfig, errors.New("TICKETING_CLUSTER_SECRET is not set: it is what the nodes have (ticketing gen-token makes one)"))
	}
	var secrets [][]byte
	for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		secrets = append(secrets, []byte(s))
	}
	return secrets, nil
}

// with calls ask with a client of the cluster, and gives its error the exit code.
func (f *clusterFlags) with(p *process, ask func(context.Context, *server.ControlClient) error) error {
	secrets, err := p.clusterSecrets()
	if err != nil {
		return err
	}
	peers := f.peers
	if len(peers) == 0 {
		if list := p.variable("TICKETING_PEERS"); list != "" {
			if err := peers.Set(list); err != nil {
				return withExit(exitConfig, fmt.Errorf("TICKETING_PEERS=%q: %w", list, err))
			}
		}
	}
	c, err := server.NewControlClient(server.ControlConfig{
		Peers: peers, Secrets: secrets, TLSCert: p.variable("TICKETING_PEER_TLS_CERT"), TLSKey: p.variable("TICKETING_PEER_TLS_KEY"),
		TLSCA: p.variable("TICKETING_PEER_TLS_CA"),
	})
	if err != nil {
		return withExit(exitConfig, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return clusterError(ask(ctx, c))
}

func clusterError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, server.ErrClusterSecret):
		return withExit(exitAuth, err)
	case errors.Is(err, server.ErrOutcomeUnknown):
		return withExit(exitIndeterminate, err)
	case errors.Is(err, server.ErrNoLeader), errors.Is(err, server.ErrClusterUnreachable), errors.Is(err, context.DeadlineExceeded):
		return withExit(exitUnreachable, err)
	}
	return err
}

// noArguments refuses what a command does not take.
func noArguments(args arguments) error {
	if len(args.all()) > 0 {
		return usageError("takes no arguments, but flags")
	}
	return nil
}

// seatsFlag collects --seat 1=host:port.
type seatsFlag map[int]string

// String returns the seats as one.
func (s seatsFlag) String() string {
	var list []string
	for seat := 1; seat <= len(s); seat++ {
		list = append(list, fmt.Sprintf("%d=%s", seat, s[seat]))
	}
	return strings.Join(list, ",")
}

// Set adds a seat.
func (s seatsFlag) Set(text string) error {
	number, addr, ok := strings.Cut(text, "=")
	seat, err := strconv.Atoi(number)
	if !ok || err != nil || seat < 1 || seat > 5 || s[seat] != "" {
		return errors.New("not a seat")
	}
	s[seat] = addr
	return nil
}

func clusterInitCommand() *command {
	c := &command{
		name:    "cluster init",
		summary: "print the bootstrap credential of a new cluster",
		details: "All first nodes are given the same credential as TICKETING_BOOTSTRAP, and each its own TICKETING_SEAT. Every one of\n" +
			"them has to take part before it ends. It is a secret, and good for one bootstrap: after a failed one make another.\n" +
			"No node is asked, and nothing is changed anywhere.",
		environ: []string{"TICKETING_CLUSTER_SECRET the cluster secret (or TICKETING_CLUSTER_SECRET_FILE)"},
		exits:   []string{"0 done", "64 usage", "78 configuration"},
		example: "ticketing cluster init --seat 1=10.0.0.1:5325 --seat 2=10.0.0.2:5325 --seat 3=10.0.0.3:5325",
		flags:   newFlags("cluster init"),
	}
	d := server.NewDomain{Seats: seatsFlag{}}
	c.flags.Var(seatsFlag(d.Seats), "seat", "`N=HOST:PORT`: the peer address of the node in seat N; three or five times")
	c.flags.DurationVar(&d.Valid, "valid", 15*time.Minute, "how long the nodes have to find each other")
	c.flags.Uint64Var(&d.TokenFloor, "token-floor", 0, "the first fencing token is above this `number`")
	c.flags.BoolVar(&d.AfterLoss, "after-loss", false, "a cluster was lost: its leases may still run, so nothing is granted for 250 s")
	c.run = func(p *process, args arguments) (err error) {
		if err := noArguments(args); err != nil {
			return err
		}
		if d.Secrets, err = p.clusterSecrets(); err != nil {
			return err
		}
		credential, ends, err := d.Mint(time.Now())
		if err != nil {
			return withExit(exitUsage, err)
		}
		fmt.Fprintf(p.stderr, "TICKETING_BOOTSTRAP of each node, until %s:\n", ends.UTC().Format(time.RFC3339))
		_, err = fmt.Fprintln(p.stdout, credential)
		return err
	}
	return c
}

func clusterStatusCommand() *command {
	var f clusterFlags
	c := &command{
		name:    "cluster status",
		summary: "show the cluster as its leader sees it",
		environ: clusterEnviron(),
		exits:   clusterExits("0 done"),
		example: "ticketing cluster status --peer 10.0.0.1:5325",
		flags:   newFlags("cluster status"),
	}
	f.register(c.flags)
	asJSON := c.flags.Bool("json", false, "print JSON: the fields of /status")
	c.run = func(p *process, args arguments) error {
		if err := noArguments(args); err != nil {
			return err
		}
		return f.with(p, func(ctx context.Context, client *server.ControlClient) error {
			data, err := client.Status(ctx)
			if err != nil {
				return err
			}
			if *asJSON {
				return writeJSON(p.stdout, json.RawMessage(data))
			}
			var s nodeStatus
			if err := json.Unmarshal(data, &s); err != nil {
				return fmt.Errorf("the answer of the leader: %w", err)
			}
			return printCluster(p.stdout, s)
		})
	}
	return c
}

func clusterReplaceCommand() *command {
	var f clusterFlags
	c := &command{
		name:    "cluster replace",
		summary: "prepare the replacement of a node, and print the join credential of the new one",
		details: "The new process is started with the credential as TICKETING_JOIN. It joins, catches up, and takes the seat over;\n" +
			"then the old process, if it still runs, ends.",
		environ: clusterEnviron(),
		exits:   clusterExits("0 done", "1 rejected: it had no effect"),
		example: "ticketing cluster replace --seat 2 --peer-addr 10.0.0.9:5325 --peer 10.0.0.1:5325",
		flags:   newFlags("cluster replace"),
	}
	f.register(c.flags)
	seat := c.flags.Int("seat", 0, "the `seat` whose node is replaced")
	addr := c.flags.String("peer-addr", "", "`HOST:PORT` at which the other nodes reach the new one")
	valid := c.flags.Duration("valid", 15*time.Minute, "how long the credential holds")
	asJSON := c.flags.Bool("json", false, "print JSON")
	c.run = func(p *process, args arguments) error {
		if err := noArguments(args); err != nil {
			return err
		}
		if *seat < 1 || *seat > 5 || *addr == "" {
			return usageError("--seat (1 to 5) and --peer-addr are required")
		}
		return f.with(p, func(ctx context.Context, client *server.ControlClient) error {
			prepared, err := client.Prepare(ctx, *seat, *addr, *valid)
			if err != nil {
				return err
			}
			if *asJSON {
				return writeJSON(p.stdout, prepared)
			}
			fmt.Fprintf(p.stderr, "seat %d will be node %d at %s; TICKETING_JOIN of the new process, until %s:\n",
				prepared.Seat, prepared.NodeID, prepared.PeerAddr, prepared.Expires.UTC().Format(time.RFC3339))
			_, err = fmt.Fprintln(p.stdout, prepared.Credential)
			return err
		})
	}
	return c
}

func clusterAbortCommand() *command {
	var f clusterFlags
	c := &command{
		name:    "cluster abort",
		summary: "give up the replacement under way",
		details: "That is possible until the newcomer's configuration is in the log; from then on a replacement goes forward only.",
		environ: clusterEnviron(),
		exits:   clusterExits("0 done", "1 rejected: it had no effect"),
		example: "ticketing cluster abort --peer 10.0.0.1:5325",
		flags:   newFlags("cluster abort"),
	}
	f.register(c.flags)
	c.run = func(p *process, args arguments) error {
		if err := noArguments(args); err != nil {
			return err
		}
		return f.with(p, func(ctx context.Context, client *server.ControlClient) error {
			_, err := client.Abort(ctx)
			return tellDone(p, "the replacement is given up", err)
		})
	}
	return c
}

func clusterTransferCommand() *command {
	var f clusterFlags
	c := &command{
		name:    "cluster transfer",
		summary: "let another node lead",
		environ: clusterEnviron(),
		exits:   clusterExits("0 the transfer has begun", "1 rejected: it had no effect"),
		example: "ticketing cluster transfer --to 3 --peer 10.0.0.1:5325",
		flags:   newFlags("cluster transfer"),
	}
	f.register(c.flags)
	to := c.flags.Int("to", 0, "the `seat` of the node that is to lead; without it the most up-to-date one")
	c.run = func(p *process, args arguments) error {
		if err := noArguments(args); err != nil {
			return err
		}
		return f.with(p, func(ctx context.Context, client *server.ControlClient) error {
			_, err := client.Transfer(ctx, *to)
			return tellDone(p, "leadership is being handed over", err)
		})
	}
	return c
}

func clusterCanStopCommand() *command {
	var f clusterFlags
	c := &command{
		name:    "cluster can-stop",
		summary: "say whether a node may stop now without taking the majority along",
		environ: clusterEnviron(),
		exits:   clusterExits("0 it may", "1 it may not, and why"),
		example: "ticketing cluster can-stop --seat 2 --peer 10.0.0.2:5325 && systemctl reboot",
		flags:   newFlags("cluster can-stop"),
	}
	f.register(c.flags)
	seat := c.flags.Int("seat", 0, "the `seat` of the node; without it the one at the first --peer that answers")
	c.run = func(p *process, args arguments) error {
		if err := noArguments(args); err != nil {
			return err
		}
		return f.with(p, func(ctx context.Context, client *server.ControlClient) error {
			yes, why, err := client.CanStop(ctx, *seat)
			switch {
			case err != nil:
				return err
			case yes:
				return tellDone(p, "yes", nil)
			}
			fmt.Fprintf(p.stdout, "no: %s\n", why)
			return exitWith(exitNegative)
		})
	}
	return c
}

func tellDone(p *process, what string, err error) error {
	if err == nil {
		_, err = fmt.Fprintln(p.stdout, what)
	}
	return err
}
