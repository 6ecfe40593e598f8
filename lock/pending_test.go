package lock

import (
	"testing"
	"time"

	"ticketing.internal/wire"
)

// Each test is a rule of "Pending changes" of the semantics.

const k = "order-1"

// heldPending returns a fixture whose log decides nothing, two sessions, and k held by owner 1 of the first with token 101.
func heldPending(t *testing.T) (f *fixture, a, b Session) {
	t.Helper()
	f = newPending(t)
	a, b = f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
	f.acquire(a, 1, k)
	f.want()
	f.apply(1)
	f.want("1 A owner=1 token=101")
	f.wantProposed("Grant order-1 owner=1")
	return f, a, b
}

func TestSecondReleaseWaitsForTheFirst(t *testing.T) {
	t.Run("R for the first: N", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.release(a, 1, 101, k)
		f.release(b, 1, 101, k)
		f.release(b, 1, 101, k)
		f.release(b, 7, 101, k) // not exact
		f.want("2 N owner=7 token=101")
		f.wantProposed("Release order-1 owner=1 token=101")
		f.apply(1)
		f.want("1 R owner=1 token=101", "2 N owner=1 token=101", "2 N owner=1 token=101")
	})
	t.Run("the first lost: B", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.release(a, 1, 101, k)
		f.release(b, 1, 101, k)
		f.lose(wire.BusyNotLeader)
		f.want("1 B owner=1 not_leader", "2 B owner=1 not_leader")
		f.wantProposed("Release order-1 owner=1 token=101")
		f.release(a, 1, 101, k)
		f.apply(1)
		f.want("1 R owner=1 token=101")
	})
	t.Run("no room to wait: B", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.m.limits.Waiters = 2
		f.release(a, 1, 101, k)
		for range 3 {
			f.release(b, 1, 101, k)
		}
		f.want("2 B owner=1 overloaded")
		f.apply(1)
		f.want("1 R owner=1 token=101", "2 N owner=1 token=101", "2 N owner=1 token=101")
	})
}

func TestReleaseWaitsForExpire(t *testing.T) {
	t.Run("existed: N", func(t *testing.T) {
		f, a, _ := heldPending(t)
		f.pass((testLease + 5) * time.Millisecond)
		f.release(a, 1, 101, k)
		f.want()
		f.wantProposed("Expire order-1 token=101")
		f.apply(1)
		f.want("1 N owner=1 token=101")
	})
	t.Run("the Expire lost: B, and it is proposed again", func(t *testing.T) {
		f, a, _ := heldPending(t)
		f.pass((testLease + 5) * time.Millisecond)
		f.release(a, 1, 101, k)
		f.lose(wire.BusyNotLeader)
		f.want("1 B owner=1 not_leader")
		f.pass(5 * time.Millisecond)
		f.wantProposed("Expire order-1 token=101", "Expire order-1 token=101")
	})
}

func TestNoExpireWhileReleaseIsUndecided(t *testing.T) {
	f, a, _ := heldPending(t)
	f.release(a, 1, 101, k)
	f.pass((testLease + 5) * time.Millisecond)
	f.wantProposed("Release order-1 owner=1 token=101")
	f.lose(wire.BusyNotLeader)
	f.pass(0)
	f.wantProposed("Expire order-1 token=101")
	f.apply(1)
	f.want("1 B owner=1 not_leader")
}

func TestLostReleaseDoesNotShortenTheLease(t *testing.T) {
	f, a, _ := heldPending(t)
	f.release(a, 1, 101, k)
	f.lose(wire.BusyNotLeader)
	f.wantProposed("Release order-1 owner=1 token=101")
	f.pass((testLease - 1) * time.Millisecond)
	f.wantProposed()
	f.pass(10 * time.Millisecond)
	f.wantProposed("Expire order-1 token=101")
}

