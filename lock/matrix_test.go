package lock

import (
	"strings"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// TestMatrix has a row of the request x key-state matrix each.
func TestMatrix(t *testing.T) {
	const k = "order-1"
	tests := []struct {
		name string
		do   func(f *fixture, a, b Session)
		want []string
	}{
		{"acquire without wait, free", func(f *fixture, a, b Session) {
			f.try(a, 1, k)
		}, []string{"1 A owner=1 token=101"}},
		{"acquire without wait, held", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.try(b, 2, k)
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "2 T owner=2", "1 R owner=1 token=101"}},
		{"acquire with wait, free", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
		}, []string{"1 A owner=1 token=101"}},
		{"acquire with wait, held, then its turn", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(b, 2, k)
			f.now.Mono += int64(1500 * time.Millisecond)
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "1 R owner=1 token=101", "2 A owner=2 token=102 after=1500"}},
		{"acquire with wait, held, then the end of the wait", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(b, 2, k)
			f.pass(testWait*time.Millisecond + 5*time.Millisecond)
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "2 T owner=2", "1 R owner=1 token=101"}},
		{"acquire by the present holder queues", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(a, 2, k)
			f.try(a, 3, k)
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "1 T owner=3", "1 R owner=1 token=101", "1 A owner=2 token=102"}},
		{"release, free", func(f *fixture, a, b Session) {
			f.release(a, 1, 101, k)
			f.release(a, 1, 50, k)
		}, []string{"1 N owner=1 token=101", "1 N owner=1 token=50"}},
		{"release, exact match, then hand-off in order", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(b, 2, k)
			f.acquire(a, 3, k)
			f.release(a, 1, 101, k)
			f.release(b, 2, 102, k)
		}, []string{"1 A owner=1 token=101", "1 R owner=1 token=101", "2 A owner=2 token=102", "2 R owner=2 token=102",
			"1 A owner=3 token=103"}},
		{"release by another connection", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.release(b, 1, 101, k)
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "2 R owner=1 token=101", "1 N owner=1 token=101"}},
		{"release, wrong token", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.release(a, 1, 100, k)
			f.release(a, 1, 102, k)
			f.try(b, 2, k)
		}, []string{"1 A owner=1 token=101", "1 N owner=1 token=100", "1 N owner=1 token=102", "2 T owner=2"}},
		{"release, wrong owner", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.release(a, 2, 101, k)
			f.try(b, 2, k)
		}, []string{"1 A owner=1 token=101", "1 N owner=2 token=101", "2 T owner=2"}},
		{"release, wrong key", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(a, 2, "order-2")
			f.release(a, 1, 101, "order-2")
			f.try(b, 3, k)
			f.try(b, 3, "order-2")
		}, []string{"1 A owner=1 token=101", "1 A owner=2 token=102", "1 N owner=1 token=101", "2 T owner=3", "2 T owner=3"}},
		{"withdrawal, not waiting", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.withdraw(a, 1, k)
			f.withdraw(a, 2, k)
		}, []string{"1 A owner=1 token=101", "1 N owner=1 token=0", "1 N owner=2 token=0"}},
		{"withdrawal by a waiter", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(b, 2, k)
			f.acquire(b, 3, k)
			f.withdraw(b, 2, k)
			f.withdraw(b, 2, k)
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "2 T owner=2", "2 R owner=2 token=0", "2 N owner=2 token=0", "1 R owner=1 token=101",
			"2 A owner=3 token=102"}},
		{"withdrawal by another connection, or of another key", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(b, 2, k)
			f.withdraw(a, 2, k)
			f.withdraw(b, 2, "order-2")
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "1 N owner=2 token=0", "2 N owner=2 token=0", "1 R owner=1 token=101",
			"2 A owner=2 token=102"}},
		{"lease end, nobody waits", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.pass((testLease + 5) * time.Millisecond)
			f.release(a, 1, 101, k)
			f.try(b, 2, k)
		}, []string{"1 A owner=1 token=101", "1 N owner=1 token=101", "2 A owner=2 token=102"}},
		{"lease end, then hand-off", func(f *fixture, a, b Session) {
			f.acquireFor(a, 1, k, 0, 2000)
			f.acquire(b, 2, k)
			f.pass(2005 * time.Millisecond)
			f.release(a, 1, 101, k)
			f.try(a, 3, k)
		}, []string{"1 A owner=1 token=101", "2 A owner=2 token=102 after=2005", "1 N owner=1 token=101", "1 T owner=3"}},
		{"the connection of a waiter ends", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(b, 2, k)
			f.acquire(a, 3, k)
			f.close(b)
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "1 R owner=1 token=101", "1 A owner=3 token=102"}},
		{"the connection of the holder ends", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.close(a)
			f.try(b, 2, k)
			f.pass((testLease + 5) * time.Millisecond)
			f.try(b, 3, k)
		}, []string{"1 A owner=1 token=101", "2 T owner=2", "2 A owner=3 token=102"}},
		{"not leader", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.stepDown()
			f.try(b, 2, "order-2")
			f.acquire(b, 2, k)
			f.release(a, 1, 101, k)
			f.withdraw(b, 2, k)
		}, []string{"1 A owner=1 token=101", "2 B owner=2 not_leader", "2 B owner=2 not_leader", "1 B owner=1 not_leader",
			"2 N owner=2 token=0"}},
		{"no leader is known", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.stepDown()
			f.m.Refuse(wire.BusyNoLeader)
			f.acquire(b, 2, k)
			f.release(a, 1, 101, k)
			f.m.Drain(f.now)
			f.acquire(b, 2, k)
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "2 B owner=2 no_leader", "1 B owner=1 no_leader", "2 B owner=2 shutting_down",
			"1 B owner=1 not_leader"}},
		{"recovering", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(b, 2, k)
			f.m.Refuse(wire.BusyRecovering)
			f.try(b, 3, "order-2")
			f.acquire(b, 4, k)
			f.release(a, 1, 101, k)
			f.m.Refuse(0)
			f.try(b, 3, "order-2")
		}, []string{"1 A owner=1 token=101", "2 B owner=3 recovering", "2 B owner=4 recovering", "1 R owner=1 token=101",
			"2 A owner=2 token=102", "2 A owner=3 token=103"}},
		{"shutting down", func(f *fixture, a, b Session) {
			f.acquire(a, 1, k)
			f.acquire(b, 2, k)
			f.acquire(b, 3, k)
			f.m.Drain(f.now)
			f.acquire(b, 4, "order-2")
			f.release(a, 1, 101, k)
		}, []string{"1 A owner=1 token=101", "2 B owner=2 shutting_down", "2 B owner=3 shutting_down", "2 B owner=4 shutting_down",
			"1 R owner=1 token=101"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, roomy)
			a, b := f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
			test.do(f, a, b)
			f.want(test.want...)
		})
	}
}

