package raft

import (
	"errors"
	"slices"
	"testing"
)

// newBootstraps returns the bootstraps of three seats, each of which has been shown to all.
func newBootstraps(t *testing.T, change func(i int, cfg *BootstrapConfig)) []*Bootstrap {
	t.Helper()
	infos := testInitial(3).Members
	var seats []SeatAddr
	for _, m := range infos {
		seats = append(seats, SeatAddr{Seat: m.Seat, PeerAddr: m.PeerAddr})
	}
	var all []*Bootstrap
	for i, m := range infos {
		cfg := BootstrapConfig{
			Domain: testDomain, Seats: seats, TokenBase: 1000, NotAfterMillis: testWall + 900_000,
			Credential: CredentialID{'b'}, Self: m,
		}
		if change != nil {
			change(i, &cfg)
		}
		b, err := NewBootstrap(cfg)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	for _, b := range all {
		for _, m := range infos {
			b.PeerShown(m)
		}
	}
	return all
}

func accept(t *testing.T, b *Bootstrap, c *InitialConfig) {
	t.Helper()
	if err := b.Check(c); err != nil {
		t.Fatal(err)
	}
	b.Accept(c)
}

func TestBootstrapStartsWhenAllHaveAccepted(t *testing.T) {
	all := newBootstraps(t, func(i int, cfg *BootstrapConfig) {
		if i == 2 {
			cfg.OtherDomain, cfg.TokenMark = true, 5000
		}
	})
	c := all[0].Propose()
	if c == nil || all[1].Propose() != nil {
		t.Fatal("InitialConfig is seat 1's to make")
	}
	for _, b := range all {
		if _, ok := b.Start(); ok {
			t.Fatal("started before anybody accepted")
		}
		accept(t, b, c)
	}
	for _, a := range all[1].Known() {
		all[0].Record(a)
	}
	if _, ok := all[0].Start(); ok || !slices.Equal(all[0].Missing(), []Seat{3}) {
		t.Fatalf("started with 2 of 3, missing %v", all[0].Missing())
	}
	for _, a := range all[2].Known() {
		all[0].Record(a)
	}
	s, ok := all[0].Start()
	if !ok || s.TokenBase != 5000 || !s.AfterLoss || s.Initial.Hash() != c.Hash() {
		t.Errorf("start %+v, %v", s, ok)
	}
}

func TestBootstrapWaitsForEverybody(t *testing.T) {
	all := newBootstraps(t, nil)
	all[0].PeerGone(testMember(3))
	if all[0].Propose() != nil {
		t.Error("InitialConfig while seat 3 is not connected")
	}
	if missing := all[0].Missing(); !slices.Equal(missing, []Seat{3}) {
		t.Errorf("missing %v while seat 3 is not connected", missing)
	}
	restarted := testInitial(3).Members[2]
	restarted.Member.Incarnation = Incarnation{42}
	all[0].PeerShown(restarted)
	c := all[0].Propose()
	if c == nil || c.Members[2].Member != restarted.Member {
		t.Fatal("InitialConfig does not name the process that is there now")
	}
	all[0].PeerShown(testInitial(3).Members[2])
	if again := all[0].Propose(); again.Hash() != c.Hash() {
		t.Error("a second InitialConfig was made")
	}
	if err := all[2].Check(c); err == nil {
		t.Error("accepted by an incarnation that it does not name")
	}
}

func TestBootstrapAcceptsOnce(t *testing.T) {
	all := newBootstraps(t, nil)
	first, second := testInitial(3), testInitial(3)
	second.Members[2].Member.Incarnation = Incarnation{42}
	accept(t, all[0], first)
	accept(t, all[0], first)
	if err := all[0].Check(second); !errors.Is(err, ErrAcceptedAnother) {
		t.Errorf("a second InitialConfig: %v", err)
	}
	all[0].Accept(second)
	if all[0].AcceptedConfig().Hash() != first.Hash() || len(all[0].Known()) != 1 {
		t.Error("the first was given up")
	}
	// Acceptances of the second do not count for the first.
	for id := 2; id <= 3; id++ {
		all[0].Record(Accepted{Hash: second.Hash(), Acceptor: testMember(id)})
	}
	if _, ok := all[0].Start(); ok {
		t.Error("started with acceptances of two")
	}
}

func TestBootstrapChecksTheCredential(t *testing.T) {
	for name, change := range map[string]func(*InitialConfig){
		"another domain":                      func(c *InitialConfig) { c.Domain[0]++ },
		"another base":                        func(c *InitialConfig) { c.TokenBase++ },
		"another end":                         func(c *InitialConfig) { c.NotAfterMillis++ },
		"another credential":                  func(c *InitialConfig) { c.Credential[0]++ },
		"another address":                     func(c *InitialConfig) { c.Members[2].PeerAddr = "x:1" },
		"another client address of this node": func(c *InitialConfig) { c.Members[1].ClientAddr = "x:1" },
		"two seats":                           func(c *InitialConfig) { c.Members = c.Members[:2] },
		"a learner":                           func(c *InitialConfig) { c.Members[0].Learner = true },
		"an incarnation twice":                func(c *InitialConfig) { c.Members[0].Member.Incarnation = c.Members[2].Member.Incarnation },
	} {
		b := newBootstraps(t, nil)[1]
		c := testInitial(3)
		change(c)
		if b.Check(c) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestBootstrapKnownIsBounded(t *testing.T) {
	b := newBootstraps(t, nil)[0]
	c := testInitial(3)
	accept(t, b, c)
	for i := range 500 {
		b.Record(Accepted{Hash: [32]byte{1}, Acceptor: testMember(4 + i%250)})
	}
	for id := 2; id <= 3; id++ {
		b.Record(Accepted{Hash: c.Hash(), Acceptor: testMember(id)})
	}
	if _, ok := b.Start(); !ok || len(b.Known()) > maxKnown {
		t.Errorf("started %v, %d known", ok, len(b.Known()))
	}
}

func TestServiceOpensWhenEveryInitialVoterHasBootstrap(t *testing.T) {
	c := newTestCluster(t, 3)
	c.drop = isolate(testMember(3))
	c.until(300, "bootstrap is applied", func() bool { return c.leader() != nil && c.leader().registry.Bootstrapped })
	c.tick(300)
	l := c.leader()
	if l.registry.Open || l.serving() || l.Propose([]byte("x")) != ErrNotServing {
		t.Fatal("open with 2 of 3")
	}
	if l.registry.TokenBase < clockTokenBase(testWall) {
		t.Errorf("token base %d is under the clock's %d", l.registry.TokenBase, clockTokenBase(testWall))
	}
	c.drop = nil
	c.until(200, "open", func() bool { return c.leader() != nil && c.leader().serving() })
}

func TestDomainThatDoesNotOpenIsBurned(t *testing.T) {
	c := newTestCluster(t, 3)
	c.drop = isolate(testMember(3))
	c.until(300, "bootstrap is applied", func() bool { return c.leader() != nil && c.leader().registry.Bootstrapped })
	c.wall = testWall + 900_000
	c.until(300, "burned", func() bool { return c.leader() != nil && c.leader().registry.Burned })
	c.drop = nil
	c.tick(300)
	for _, p := range c.procs {
		if p.serving() || p.registry.Open || !p.registry.Burned {
			t.Errorf("%v after the end: open %v, burned %v", p, p.registry.Open, p.registry.Burned)
		}
	}
}
