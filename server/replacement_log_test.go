package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ticketing.internal/raft"
)

// logged waits until each of the nodes has logged a line with all the parts.
func logged(t *testing.T, nodes []*testServer, parts ...string) {
	t.Helper()
	for _, ts := range nodes {
		await(t, "a line with "+strings.Join(parts, ", "), func() bool {
			for line := range strings.Lines(ts.log.String()) {
				all := true
				for _, part := range parts {
					all = all && strings.Contains(line, part)
				}
				if all {
					return true
				}
			}
			return false
		})
	}
}

// Who watches the log of any node learns of each step of a replacement, and a seat that is taken over again too soon of how long it waits.
func TestReplacementsAreLogged(t *testing.T) {
	c := newCluster(t, 3).startAll()
	var peers []string
	for _, s := range c.seats {
		peers = append(peers, s.PeerAddr)
	}
	operator := controlClient(t, testClusterSecret, peers...)
	if _, err := operator.Prepare(background(t), 2, "127.0.0.1:9", time.Minute); err != nil {
		t.Fatal(err)
	}
	logged(t, c.nodes, "level=INFO", `"a replacement is prepared" seat=2 node_id=4 peer=127.0.0.1:9 cause="ticketing cluster replace"`)
	if _, err := operator.Abort(background(t)); err != nil {
		t.Fatal(err)
	}
	logged(t, c.nodes, "level=INFO", `"a replacement is given up" seat=2 node_id=4 peer=127.0.0.1:9 cause="ticketing cluster abort"`)

	leader := c.leader()
	i, others := 0, []*testServer{c.nodes[1], c.nodes[2]}
	if c.nodes[0] == leader {
		i, others = 1, []*testServer{c.nodes[0], c.nodes[2]}
	}
	c.nodes[i].end()
	again := c.start(i, nil)
	logged(t, others, "level=INFO", `"the newcomer of a replacement is admitted"`, "node_id=5 peer="+peers[i], `cause="a rejoin after a restart"`)
	await(t, "the node that has come back", again.ready)
	again.end()
	again = c.start(i, nil)
	await(t, "how long it waits", func() bool {
		why := observer{again.Server}.ready()
		return strings.Contains(why, raft.ReasonTooSoon.Error()+" ") && strings.HasSuffix(why, " s")
	})
}

func TestCauseOfAnAbort(t *testing.T) {
	for cause, want := range map[raft.AbortCause]string{
		raft.AbortOperator: "cluster abort", raft.AbortExpired: "unused", raft.AbortSilent: "silent for 60 s", raft.AbortSlow: "10 min", 9: "cause 9",
	} {
		v := newEvents(newClock(), slog.New(slog.DiscardHandler))
		v.replacement(&raft.Control{Kind: raft.ControlAbort, Cause: cause}, &raft.Outcome{})
		if e := <-v.queue; e.level != slog.LevelInfo || !strings.Contains(e.attrs[len(e.attrs)-1].String(), want) {
			t.Errorf("cause %d is logged as %v, want %q", cause, e, want)
		}
	}
}

func TestPaceSeconds(t *testing.T) {
	registry := &raft.Registry{Paces: []raft.Pace{{Seat: 1, LastMillis: 5000, IntervalMillis: 20_000}, {Seat: 2, LastMillis: 5000, IntervalMillis: 10_000}}}
	for wall, want := range map[int64]int64{5000: 10, 5001: 10, 14_000: 1, 14_999: 1, 15_000: 1} {
		if got := paceSeconds(registry, 2, wall); got != want {
			t.Errorf("at %d ms: %d s, want %d", wall, got, want)
		}
	}
}
