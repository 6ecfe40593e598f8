package server

import (
	"slices"
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
