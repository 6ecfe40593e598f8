package lock

import (
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestSessionNumbers(t *testing.T) {
	f := newFixture(t, roomy)
	a, b, c := f.open("10.0.0.1:1"), f.open("10.0.0.1:2"), f.open("10.0.0.1:3")
	if a != 1 || b != 2 || c != 3 {
		t.Errorf("sessions %d %d %d", a, b, c)
	}
	f.acquire(a, 1, "k")
	f.close(a)
	f.close(b)
	if d := f.open("10.0.0.1:4"); d != b {
		t.Errorf("session %d, want %d: %d still holds", d, b, a)
	}
	f.release(c, 1, 101, "k")
	if d := f.open("10.0.0.1:5"); d != a {
		t.Errorf("session %d, want %d, which holds nothing any more", d, a)
	}
}

func TestHeldByOpenSessions(t *testing.T) {
	f := newFixture(t, roomy)
	a, b := f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
	want := func(n int) {
		t.Helper()
		if got := f.m.HeldByOpenSessions(); got != n {
			t.Errorf("%d held by open sessions, want %d", got, n)
		}
	}
	want(0)
	f.try(a, 1, "k1")
	f.try(a, 2, "k2")
	f.try(b, 3, "k3")
	f.acquire(b, 4, "k1")
	want(3)
	f.close(a)
	want(1)
	f.release(b, 1, 101, "k1")
	want(2)
	f.release(b, 2, 102, "k2")
	want(2)
	f.pass(time.Hour)
	want(0)
}

func TestCloseTakesAllWaiters(t *testing.T) {
	const n = 5000
	f := newFixture(t, Limits{Keys: n, Waiters: n, WaitersPerKey: n, InFlight: n})
	a, b := f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
	for i := range uint64(10) {
		f.try(a, i+1, string(rune('a'+i)))
	}
	for i := range uint64(n) {
		f.m.Acquire(f.now, b, &wire.Request{Owner: i + 1, Wait: 1000, Lease: 1000, Key: []byte{'a' + byte(i%10)}})
	}
	f.check()
	if w := f.m.Stats().Waiters; w != n {
		t.Fatalf("%d waiters", w)
	}
	f.sink.lines = nil
	f.close(b)
	if w := f.m.Stats().Waiters; w != 0 {
		t.Errorf("%d waiters are left", w)
	}
	f.want()
}

func TestStatsCount(t *testing.T) {
	f := newFixture(t, roomy)
	a, b := f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
	f.acquire(a, 1, "k")
	f.acquire(b, 2, "k")
	f.acquire(b, 3, "k")
	f.acquire(b, 4, "k")
	f.try(b, 5, "k")
	f.withdraw(b, 3, "k")
	f.release(a, 9, 9, "k")
	f.release(a, 1, 101, "k")
	f.release(a, 1, 101, "a b")
	f.m.Refuse(wire.BusyRecovering)
	f.try(a, 6, "free")
	got := *f.m.Stats()
	want := Stats{
		Held: 1, Waiters: 1, LastToken: 102, Acquires: 6, Releases: 3, Withdrawals: 1, Grants: 2, Handoffs: 1, Released: 1,
		Replies: ReplyCounts{Granted: 2, TimedOut: 2, Released: 2, NotHeld: 1},
	}
	want.Replies.Busy[wire.BusyRecovering] = 1
	want.Replies.Failed[wire.InvalidKey] = 1
	if got != want {
		t.Errorf("stats\n%+v, want\n%+v", got, want)
	}
	f.pass(time.Hour)
	if got := f.m.Stats(); got.Expirations != 1 || got.Replies.TimedOut != 3 || got.Held != 0 || got.Waiters != 0 {
		t.Errorf("after the leases: %+v", *got)
	}
}

func TestLatestLeaseEnd(t *testing.T) {
	f := newPending(t)
	if _, ok := f.m.LatestLeaseEnd(); ok {
		t.Error("a lease of nothing")
	}
	s := f.open("10.0.0.1:1")
	f.acquireFor(s, 1, "k1", 0, 1000)
	f.acquireFor(s, 2, "k2", 0, 200_000)
	f.acquireFor(s, 3, "k3", 0, 3000)
	if _, ok := f.m.LatestLeaseEnd(); ok {
		t.Error("a lease of what is not granted yet")
	}
	f.apply(3)
	f.pass(1100 * time.Millisecond)
	f.release(s, 2, 102, "k2") // undecided: still held
	end, ok := f.m.LatestLeaseEnd()
	if left := time.Duration(end - f.now.Mono); !ok || left < 198_900*time.Millisecond || left > 198_905*time.Millisecond {
		t.Errorf("%v, %v", left, ok)
	}
}
