package server

import (
	"slices"
	"strings"
	"testing"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// The first node may connect as soon as the port is open, and it shows itself once: a bootstrap that missed it would wait for ever.
func TestBootstrapKnowsWhoConnectsFirst(t *testing.T) {
	c := newCluster(t, 3)
	ts := openServer(t, 1, func(cfg *Config) {
		cfg.Listen, cfg.StateDir, cfg.AllowVolatileStateDir = c.clients[0], c.dirs[0], true
		cfg.Cluster.Seat, cfg.Cluster.PeerListen = 1, c.seats[0].PeerAddr
		cfg.Cluster.Secrets, cfg.Cluster.Bootstrap = []Secret{testClusterSecret}, Secret(c.credential)
	})
	defer ts.release()
	m := ts.engine.authority.(*member)
	early := &peerIntroduction{role: wire.PeerRolePeer, own: m.self, seat: 2, credential: m.plan.credential}
	early.Domain, early.Sender, early.Receiver = m.plan.domain, raft.Member{NodeID: 2, Incarnation: raft.Incarnation{2}}, m.self
	if why := m.admit(early); why.reason != raft.RefuseNone {
		t.Fatal(why.text)
	}
	if missing := m.boot.Missing(); !slices.Equal(missing, []raft.Seat{3}) {
		t.Errorf("seats %v are missing, want 3 alone", missing)
	}
	// A handshake that began before this process had its NodeId has bound the connection to a pair that nobody sends to.
	early.own.NodeID = 0
	if why := m.admit(early); why.reason != raft.RefuseReceiver {
		t.Errorf("a connection of a pair that this process was: %v; want %v", why.reason, raft.RefuseReceiver)
	}
}

// Nodes of one bootstrap that were given different credentials are told so, whoever looks.
func TestBootstrapWithDifferentCredentials(t *testing.T) {
	c := newCluster(t, 3)
	mine := c.start(0, nil)
	c.mint([16]byte{9})
	theirs := c.start(2, nil)
	for ts, seat := range map[*testServer]string{mine: "3", theirs: "1"} {
		await(t, "the node of another credential to be named", func() bool {
			return strings.Contains(observer{ts.Server}.ready(), "; the node of seat "+seat+" was given another credential than this one: all first nodes need the same TICKETING_BOOTSTRAP")
		})
		await(t, "a log line that says what to do", func() bool {
			return strings.Contains(ts.log.String(), `says="another bootstrap credential: all first nodes need the same TICKETING_BOOTSTRAP"`)
		})
	}
}

func TestWhomABootstrapWaitsFor(t *testing.T) {
	for want, missing := range map[string][]raft.Seat{
		"waiting for the nodes of the bootstrap: seat 3 does not take part yet":   {3},
		"waiting for the nodes of the bootstrap: seats 1, 3 do not take part yet": {1, 3},
	} {
		if got := bootstrapWait(missing, 0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Once a node has accepted an InitialConfig, another process has no use for a seat in it.
func TestBootstrapRefusesAnotherLifeOfASeat(t *testing.T) {
	m := openFirstNode(t)
	introduce := func(id raft.NodeID, incarnation byte) peerRefusal {
		in := &peerIntroduction{role: wire.PeerRolePeer, own: m.self, seat: raft.Seat(id), credential: m.plan.credential}
		in.Domain, in.Sender, in.Receiver = m.plan.domain, raft.Member{NodeID: id, Incarnation: raft.Incarnation{incarnation}}, m.self
		return m.admit(in)
	}
	for _, id := range []raft.NodeID{2, 3} {
		if why := introduce(id, byte(id)); why.reason != raft.RefuseNone {
			t.Fatal(why.text)
		}
	}
	if why := introduce(3, 33); why.reason != raft.RefuseNone { // nobody has accepted anything yet
		t.Fatal(why.text)
	}
	m.boot.Accept(m.boot.Propose())
	if why := introduce(3, 33); why.reason != raft.RefuseNone {
		t.Errorf("the process that was accepted: %s", why.text)
	}
	if why := introduce(3, 3); why.reason != raft.RefuseOtherIncarnation {
		t.Errorf("another process in seat 3: %q", why.text)
	}
}
