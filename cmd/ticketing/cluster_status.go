package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"ticketing.internal/server"
)

func clusterStatusCommand() *command {
	flags := newFlags("cluster status")
	asJSON := flags.Bool("json", false, "print JSON: the fields of /status")
	return asksCluster(&command{
		name:    "cluster status",
		summary: "show the cluster as its leader sees it",
		exits:   []string{"0 done", "64 usage"},
		example: "ticketing cluster status --peer 10.0.0.1:5325",
		flags:   flags,
	}, nil, func(ctx context.Context, p *process, client *server.ControlClient) error {
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

// printCluster shows a cluster as its leader sees it.
func printCluster(w io.Writer, s nodeStatus) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "domain\t%s\n", plain(s.Domain))
	fmt.Fprintf(t, "leader\t%s, term %d\n", leaderOf(s), s.Term)
	fmt.Fprintf(t, "serving\t%s\n", readiness(s))
	fmt.Fprintf(t, "held keys\t%d\n", s.HeldKeys)
	if r := s.Replacement; r != nil {
		fmt.Fprintf(t, "replacement\t%v\n", r)
	}
	t.Flush()
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nSEAT\tNODE\tROLE\tCLIENTS\tPEERS\tBEHIND\tHEARD\n")
	for _, m := range s.Members {
		heard := "-"
		if s.NodeID == m.NodeID {
			heard = "leader"
		} else if m.LastHeardMs != nil {
			heard = fmt.Sprintf("%d ms ago", *m.LastHeardMs)
		}
		fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%s\t%s\n", m.Seat, m.NodeID, plain(m.Role), plain(m.ClientAddr), plain(m.PeerAddr), count(m.Lag), heard)
	}
	return t.Flush()
}