func TestFields(t *testing.T) {
	const bad = "a key"
	tests := []struct {
		name string
		r    wire.Request
		want string
	}{
		{"acquire, owner 0 before all", wire.Request{Key: []byte(bad), Wait: wire.MaxWaitMillis + 1}, "E owner=0 invalid_owner"},
		{"acquire, owner in flight before the key", wire.Request{Owner: 9, Key: []byte(bad)}, "E owner=9 invalid_owner"},
		{"acquire, key before wait", wire.Request{Owner: 1, Key: []byte(bad), Wait: wire.MaxWaitMillis + 1}, "E owner=1 invalid_key"},
		{"acquire, wait before lease", wire.Request{Owner: 1, Key: []byte("k"), Wait: wire.MaxWaitMillis + 1}, "E owner=1 invalid_wait"},
		{"acquire, longest wait", wire.Request{Owner: 1, Key: []byte("k"), Wait: wire.MaxWaitMillis, Lease: 1000}, "A owner=1 token=102"},
		{"acquire, lease too short", wire.Request{Owner: 1, Key: []byte("k"), Lease: 999}, "E owner=1 invalid_lease"},
		{"acquire, shortest lease", wire.Request{Owner: 1, Key: []byte("k"), Lease: 1000}, "A owner=1 token=102"},
		{"acquire, longest lease", wire.Request{Owner: 1, Key: []byte("k"), Lease: 250_000}, "A owner=1 token=102"},
		{"acquire, lease too long", wire.Request{Owner: 1, Key: []byte("k"), Lease: 250_001}, "E owner=1 invalid_lease"},
		{"acquire, longest key", wire.Request{Owner: 1, Key: []byte(strings.Repeat("k", 128)), Lease: 1000}, "A owner=1 token=102"},
		{"acquire, key too long", wire.Request{Owner: 1, Key: []byte(strings.Repeat("k", 129)), Lease: 1000}, "E owner=1 invalid_key"},
		{"release, owner 0 before the key", wire.Request{Token: 5, Key: []byte(bad)}, "E owner=0 invalid_owner"},
		{"release, owner in flight", wire.Request{Token: 5, Owner: 9, Key: []byte(bad)}, "E owner=9 invalid_owner"},
		{"release, bad key", wire.Request{Token: 5, Owner: 1, Key: []byte(bad)}, "E owner=1 invalid_key"},
		{"withdrawal, owner 0", wire.Request{Op: wire.OpRelease, Key: []byte("k")}, "N owner=0 token=0"},
		{"withdrawal, bad key", wire.Request{Op: wire.OpRelease, Owner: 9, Key: []byte(bad)}, "N owner=9 token=0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, roomy)
			a, b := f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
			f.acquire(a, 1, "held")
			f.acquire(b, 9, "held")
			f.want("1 A owner=1 token=101")
			if test.r.Token != 0 || test.r.Op == wire.OpRelease {
				f.m.Release(f.now, b, &test.r)
			} else {
				f.m.Acquire(f.now, b, &test.r)
			}
			f.check()
			f.want("2 " + test.want)
		})
	}
}

