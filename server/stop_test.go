package server

import (
	"net"
	"testing"

	"ticketing.internal/wire"
)

// stopped reports whether Run has returned, and fails the test if it did with an error.
func (ts *testServer) stopped(t *testing.T) {
	t.Helper()
	ts.once.Do(func() {
		if err := <-ts.done; err != nil {
			t.Fatalf("Run: %v", err)
		}
	})
}

func TestStopSendsWaitersAwayAndWaitsForHolders(t *testing.T) {
	ts := startServer(t, nil)
	a, b := ts.session(t), ts.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	held := a.expect(wire.OpGranted, 0, 1)
	b.send(join(acquire(2, "k", 60_000, 30_000), ping(3)))
	b.expect(wire.OpPong, 0, 3)
	ts.Stop()
	b.expect(wire.OpBusy, uint16(wire.BusyShuttingDown), 2)
	b.send(acquire(4, "other", 0, 30_000))
	b.expect(wire.OpBusy, uint16(wire.BusyShuttingDown), 4)
	if _, err := net.Dial("tcp", ts.Addr().String()); err == nil {
		t.Error("a stopping server still accepts connections")
	}
	a.send(release(1, held.Token, "k"))
	a.expect(wire.OpReleased, 0, 1)
	ts.stopped(t)
	a.expectEnd()
	b.expectEnd()
}

func TestStopWithNothingHeldIsImmediate(t *testing.T) {
	ts := startServer(t, nil)
	a := ts.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	a.expect(wire.OpGranted, 0, 1)
	a.Close() // the key stays held, by nobody who is connected
	await(t, "the end of the connection", func() bool { n, _, _ := ts.admission.load(); return n == 0 })
	ts.Stop()
	ts.stopped(t)
}

func TestKillDoesNotWait(t *testing.T) {
	ts := startServer(t, nil)
	a := ts.session(t)
	a.send(acquire(1, "k", 0, 250_000))
	a.expect(wire.OpGranted, 0, 1)
	ts.Stop()
	ts.Kill()
	ts.stopped(t)
}

// Nothing of the former life is granted again while a lease of it may run, and tokens only grow.
func TestRestartWithStateDirectory(t *testing.T) {
	dir := t.TempDir()
	start := func() *testServer { return startServer(t, func(c *Config) { c.StateDir = dir }) }
	ts := start()
	a := ts.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	first := a.expect(wire.OpGranted, 0, 1)
	a.send(release(1, first.Token, "k"))
	a.expect(wire.OpReleased, 0, 1)
	ts.Stop()
	ts.stopped(t)

	ts = start() // a clean stop with nothing held: no pause
	a = ts.session(t)
	a.send(acquire(1, "k", 0, 2_000))
	second := a.expect(wire.OpGranted, 0, 1)
	if second.Token <= first.Token {
		t.Fatalf("token %d after %d", second.Token, first.Token)
	}
	ts.Kill() // with a lock held: until its lease is over nothing is granted
	ts.stopped(t)

	ts = start()
	a = ts.session(t)
	a.send(acquire(1, "other", 0, 2_000))
	a.expect(wire.OpBusy, uint16(wire.BusyRecovering), 1)
	var third wire.Reply
	await(t, "the end of the pause", func() bool {
		a.send(acquire(2, "k", 0, 2_000))
		third = a.reply()
		return third.Op == wire.OpGranted
	})
	if third.Token <= second.Token {
		t.Fatalf("token %d after %d", third.Token, second.Token)
	}
}
