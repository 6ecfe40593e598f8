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

func TestStatus(t *testing.T) {
	c := newTestCluster(t, 3)
	held := func() int {
		count := 0
		for _, p := range c.procs {
			if p.Status().BootstrapHeld {
				count++
			}
		}
		return count
	}
	if held() != 0 {
		t.Error("Bootstrap is held before there is one")
	}
	c.elect(c.procs[0])
	c.tick(15)
	s := c.procs[0].Status()
	if held() != 3 || s.State.Role != RoleLeader || len(s.Peers) != 2 || s.Peers[0].Match != s.Last || !s.Peers[0].Heard ||
		s.Applied != s.Commit || s.ConfigIndex != 0 || len(s.Configuration.Voters) != 3 || s.LogBytes == 0 && s.Last >= s.First {
		t.Errorf("%d hold Bootstrap; %+v", held(), s)
	}
	if got := c.procs[0].Node.String(); got != "1/01010000 leader of term 1, 3 of 3 applied" {
		t.Error(got)
	}
}

func TestEveryWordHasAText(t *testing.T) {
	for r := ReasonMalformed; r <= ReasonIncarnationKnown; r++ {
		if int(r) >= len(reasonTexts) || reasonTexts[r] == "" {
			t.Errorf("reason %d has none", r)
		}
	}
	for r := RefuseDomain; r <= RefuseTLS; r++ {
		if r.Error() == Refusal(99).Error() {
			t.Errorf("refusal %d has none", r)
		}
	}
	for k := EventRoleChanged; k <= EventTimeoutNow; k++ {
		if eventNames[k] == "" {
			t.Errorf("event %d has none", k)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	c := newTestCluster(t, 3)
	good := c.procs[0].cfg
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no incarnation":               func(cfg *Config) { cfg.Self.Incarnation = Incarnation{} },
		"a heartbeat that is too long": func(cfg *Config) { cfg.Heartbeat = cfg.ElectionTimeout/3 + cfg.Tick },
		"a log that is too small":      func(cfg *Config) { cfg.LogBytes = 1000 },
		"messages over a frame":        func(cfg *Config) { cfg.MaxMessageBytes = 1 << 20 },
		"no state machine":             func(cfg *Config) { cfg.StateMachine = nil },
		"no generator":                 func(cfg *Config) { cfg.Rand = nil },
		"another domain":               func(cfg *Config) { cfg.Domain[0]++ },
		"four voters":                  func(cfg *Config) { cfg.Initial = testInitial(4) },
		"a voter that is not named":    func(cfg *Config) { cfg.Self.NodeID = 9 },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
