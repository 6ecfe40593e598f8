package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ticketing.internal/raft"
)

// openFirstNode opens the node of seat 1 of a bootstrap, which nothing drives but the test.
func openFirstNode(t *testing.T) *member {
	t.Helper()
	c := newCluster(t, 3)
	ts := openServer(t, 1, func(cfg *Config) {
		cfg.Listen, cfg.StateDir, cfg.AllowVolatileStateDir = c.clients[0], c.dirs[0], true
		cfg.Cluster.Seat, cfg.Cluster.PeerListen = 1, c.seats[0].PeerAddr
		cfg.Cluster.Secrets, cfg.Cluster.Bootstrap = []Secret{testClusterSecret}, Secret(c.credential)
	})
	t.Cleanup(ts.release)
	return ts.engine.authority.(*member)
}

// Which proved refusals end a process, and whether a supervisor shall start it again.
func TestRefusalsThatEndAProcess(t *testing.T) {
	own, stranger := raft.Member{NodeID: 7, Incarnation: raft.Incarnation{7}}, raft.Member{NodeID: 8, Incarnation: raft.Incarnation{8}}
	for name, test := range map[string]struct {
		why  peerRefusal
		code int // exitDone: it goes on
		says string
	}{
		"retired, another process has the seat":  {peerRefusal{reason: raft.RefuseRetired, voter: stranger}, exitConfig, "has taken over seat 1"},
		"retired, an earlier process of its own": {peerRefusal{reason: raft.RefuseRetired, voter: own}, exitFailed, "given up before it became a voter"},
		"regressed":                              {peerRefusal{reason: raft.RefuseRegressed}, exitFailed, "restored or copied"},
		"a seat of a domain that runs":           {peerRefusal{reason: raft.RefuseOtherIncarnation}, exitConfig, "ticketing cluster replace"},
		"another domain":                         {why: peerRefusal{reason: raft.RefuseDomain}},
		"meant for another process":              {why: peerRefusal{reason: raft.RefuseReceiver}},
		"too many requests":                      {why: peerRefusal{reason: raft.RefuseOverloaded}},
		"a secret that is not known there":       {why: peerRefusal{reason: raft.RefuseSecret}},
	} {
		m := openFirstNode(t)
		if err := m.marker.enter(newLife{domain: m.plan.domain, seat: 1, self: own, peerAddr: m.plan.peerAddr}); err != nil {
			t.Fatal(err)
		}
		var end error
		m.fail = func(err error) { end = err }
		m.refused(&peerIntroduction{}, test.why)
		if ExitCode(end) != test.code || end != nil && !strings.Contains(end.Error(), test.says) {
			t.Errorf("%s: exit code %d, %v; want %d, %q", name, ExitCode(end), end, test.code, test.says)
		}
	}
}

// A node of a bootstrap that has not begun waits for a minute after the credential's end, then ends for good.
func TestBootstrapThatNobodyComesTo(t *testing.T) {
	m := openFirstNode(t)
	clock := m.engine.clock
	clock.wallOffset.Store(m.plan.credentialEnd + 60_000 - 5_000 - clock.mono()/int64(time.Millisecond)) // far from it for a test, near for a minute
	if started, err := m.advanceBootstrap(); started || err != nil {
		t.Fatalf("55 s after the end: started %v, %v", started, err)
	}
	clock.wallOffset.Store(m.plan.credentialEnd + 60_001 - clock.mono()/int64(time.Millisecond))
	_, err := m.advanceBootstrap()
	if ExitCode(err) != exitConfig || !strings.Contains(err.Error(), "seats 2, 3 did not take part") {
		t.Errorf("a minute after the end: exit code %d, %v", ExitCode(err), err)
	}
}

// A restarted process whose marker never saw its domain open gives up a minute after the credential's end; one that saw it waits.
func TestRejoinToADomainThatNeverOpened(t *testing.T) {
	start := func(opened bool, since time.Duration) *testServer {
		life := lifeIn(newDomain)
		life.opened, life.credentialEnd = opened, time.Now().Add(-since).UnixMilli()
		life.peers = []string{freeAddr(t)} // where nobody is
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, stateName), appendMarker(nil, life), 0o600); err != nil {
			t.Fatal(err)
		}
		return startServer(t, func(cfg *Config) {
			cfg.StateDir, cfg.AllowVolatileStateDir = dir, true
			cfg.Cluster.PeerListen, cfg.Cluster.Secrets = freeAddr(t), []Secret{testClusterSecret}
		})
	}
	over := start(false, 61*time.Second)
	err := <-over.done
	over.once.Do(func() {})
	if ExitCode(err) != exitConfig || !strings.Contains(err.Error(), "did not open before its credential ended") {
		t.Errorf("never opened, long ago: exit code %d, %v", ExitCode(err), err)
	}
	for name, ts := range map[string]*testServer{"it may open yet": start(false, 30*time.Second), "it was open": start(true, time.Hour)} {
		await(t, name+": a process that has asked in vain", func() bool {
			return strings.HasPrefix(observer{ts.Server}.ready(), "rejoin: asked ")
		})
		select {
		case err := <-ts.done:
			ts.once.Do(func() {})
			t.Errorf("%s: ended with %v", name, err)
		default:
		}
	}
}

// Whoever has the cluster secret can show any number of pairs: terms are remembered of a bounded number.
func TestTermsShownAreBounded(t *testing.T) {
	m := openFirstNode(t)
	for i := range raft.NodeID(3 * mostShown) {
		m.noteTerm(peerMember(i+1), 1)
	}
	if len(m.shown) > mostShown {
		t.Errorf("%d terms are remembered", len(m.shown))
	}
	m.noteTerm(peerMember(1), 7)
	m.noteTerm(peerMember(1), 6)
	if m.shown[peerMember(1)] != 7 {
		t.Errorf("term %d is remembered of a pair that has shown 7, then 6", m.shown[peerMember(1)])
	}
}
