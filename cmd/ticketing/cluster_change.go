package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"ticketing.internal/server"
)

// Exit codes of what changes a cluster, or is about a seat.
const (
	rejected       = "1 rejected: it had no effect"
	usageOrSeat    = "64 usage, or a seat that the cluster does not have"
	unknownOutcome = "76 whether it took effect is not known"
)

func clusterReplaceCommand() *command {
	flags := newFlags("cluster replace")
	seat := flags.Int("seat", 0, "the `seat` whose node is replaced")
	addr := flags.String("peer-addr", "", "`HOST:PORT` at which the other nodes reach the new one")
	valid := flags.Duration("valid", 15*time.Minute, "how long the credential holds")
	asJSON := flags.Bool("json", false, "print JSON")
	check := func() error {
		if err := checkSeat(flags, "seat", *seat); err != nil {
			return err
		}
		if *seat == 0 || *addr == "" {
			return usageError("--seat (1 to 5) and --peer-addr are required")
		}
		if err := server.CheckPeerAddress(*addr); err != nil {
			return usageError("--peer-addr %q: %v", *addr, err)
		}
		if *valid < time.Second || *valid > 24*time.Hour {
			return usageError("--valid %v: 1s to 24h is allowed", *valid)
		}
		return nil
	}
	return asksCluster(&command{
		name:    "cluster replace",
		args:    "--seat SEAT --peer-addr HOST:PORT",
		summary: "prepare the replacement of a node, and print the join credential of the new one",
		details: "The new process is started with the credential as TICKETING_JOIN. It joins, catches up, and takes the seat over;\n" +
			"then the old process, if it still runs, ends.",
		exits:   []string{"0 done", rejected, usageOrSeat, unknownOutcome},
		example: "ticketing cluster replace --seat 2 --peer-addr 10.0.0.9:5325 --peer 10.0.0.1:5325",
		flags:   flags,
	}, check, func(ctx context.Context, p *process, client *server.ControlClient) error {
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

func clusterAbortCommand() *command {
	return asksCluster(&command{
		name:    "cluster abort",
		summary: "give up the replacement under way",
		details: "That is possible until the newcomer's configuration is in the log; from then on a replacement goes forward only.",
		exits:   []string{"0 done", rejected, "64 usage", unknownOutcome},
		example: "ticketing cluster abort --peer 10.0.0.1:5325",
		flags:   newFlags("cluster abort"),
	}, nil, func(ctx context.Context, p *process, client *server.ControlClient) error {
		_, err := client.Abort(ctx)
		return tell(p, "the replacement is given up", err)
	})
}

func clusterTransferCommand() *command {
	flags := newFlags("cluster transfer")
	to := flags.Int("to", 0, "the `seat` of the node that is to lead; without it the most up-to-date one")
	return asksCluster(&command{
		name:    "cluster transfer",
		args:    "[--to SEAT]",
		summary: "let another node lead",
		exits:   []string{"0 the transfer has begun, or the node leads already", rejected, usageOrSeat, unknownOutcome},
		example: "ticketing cluster transfer --to 3 --peer 10.0.0.1:5325",
		flags:   flags,
	}, func() error { return checkSeat(flags, "to", *to) }, func(ctx context.Context, p *process, client *server.ControlClient) error {
		said, err := client.Transfer(ctx, *to)
		if said == "" {
			said = "leadership is being handed over"
		}
		return tell(p, said, err)
	})
}

func clusterCanStopCommand() *command {
	flags := newFlags("cluster can-stop")
	seat := flags.Int("seat", 0, "the `seat` of the node; without it the one at the first --peer that answers")
	asJSON := flags.Bool("json", false, "print JSON")
	return asksCluster(&command{
		name:    "cluster can-stop",
		args:    "[--seat SEAT]",
		summary: "say whether a node may stop now without taking the majority along",
		exits:   []string{"0 it may", "1 it may not, and why", usageOrSeat},
		example: "ticketing cluster can-stop --seat 2 --peer 10.0.0.2:5325 && systemctl reboot",
		flags:   flags,
	}, func() error { return checkSeat(flags, "seat", *seat) }, func(ctx context.Context, p *process, client *server.ControlClient) error {
		yes, why, err := client.CanStop(ctx, *seat)
		if err != nil {
			return err
		}
		answer := "no"
		if yes {
			answer = "yes"
		}
		if *asJSON {
			err = writeJSON(p.stdout, struct {
				MayStop bool   `json:"may_stop"`
				Why     string `json:"why"`
			}{yes, why})
		} else {
			err = tell(p, answer+": "+why, nil)
		}
		if err == nil && !yes {
			err = exitWith(exitNegative)
		}
		return err
	})
}

// checkSeat refuses a seat outside 1 to 5, if the flag called name is given at all.
func checkSeat(flags *flag.FlagSet, name string, seat int) (err error) {
	flags.Visit(func(f *flag.Flag) {
		if f.Name == name && (seat < 1 || seat > 5) {
			err = usageError("--%s %d: a seat is 1 to 5", name, seat)
		}
	})
	return err
}

// tell prints what was done, unless err says that it failed.
func tell(p *process, what string, err error) error {
	if err == nil {
		_, err = fmt.Fprintln(p.stdout, what)
	}
	return err
}
