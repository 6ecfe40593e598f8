package server

import (
	"sync/atomic"
	"testing"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// mutable is a peerSender of a node that is cut off at some time.
type mutable struct {
	peerSender
	mute atomic.Bool
}

func (m *mutable) send(message *raft.Message) {
	if !m.mute.Load() {
		m.peerSender.send(message)
	}
}

// A leader that is cut off steps down: who only waits is sent away at once, and what is proposed is told to be unknown after 10 s.
func TestStepDownWithProposalsUndecided(t *testing.T) {
	c := newCluster(t, 3)
	c.startAllBehind(func(_ int, own peerSender) peerSender { return &mutable{peerSender: own} })
	leader := c.leader()
	r := replicaOf(leader)
	r.peers.(*mutable).mute.Store(true)
	a := leader.session(t)
	a.send(join(acquire(1, "k", 0, 30_000), acquire(2, "k", 30_000, 30_000)))
	a.expect(wire.OpMoved, 0, 0)
	a.expect(wire.OpBusy, uint16(wire.BusyNotLeader), 2)
	leader.engine.batch(&leader.self, func(now lock.Time) {
		if left := time.Duration(r.undecided.giveUp - now.Mono); left <= 0 || left > 10*time.Second {
			t.Errorf("it gives up in %v", left)
		}
		r.undecided.giveUp = now.Mono // 10 s later
	})
	next := func() wire.Reply {
		for {
			if reply := a.reply(); reply.Op != wire.OpMoved { // another may lead by now
				return reply
			}
		}
	}
	if reply := next(); reply.Op != wire.OpError || reply.Code != uint16(wire.Indeterminate) || reply.Owner != 1 {
		t.Fatalf("%c %d of %d, where the fate of 1 is unknown", reply.Op, reply.Code, reply.Owner)
	}
	a.send(ping(3)) // the connection stays
	if reply := next(); reply.Op != wire.OpPong {
		t.Fatalf("%c of %d, and no pong", reply.Op, reply.Owner)
	}
}
