package main

import (
	"strings"
	"testing"

	"ticketing.internal/raft"
)

// jointScript takes a replacement to the point where the joint entry is in everybody's log, ends the reign of the leader that made
// it, and lets the predecessor alone be elected, and keep the office until it may hand over.
type jointScript struct {
	predecessor, leader raft.NodeID

	early bool // the reign ends before the joint entry is committed, not only before the final entry has left the leader

	joint    uint64 // its index; 0: not seen
	held     bool   // the predecessor has it
	silent   bool   // the leader that made it is not heard any more
	handOver bool
}

// pass is a rule.
func (s *jointScript) pass(l *letter) bool {
	if _, index := l.controlIn(raft.ControlJoint); index != 0 && s.joint == 0 {
		s.joint = index
	}
	if _, index := l.controlIn(raft.ControlFinal); index != 0 && l.from == s.leader {
		s.silent = true
	}
	if s.handOver {
		return true
	}
	m := l.message
	switch {
	case l.from == s.leader && s.silent:
		return false
	case m.Kind == raft.MsgAppendEntries && l.from == s.leader && l.to != s.predecessor && s.joint != 0:
		l.cutAfter(s.joint) // nobody's log gets longer than the predecessor's
	case m.Kind == raft.MsgAppendEntriesReply && l.to == s.leader && !m.Reject && s.joint != 0 && m.Index >= s.joint:
		if l.from == s.predecessor {
			s.held = true
			s.silent = s.silent || s.early
		}
		return s.held && !s.early // nobody else commits it before the predecessor has it
	case m.Kind == raft.MsgPreVote || m.Kind == raft.MsgRequestVote:
		return l.from == s.predecessor
	case m.Kind == raft.MsgTimeoutNow:
		return false
	}
	return true
}

// newcomer is the NodeId of the first replacement in a cluster of three.
const newcomer raft.NodeID = 4

// A leader that is only believed dead is replaced, comes back while the joint entry is in the log, and is elected: by then it votes in
// the old half alone. It serves, hands over to the new half as soon as it can, and ends when its seat is taken.
func TestChaosPredecessorLeadsJoint(t *testing.T) {
	requireChaos(t)
	for name, early := range map[string]bool{"joint entry not committed": true, "final entry appended": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startGatedCluster(t, 3)
			old := c.leader()
			l, loyal := c.load(), c.loyalLoad(old)
			l.progress()
			loyal.progress()

			// Nobody hears from it: it is believed dead.
			s := &jointScript{predecessor: old.firstID(), early: early}
			c.gates.set(func(l *letter) bool { return l.from != s.predecessor && l.to != s.predecessor })
			eventually(t, "the leader to step down", func() bool {
				v, ok := c.view(old)
				return ok && v.Role != "leader"
			})
			cut := c.history.now()
			l.progress()
			leader := c.leader()
			s.leader = leader.firstID()
			next := newChaosNode(t, old.seat)
			c.gates.build(next)
			c.prepareReplacementAt(next)

			// It is back before the newcomer has caught up.
			c.history.expectNone(t, "loyal", cut, c.history.now())
			c.gates.set(func(l *letter) bool {
				return l.to != newcomer || l.message.Kind != raft.MsgAppendEntries && l.message.Kind != raft.MsgInstallSnapshot
			})
			c.start(next)
			eventually(t, "the admission of the newcomer", func() bool {
				v, ok := c.view(leader)
				return ok && v.Replacement != nil && v.Replacement.Phase == "learner"
			})
			c.awaitReady(old)
			c.gates.set(s.pass)
			eventually(t, "the predecessor to lead in the joint phase", func() bool {
				v, ok := c.view(old)
				return ok && v.Role == "leader" && v.Ready && v.Replacement != nil && v.Replacement.Phase == "joint"
			})
			loyal.progress()
			l.progress()
			if v, _ := c.view(old); v.Role != "leader" || v.Replacement == nil || v.Replacement.Phase != "joint" {
				t.Errorf("the predecessor does not lead in the joint phase any more: role %q, %v", v.Role, v.Replacement)
			}

			c.gates.mu.Lock()
			s.handOver = true
			c.gates.mu.Unlock()
			if o := old.process.wait().expect(t, exitConfig); !strings.Contains(o.stderr, "this node is retired: member 4") {
				t.Errorf("stderr %q", o.stderr)
			}
			c.nodes[old.seat-1] = next
			l.progress()
			c.finish()
		})
	}
}

// A learner that dies while it catches up, before it has anything, comes back by itself, as another learner.
func TestChaosLearnerCrashes(t *testing.T) {
	c := startGatedCluster(t, 3)
	l := c.load()
	old := c.others(c.leader())[0]
	c.kill(old)
	next := newChaosNode(t, old.seat)
	c.gates.build(next)
	c.prepareReplacementAt(next)
	c.nodes[old.seat-1] = next
	sent := false
	c.gates.set(func(l *letter) bool {
		state := l.to == newcomer && (l.message.Kind == raft.MsgAppendEntries || l.message.Kind == raft.MsgInstallSnapshot)
		sent = sent || state
		return !state
	})
	c.start(next)
	eventually(t, "the leader to send the learner its state", func() bool {
		c.gates.mu.Lock()
		defer c.gates.mu.Unlock()
		return sent
	})
	before, _ := c.view(next)
	if before.Role != "learner" {
		t.Fatalf("the newcomer is a %s before it has anything", before.Role)
	}
	c.kill(next)
	l.progress()
	c.gates.set(nil)
	c.start(next)
	c.awaitReady(next)
	if after, _ := c.view(next); after.NodeID <= before.NodeID || after.Seat != before.Seat {
		t.Errorf("node %d of seat %d came back as node %d of seat %d", before.NodeID, before.Seat, after.NodeID, after.Seat)
	}
	l.progress()
	c.finish()
}
