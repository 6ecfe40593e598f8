package server

import (
	"testing"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// lead puts ts into the place of a node that does not serve, or does again.
func (ts *testServer) lead(l leadership) {
	ts.engine.batch(&ts.self, func(now lock.Time) {
		ts.engine.setLeadership(l)
		if l.serving {
			ts.engine.manager.Lead(now)
		} else {
			ts.engine.manager.StepDown(now)
		}
	})
}

func TestFollowerNamesTheLeader(t *testing.T) {
	ts := startServer(t, nil)
	ts.lead(leadership{leader: "10.0.0.1:5225", term: 7})
	c := ts.dial(t)
	c.send(c.hello("", "x"))
	b := c.take(wire.WelcomeSize + len("10.0.0.1:5225"))
	if n, err := wire.DecodeWelcome(b, &c.welcome); n != len(b) || c.welcome.Role != wire.RoleNotLeader || string(c.welcome.Leader) != "10.0.0.1:5225" {
		t.Fatalf("welcome %+v, %v", c.welcome, err)
	}
	c.send(join(acquire(1, "k", 0, 5_000), acquire(2, "k", 0, 5_000), release(3, 1<<60, "k"), release(4, 0, "k")))
	if m := c.expect(wire.OpMoved, 0, 0); m.Token != 7 || string(m.Text) != "10.0.0.1:5225" { // once a batch read
		t.Fatalf("M %+v", m)
	}
	c.expect(wire.OpBusy, uint16(wire.BusyNotLeader), 1)
	c.expect(wire.OpBusy, uint16(wire.BusyNotLeader), 2)
	c.expect(wire.OpBusy, uint16(wire.BusyNotLeader), 3)
	c.expect(wire.OpNotHeld, 0, 4) // a withdrawal is answered R or N only
}

func TestStepDownTellsWaitersWhereToGo(t *testing.T) {
	ts := startServer(t, nil)
	a, b := ts.session(t), ts.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	held := a.expect(wire.OpGranted, 0, 1)
	b.send(join(acquire(2, "k", 60_000, 30_000), ping(3)))
	b.expect(wire.OpPong, 0, 3)
	ts.lead(leadership{leader: "10.0.0.1:5225", term: 7})
	b.expect(wire.OpMoved, 0, 0)
	b.expect(wire.OpBusy, uint16(wire.BusyNotLeader), 2)
	ts.lead(leadership{serving: true, term: 8})
	a.expect(wire.OpMoved, 0, 0)
	if m := a.expect(wire.OpMoved, 0, 0); m.Token != 8 || string(m.Text) != ts.cfg.Listen { // a node that serves again names itself
		t.Fatalf("M %+v", m)
	}
	a.send(release(1, held.Token, "k"))
	a.expect(wire.OpReleased, 0, 1)
}

// A v0 client gives all its calls up when it is told to go elsewhere: none is answered after that.
func TestLegacyClientsAreSentAwayAndNothingFollows(t *testing.T) {
	ts := startServer(t, nil)
	a, old := ts.session(t), ts.legacy(t)
	a.send(acquire(1, "k", 0, 30_000))
	a.expect(wire.OpGranted, 0, 1)
	old.send(acquireV0("k", 60, 60))
	await(t, "the v0 waiter", func() bool { return ts.stats().Waiters == 1 })
	ts.lead(leadership{leader: "10.0.0.1:5225", term: 7})
	old.expectLine("M10.0.0.1:5225\n")
	old.send(acquireV0("other", 1, 60))
	old.expectLine("M10.0.0.1:5225\n")
	ts.lead(leadership{term: 8})
	old.expectLine("Eno_leader\n")
	ts.lead(leadership{serving: true, term: 9})
	old.send(acquireV0("other", 1, 60))
	old.expectGrant("other")
}
