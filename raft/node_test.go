package raft

import (
	"fmt"
	"testing"
)

func TestClusterServes(t *testing.T) {
	for _, voters := range []int{3, 5} {
		t.Run(fmt.Sprint(voters), func(t *testing.T) {
			c := newTestCluster(t, voters)
			c.until(300, "a leader that serves", func() bool { return c.leader() != nil && c.leader().serving() })
			l := c.leader()
			for i := range 100 {
				c.propose(l, fmt.Sprint(i))
			}
			c.tick(30)
			if l.own != 100 || l.lost != 0 || !c.converged() {
				t.Fatalf("own %d, lost %d, %v", l.own, l.lost, c.procs)
			}
		})
	}
}

func TestReplacementOfDeadVoter(t *testing.T) {
	c := newTestCluster(t, 3)
	c.elect(c.procs[0])
	c.propose(c.procs[0], "a", "b")
	c.procs[1].down = true
	prepared := c.control(&Control{Kind: ControlPrepare, Seat: 2, PeerAddr: "n4:5325", ExpiresMillis: c.wall + 60_000})
	if prepared.Result != ResultReplacementPrepared || prepared.Member.NodeID != 4 {
		t.Fatalf("prepare: %+v", prepared)
	}
	newcomer := testMember(4)
	p := c.start(newcomer, nil)
	admit := &Control{Kind: ControlAdmit, Seat: 2, Newcomer: newcomer, Credential: CredentialID{'j'}, PeerAddr: "n4:5325", ClientAddr: "n4:5225"}
	if o := c.control(admit); o.Result != ResultAdmissionAccepted {
		t.Fatalf("admit: %+v", o)
	}
	c.until(300, "the final configuration", func() bool {
		return c.leader() != nil && c.leader().registry.Replacement == nil
	})
	c.propose(c.leader(), "c")
	c.tick(30)
	if !c.converged() || !p.promotable() || len(p.app.commands) != 3 {
		t.Fatalf("newcomer %v with %d commands", p, len(p.app.commands))
	}
	if p.registry.refuses(testMember(2)) != RefuseRetired {
		t.Error("the predecessor is not retired")
	}
}
