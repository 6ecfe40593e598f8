package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ticketing.internal/server"
)

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
	switch {
	case !ok || err != nil:
		return usageError("want N=HOST:PORT, such as 1=10.0.0.1:5325")
	case seat < 1 || seat > 5:
		return usageError("a cluster has 3 or 5 nodes, in the seats 1 to 3 or 1 to 5")
	case s[seat] != "":
		return usageError("seat %d is given twice, the first time as %s", seat, s[seat])
	}
	s[seat] = addr
	return nil
}

func clusterInitCommand() *command {
	c := &command{
		name:    "cluster init",
		args:    "--seat 1=HOST:PORT --seat 2=HOST:PORT --seat 3=HOST:PORT",
		summary: "print the bootstrap credential of a new cluster",
		details: "All first nodes are given the same credential as TICKETING_BOOTSTRAP, and each its own TICKETING_SEAT. Every one of\n" +
			"them has to take part before it ends. It is a secret, and good for one bootstrap: after a failed one make another.\n" +
			"No node is asked, and nothing is changed anywhere.",
		environ: []string{"TICKETING_CLUSTER_SECRET the cluster secret (or TICKETING_CLUSTER_SECRET_FILE)"},
		exits:   []string{"0 done", "64 usage", "78 configuration, or a wrong clock"},
		example: "ticketing cluster init --seat 1=10.0.0.1:5325 --seat 2=10.0.0.2:5325 --seat 3=10.0.0.3:5325",
		flags:   newFlags("cluster init"),
	}
	d := server.NewDomain{Seats: seatsFlag{}}
	c.flags.Var(seatsFlag(d.Seats), "seat", "`N=HOST:PORT`: the peer address of the node in seat N; three or five times")
	c.flags.DurationVar(&d.Valid, "valid", 15*time.Minute, "how long the nodes have to find each other")
	c.flags.Uint64Var(&d.TokenFloor, "token-floor", 0, "the first fencing token is above this `number`")
	c.flags.BoolVar(&d.AfterLoss, "after-loss", false, "a cluster was lost: its leases may still run, so nothing is granted for 250 s")
	asJSON := c.flags.Bool("json", false, "print JSON")
	c.run = func(p *process, args arguments) (err error) {
		if err := noArguments(args); err != nil {
			return err
		}
		if d.TokenFloor > server.MaxTokenFloor {
			return usageError("--token-floor %d: at most %d (2^62) is allowed", d.TokenFloor, uint64(server.MaxTokenFloor))
		}
		if d.Secrets, err = p.clusterSecrets(); err != nil {
			return err
		}
		credential, ends, err := d.Mint(time.Now())
		switch {
		case err != nil && server.ExitCode(err) == exitConfig:
			return withExit(exitConfig, err)
		case err != nil:
			return withExit(exitUsage, err)
		case *asJSON:
			return writeJSON(p.stdout, struct {
				Expires    time.Time `json:"expires"`
				Credential string    `json:"credential"` // a secret
			}{ends.UTC().Truncate(time.Millisecond), credential})
		}
		fmt.Fprintf(p.stderr, "TICKETING_BOOTSTRAP of each node, until %s:\n", ends.UTC().Format(time.RFC3339))
		_, err = fmt.Fprintln(p.stdout, credential)
		return err
	}
	return c
}