func TestGrantIsProposedBehindThePendingEnd(t *testing.T) {
	t.Run("of the first waiter, with the Release", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.acquire(b, 2, k)
		f.acquire(a, 3, k)
		f.release(a, 1, 101, k)
		f.wantProposed("Release order-1 owner=1 token=101", "Grant order-1 owner=2")
		f.apply(2)
		f.want("1 R owner=1 token=101", "2 A owner=2 token=102")
		f.wantProposed()
	})
	t.Run("of the first waiter, with the Expire", func(t *testing.T) {
		f, _, b := heldPending(t)
		f.acquireFor(b, 2, k, wire.MaxWaitMillis, testLease)
		f.pass((testLease + 5) * time.Millisecond)
		f.wantProposed("Expire order-1 token=101", "Grant order-1 owner=2")
		f.apply(2)
		f.want("2 A owner=2 token=102 after=30005")
	})
	t.Run("of one that arrives later, with nobody before it", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.release(a, 1, 101, k)
		f.acquire(b, 2, k)
		f.acquire(b, 3, k)
		f.try(b, 4, k)
		f.want("2 T owner=4")
		f.wantProposed("Release order-1 owner=1 token=101", "Grant order-1 owner=2")
		f.apply(2)
		f.want("1 R owner=1 token=101", "2 A owner=2 token=102")
	})
	t.Run("the Release lost, its Grant too: the queue goes on", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.acquire(b, 2, k)
		f.acquire(b, 3, k)
		f.release(a, 1, 101, k)
		f.lose(wire.BusyNotLeader)
		f.lose(wire.BusyNotLeader)
		f.want("1 B owner=1 not_leader", "2 B owner=2 not_leader")
		f.release(a, 1, 101, k)
		f.apply(2)
		f.want("1 R owner=1 token=101", "2 A owner=3 token=102")
	})
	t.Run("the Grant alone lost: the next waiter gets it", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.acquire(b, 2, k)
		f.acquire(b, 3, k)
		f.release(a, 1, 101, k)
		f.apply(1)
		f.lose(wire.BusyNotLeader)
		f.apply(1)
		f.want("1 R owner=1 token=101", "2 B owner=2 not_leader", "2 A owner=3 token=102")
	})
}

func TestProposedGrantCannotTimeOutOrWithdraw(t *testing.T) {
	t.Run("its wait ends: A all the same", func(t *testing.T) {
		f := newPending(t)
		a := f.open("10.0.0.1:1")
		f.acquireFor(a, 1, k, 1000, testLease)
		f.pass(5 * time.Second)
		f.want()
		f.apply(1)
		f.want("1 A owner=1 token=101")
	})
	t.Run("withdrawn: A, then N", func(t *testing.T) {
		f := newPending(t)
		a := f.open("10.0.0.1:1")
		f.acquire(a, 1, k)
		f.withdraw(a, 1, k)
		f.want()
		f.apply(1)
		f.want("1 A owner=1 token=101", "1 N owner=1 token=0")
	})
	t.Run("withdrawn, the Grant lost: B, then N", func(t *testing.T) {
		f := newPending(t)
		a := f.open("10.0.0.1:1")
		f.acquire(a, 1, k)
		f.withdraw(a, 1, k)
		f.withdraw(a, 1, k)
		f.lose(wire.BusyNotLeader)
		f.want("1 B owner=1 not_leader", "1 N owner=1 token=0", "1 N owner=1 token=0")
	})
	t.Run("withdrawn, the fate unknown: E, then N", func(t *testing.T) {
		f := newPending(t)
		a := f.open("10.0.0.1:1")
		f.acquire(a, 1, k)
		f.withdraw(a, 1, k)
		f.forget()
		f.want("1 E owner=1 indeterminate", "1 N owner=1 token=0")
	})
	t.Run("it was never in a queue: no hand-off", func(t *testing.T) {
		f, a, b := heldPending(t)
		if n := f.m.Stats().Handoffs; n != 0 {
			t.Errorf("%d hand-offs of a free key", n)
		}
		f.acquire(b, 2, k)
		f.release(a, 1, 101, k)
		f.apply(2)
		if n := f.m.Stats().Handoffs; n != 1 {
			t.Errorf("%d hand-offs, want 1", n)
		}
	})
}

func TestMillisEndAtTheProposing(t *testing.T) {
	f, a, b := heldPending(t)
	f.acquire(b, 2, k)
	f.now.Mono += int64(1700*time.Microsecond) + int64(2*time.Second)
	f.release(a, 1, 101, k)
	f.now.Mono += int64(3 * time.Second)
	f.apply(2)
	f.want("1 R owner=1 token=101", "2 A owner=2 token=102 after=2001")
}

// rejected returns a fixture where the Grant of k to owner 2 of the second session is undecided and will be rejected: another
// leader's entry took the key.
func rejected(t *testing.T, wait uint32) (f *fixture, a, b Session) {
	t.Helper()
	f = newPending(t)
	a, b = f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
	f.acquireFor(b, 2, k, wait, testLease)
	f.acquire(a, 3, k)
	f.m.Apply(f.now, &Command{Kind: KindGrant, Key: []byte(k), Owner: 77, LeaseMillis: 60_000}, false)
	f.check()
	f.want()
	return f, a, b
}

