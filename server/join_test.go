package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// The marker of another domain is what a process has to come back with: it is given up only when the new domain's leader has
// answered, and then before the process asks to be admitted.
func TestJoinKeepsTheOldMarkerUntilTheLeaderAnswers(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stateName), appendMarker(nil, lifeIn(oldDomain)), 0o600); err != nil {
		t.Fatal(err)
	}
	domainOnDisk := func() raft.Domain {
		content, err := os.ReadFile(filepath.Join(dir, stateName))
		if err != nil {
			t.Error(err)
			return raft.Domain{}
		}
		m, err := decodeMarker(content)
		if err != nil {
			t.Error(err)
			return raft.Domain{}
		}
		return m.domain
	}
	asked := 0
	admits := make(chan raft.Domain, 1)
	member := answering(t, 1, func(r *wire.ControlRequest) *wire.ControlReply {
		switch asked++; {
		case r.Kind == wire.ControlStatus && asked < 3:
			if d := domainOnDisk(); d != oldDomain {
				t.Errorf("asked %d times in vain, and the marker is of domain %x", asked, d[:1])
			}
			return &wire.ControlReply{Code: wire.ControlNotLeader}
		case r.Kind == wire.ControlStatus:
			return &wire.ControlReply{Code: wire.ControlDone}
		case len(admits) == 0:
			admits <- domainOnDisk()
		}
		return &wire.ControlReply{Code: wire.ControlRejected, Reason: uint8(raft.ReasonUnderWay)}
	})
	credential := auth.JoinCredential{Domain: testPeerDomain, Seat: 3, NodeID: 7, PeerAddr: "n7:5325", NotAfterMillis: time.Now().Add(time.Minute).UnixMilli()}
	text, err := credential.Mint(clusterSecrets(t, secretA))
	if err != nil {
		t.Fatal(err)
	}
	startServer(t, func(cfg *Config) {
		cfg.StateDir, cfg.AllowVolatileStateDir = dir, true
		cfg.Cluster.PeerListen, cfg.Cluster.Secrets, cfg.Cluster.Join = freeAddr(t), []Secret{secretA}, Secret(text)
		cfg.Cluster.Peers = []string{member.addr().String()}
	})
	if d := <-admits; d != testPeerDomain {
		t.Errorf("it asks to be admitted with a marker of domain %x", d[:1])
	}
}
