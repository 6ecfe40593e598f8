package server

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// What a member's answer to a rejoin means for the process that has asked.
func TestAnswersToARejoin(t *testing.T) {
	rejected := func(r raft.Reason) wire.ControlReply {
		return wire.ControlReply{Code: wire.ControlRejected, Reason: uint8(r), Text: r.Error()}
	}
	for name, test := range map[string]struct {
		answer wire.ControlReply
		opened bool // the marker saw the domain open; else its credential ended long ago
		code   int  // exitDone: it goes on asking
		says   string
	}{
		"the seat is another's":                       {rejected(raft.ReasonSeatTaken), true, exitConfig, "seat taken"},
		"another address":                             {rejected(raft.ReasonAddressMismatch), true, exitConfig, "cluster replace --seat 3"},
		"its own learner was given up":                {rejected(raft.ReasonIncarnationKnown), true, exitFailed, "given up before it became a voter"},
		"another replacement":                         {rejected(raft.ReasonUnderWay), false, exitDone, ""},
		"too soon":                                    {rejected(raft.ReasonTooSoon), false, exitDone, ""},
		"a predecessor that lives":                    {rejected(raft.ReasonStillHeard), false, exitDone, ""},
		"no leader":                                   {wire.ControlReply{Code: wire.ControlNotLeader}, true, exitDone, ""},
		"no leader, and the domain is open":           {wire.ControlReply{Code: wire.ControlNotLeader, Reason: uint8(raft.ReasonAlreadyOpen)}, false, exitDone, ""},
		"no leader, and nobody knows the domain open": {wire.ControlReply{Code: wire.ControlNotLeader}, false, exitConfig, "did not open before its credential ended"},
		"burned": {rejected(raft.ReasonBurned), false, exitConfig, "never will"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 1000)
			member := answering(t, 1, func(*wire.ControlRequest) *wire.ControlReply {
				asked <- struct{}{}
				reply := test.answer
				return &reply
			})
			life := lifeIn(testPeerDomain)
			life.opened, life.peers, life.credentialEnd = test.opened, []string{member.addr().String()}, time.Now().Add(-time.Hour).UnixMilli()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, stateName), appendMarker(nil, life), 0o600); err != nil {
				t.Fatal(err)
			}
			ts := startServer(t, func(cfg *Config) {
				cfg.StateDir, cfg.AllowVolatileStateDir = dir, true
				cfg.Cluster.PeerListen, cfg.Cluster.Secrets = freeAddr(t), []Secret{secretA}
			})
			if test.code == exitDone {
				for range 2 { // once more, after the answer was judged
					select {
					case <-asked:
					case err := <-ts.done:
						ts.once.Do(func() {})
						t.Fatalf("ended with %v", err)
					}
				}
				return
			}
			err := <-ts.done
			ts.once.Do(func() {})
			if ExitCode(err) != test.code || !strings.Contains(err.Error(), test.says) {
				t.Errorf("exit code %d, %v; want %d, %q", ExitCode(err), err, test.code, test.says)
			}
		})
	}
}

// Who has heard from the leader that it has to wait asks the leader again, and nobody else: a member that is out of reach would hold
// it up for seconds.
func TestRejoinAsksTheLeaderAgain(t *testing.T) {
	asked := make(chan struct{}, 1000)
	leader := answering(t, 1, func(*wire.ControlRequest) *wire.ControlReply {
		asked <- struct{}{}
		return &wire.ControlReply{Code: wire.ControlRejected, Reason: uint8(raft.ReasonStillHeard), Text: raft.ReasonStillHeard.Error()}
	})
	life := lifeIn(testPeerDomain)
	life.opened, life.peers = true, []string{leader.addr().String()}
	var others atomic.Int64
	for range 3 {
		l, addr := listenRaw(t)
		life.peers = append(life.peers, addr)
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				others.Add(1)
				nc.Close()
			}
		}()
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stateName), appendMarker(nil, life), 0o600); err != nil {
		t.Fatal(err)
	}
	startServer(t, func(cfg *Config) {
		cfg.StateDir, cfg.AllowVolatileStateDir = dir, true
		cfg.Cluster.PeerListen, cfg.Cluster.Secrets = freeAddr(t), []Secret{secretA}
	})
	<-asked
	<-asked // who was asked before the leader first answered has noticed by now
	before := others.Load()
	for range 3 {
		<-asked
	}
	if after := others.Load(); after != before {
		t.Errorf("asked others %d times since the leader has answered", after-before)
	}
}