func TestGrantRejected(t *testing.T) {
	t.Run("back to the head of the queue", func(t *testing.T) {
		f, a, _ := rejected(t, testWait)
		if r := f.m.ApplyOldest(f.now); r != (Result{Outcome: GrantRejected}) {
			t.Errorf("result %+v", r)
		}
		f.check()
		f.want()
		f.release(a, 77, 101, k)
		f.apply(2)
		f.want("1 R owner=77 token=101", "2 A owner=2 token=102")
	})
	t.Run("its wait goes on", func(t *testing.T) {
		f, _, _ := rejected(t, 2000)
		f.now.Mono += int64(time.Second)
		f.apply(1)
		f.pass(990 * time.Millisecond)
		f.want()
		f.pass(20 * time.Millisecond)
		f.want("2 T owner=2")
	})
	t.Run("its wait is over: T", func(t *testing.T) {
		f, _, _ := rejected(t, 2000)
		f.pass(2005 * time.Millisecond)
		f.want()
		f.apply(1)
		f.want("2 T owner=2")
	})
	t.Run("without wait: T", func(t *testing.T) {
		f, _, _ := rejected(t, 0)
		f.apply(1)
		f.want("2 T owner=2")
	})
	t.Run("withdrawn: T, then R", func(t *testing.T) {
		f, _, b := rejected(t, testWait)
		f.withdraw(b, 2, k)
		f.withdraw(b, 2, k)
		f.apply(1)
		f.want("2 T owner=2", "2 R owner=2 token=0", "2 N owner=2 token=0")
	})
	t.Run("gone: nothing", func(t *testing.T) {
		f, _, b := rejected(t, testWait)
		f.withdraw(b, 2, k)
		f.close(b)
		f.apply(1)
		f.want()
	})
	t.Run("no longer leading: B", func(t *testing.T) {
		f, _, _ := rejected(t, testWait)
		f.stepDown()
		f.want("1 B owner=3 not_leader")
		f.apply(1)
		f.want("2 B owner=2 not_leader")
	})
	t.Run("draining: B", func(t *testing.T) {
		f, _, _ := rejected(t, testWait)
		f.m.Drain(f.now)
		f.want("1 B owner=3 shutting_down")
		f.apply(1)
		f.want("2 B owner=2 shutting_down")
	})
}

func TestGrantOfOneWhoHasGoneIsReleased(t *testing.T) {
	f, a, b := heldPending(t)
	f.acquire(b, 2, k)
	f.acquire(a, 3, k)
	f.release(a, 1, 101, k)
	f.close(b)
	f.wantProposed("Release order-1 owner=1 token=101", "Grant order-1 owner=2")
	f.apply(2)
	f.wantProposed("Release order-1 owner=2 token=102", "Grant order-1 owner=3")
	f.apply(2)
	f.want("1 R owner=1 token=101", "1 A owner=3 token=103")
}

func TestSessionEndsWithReleasesUndecided(t *testing.T) {
	f, a, b := heldPending(t)
	f.release(b, 1, 101, k)
	f.release(b, 1, 101, k)
	f.release(b, 9, 300, k)
	f.close(b)
	if s := f.open("10.0.0.3:3"); s == b {
		t.Errorf("session %d is used again while its releases are undecided", s)
	}
	f.apply(2)
	f.want()
	f.release(a, 1, 101, k)
	f.want("1 N owner=1 token=101")
	if s := f.open("10.0.0.4:4"); s != b {
		t.Errorf("session %d instead of %d, which is free", s, b)
	}
}

func TestVerdictsMayBeMixed(t *testing.T) {
	f, a, b := heldPending(t)
	f.acquire(b, 2, k)
	f.log.verdicts = []Verdict{ApplyNow, Pending, ApplyNow}
	f.release(a, 1, 101, k)
	f.want("1 R owner=1 token=101")
	f.try(b, 3, "order-2")
	f.want("2 A owner=3 token=102")
	f.try(b, 4, k)
	f.want("2 T owner=4")
	f.apply(1)
	f.want("2 A owner=2 token=103")
}

func TestDecisionsWithoutProposals(t *testing.T) {
	f := newPending(t)
	if r := f.m.ApplyOldest(f.now); r != (Result{}) {
		t.Errorf("result %+v of nothing", r)
	}
	f.lose(wire.BusyNotLeader)
	f.forget()
	f.want()
}

func TestForeignRelease(t *testing.T) {
	f := newFixture(t, roomy)
	a, b, c := f.open("10.0.0.1:1"), f.open("10.0.0.1:2"), f.open("[2001:db8::1]:3")
	f.acquire(a, 1, k)
	f.release(c, 9, 101, k)
	f.release(b, 1, 101, k)
	if len(f.sink.foreign) != 0 {
		t.Errorf("told of %q, from the same host", f.sink.foreign)
	}
	f.acquire(a, 1, k)
	f.close(a)
	f.release(c, 1, 102, k)
	if len(f.sink.foreign) != 1 || f.sink.foreign[0] != "3 order-1 owner=1 token=102 client-10.0.0.1:1 10.0.0.1:1" {
		t.Errorf("told of %q", f.sink.foreign)
	}
}