// TestFieldsBeforeMode: what is wrong with a request is told whatever the state of the server.
func TestFieldsBeforeMode(t *testing.T) {
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	f.m.Drain(f.now)
	f.acquireFor(s, 1, "k", 0, 1)
	f.acquireFor(s, 1, "k", 0, 1000)
	f.want("1 E owner=1 invalid_lease", "1 B owner=1 shutting_down")
}

func TestLimits(t *testing.T) {
	t.Run("keys", func(t *testing.T) {
		f := newFixture(t, Limits{Keys: 2, Waiters: 9, WaitersPerKey: 9, InFlight: 9})
		s := f.open("10.0.0.1:1")
		f.try(s, 1, "k1")
		f.try(s, 2, "k2")
		f.try(s, 3, "k3")
		f.acquire(s, 4, "k1")
		f.release(s, 2, 102, "k2")
		f.try(s, 3, "k3")
		f.want("1 A owner=1 token=101", "1 A owner=2 token=102", "1 B owner=3 too_many_keys", "1 R owner=2 token=102",
			"1 A owner=3 token=103")
	})
	t.Run("keys, with Grants undecided, never for a hand-off", func(t *testing.T) {
		f := newFixture(t, Limits{Keys: 2, Waiters: 9, WaitersPerKey: 9, InFlight: 9})
		f.log.verdict = Pending
		s := f.open("10.0.0.1:1")
		f.try(s, 1, "k1")
		f.try(s, 2, "k2")
		f.try(s, 3, "k3")
		f.apply(2)
		f.acquire(s, 4, "k1")
		f.release(s, 1, 101, "k1")
		f.try(s, 5, "k5")
		f.wantProposed("Grant k1 owner=1", "Grant k2 owner=2", "Release k1 owner=1 token=101", "Grant k1 owner=4")
		f.apply(1)
		f.try(s, 5, "k5")
		f.lose(wire.BusyNotLeader)
		f.try(s, 5, "k5")
		f.want("1 B owner=3 too_many_keys", "1 A owner=1 token=101", "1 A owner=2 token=102", "1 B owner=5 too_many_keys",
			"1 R owner=1 token=101", "1 B owner=5 too_many_keys", "1 B owner=4 not_leader")
		f.wantProposed("Grant k5 owner=5")
	})
	t.Run("waiters in all", func(t *testing.T) {
		f := newFixture(t, Limits{Keys: 9, Waiters: 2, WaitersPerKey: 9, InFlight: 9})
		s := f.open("10.0.0.1:1")
		f.acquire(s, 1, "k1")
		f.acquire(s, 2, "k2")
		f.acquire(s, 3, "k1")
		f.acquire(s, 4, "k2")
		f.acquire(s, 5, "k1")
		f.try(s, 6, "k1")
		f.withdraw(s, 3, "k1")
		f.acquire(s, 5, "k1")
		f.want("1 A owner=1 token=101", "1 A owner=2 token=102", "1 B owner=5 too_many_waiters", "1 T owner=6", "1 T owner=3",
			"1 R owner=3 token=0")
	})
	t.Run("waiters of a key", func(t *testing.T) {
		f := newFixture(t, Limits{Keys: 9, Waiters: 9, WaitersPerKey: 2, InFlight: 9})
		s := f.open("10.0.0.1:1")
		f.acquire(s, 1, "k1")
		f.acquire(s, 2, "k2")
		f.acquire(s, 3, "k1")
		f.acquire(s, 4, "k1")
		f.acquire(s, 5, "k1")
		f.acquire(s, 6, "k2")
		f.release(s, 1, 101, "k1")
		f.acquire(s, 5, "k1")
		f.want("1 A owner=1 token=101", "1 A owner=2 token=102", "1 B owner=5 too_many_waiters", "1 R owner=1 token=101",
			"1 A owner=3 token=103")
	})
	t.Run("in flight, on each connection", func(t *testing.T) {
		f := newFixture(t, Limits{Keys: 9, Waiters: 9, WaitersPerKey: 9, InFlight: 2})
		a, b := f.open("10.0.0.1:1"), f.open("10.0.0.1:2")
		f.acquire(a, 1, "k")
		f.acquire(a, 2, "k")
		f.acquire(a, 3, "k")
		f.acquire(a, 4, "free")
		f.acquire(b, 4, "free")
		f.release(a, 1, 101, "k")
		f.acquire(a, 4, "k")
		f.acquire(a, 5, "k")
		f.want("1 A owner=1 token=101", "1 B owner=4 too_many_in_flight", "2 A owner=4 token=102", "1 R owner=1 token=101",
			"1 A owner=2 token=103", "1 B owner=5 too_many_in_flight")
	})
}

func TestOwnersInFlight(t *testing.T) {
	f := newFixture(t, roomy)
	a, b := f.open("10.0.0.1:1"), f.open("10.0.0.1:2")
	f.acquire(a, 1, "k")
	f.acquire(a, 2, "k")
	f.acquire(a, 2, "other")  // in flight
	f.release(a, 2, 101, "k") // in flight
	f.acquire(b, 2, "k")      // another connection's owner
	f.acquire(a, 1, "k")      // answered: free to be used again
	f.want("1 A owner=1 token=101", "1 E owner=2 invalid_owner", "1 E owner=2 invalid_owner")
	f.withdraw(a, 2, "k")
	f.acquire(a, 2, "other")
	f.want("1 T owner=2", "1 R owner=2 token=0", "1 A owner=2 token=102")
}
