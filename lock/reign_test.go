package lock

import (
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestUnseenTokens(t *testing.T) {
	t.Run("up to the counter: N at once", func(t *testing.T) {
		f, _, b := heldPending(t)
		f.release(b, 9, 101, k)
		f.release(b, 9, 101, "order-2")
		f.want("2 N owner=9 token=101", "2 N owner=9 token=101")
		f.wantProposed()
	})
	t.Run("above: proposed, NotFound gives N", func(t *testing.T) {
		f, _, b := heldPending(t)
		f.release(b, 9, 102, k)
		f.release(b, 9, 102, "order-2")
		f.want()
		f.wantProposed("Release order-1 owner=9 token=102", "Release order-2 owner=9 token=102")
		f.apply(2)
		f.want("2 N owner=9 token=102", "2 N owner=9 token=102")
	})
	t.Run("it takes no slot", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.release(b, 9, 102, k)
		f.acquire(b, 2, k) // no Grant behind it
		f.wantProposed("Release order-1 owner=9 token=102")
		f.release(a, 1, 101, k) // does not wait for it
		f.wantProposed("Release order-1 owner=1 token=101", "Grant order-1 owner=2")
		f.apply(3)
		f.want("2 N owner=9 token=102", "1 R owner=1 token=101", "2 A owner=2 token=102")
	})
	t.Run("a free key can be granted meanwhile", func(t *testing.T) {
		f := newPending(t)
		a := f.open("10.0.0.1:1")
		f.release(a, 9, 200, k)
		f.try(a, 1, k)
		f.wantProposed("Release order-1 owner=9 token=200", "Grant order-1 owner=1")
		f.apply(2)
		f.want("1 N owner=9 token=200", "1 A owner=1 token=101")
	})
	t.Run("it ends a grant applied before it, and the queue goes on", func(t *testing.T) {
		f := newPending(t)
		a, b := f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
		f.acquire(a, 1, k)
		f.release(b, 1, 101, k) // 101 is to come
		f.acquire(b, 2, k)
		f.apply(2)
		f.want("1 A owner=1 token=101", "2 R owner=1 token=101")
		f.apply(1)
		f.want("2 A owner=2 token=102")
	})
	t.Run("a release that waited behind a NotFound is judged anew", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.release(a, 1, 101, k)
		f.release(b, 1, 101, k)
		// Another leader's entries come between: the key changes hands.
		f.m.Apply(f.now, &Command{Kind: KindExpire, Key: []byte(k), Token: 101}, false)
		f.check()
		f.m.Apply(f.now, &Command{Kind: KindGrant, Key: []byte(k), Owner: 1, LeaseMillis: 60_000}, false)
		f.check()
		f.apply(1)
		f.want("1 N owner=1 token=101", "2 N owner=1 token=101")
	})
	t.Run("anew, and found", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.release(a, 1, 101, k)
		f.m.Apply(f.now, &Command{Kind: KindExpire, Key: []byte(k), Token: 101}, false)
		f.check()
		f.m.Apply(f.now, &Command{Kind: KindGrant, Key: []byte(k), Owner: 1, LeaseMillis: 60_000}, false)
		f.check()
		f.release(b, 1, 102, k)
		f.wantProposed("Release order-1 owner=1 token=101")
		f.apply(1)
		f.want("1 N owner=1 token=101")
		f.wantProposed("Release order-1 owner=1 token=102")
		f.apply(1)
		f.want("2 R owner=1 token=102")
	})
	t.Run("anew, and found, for one who has gone", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.release(a, 1, 101, k)
		f.m.Apply(f.now, &Command{Kind: KindExpire, Key: []byte(k), Token: 101}, false)
		f.check()
		f.m.Apply(f.now, &Command{Kind: KindGrant, Key: []byte(k), Owner: 1, LeaseMillis: 60_000}, false)
		f.m.hold(f.m.records.at(f.sink.replies[0].Ref), a) // as if this node had granted it
		f.check()
		f.release(b, 1, 102, k)
		f.close(b)
		f.apply(2)
		f.want("1 N owner=1 token=101")
		if n := f.m.Stats().Held; n != 0 {
			t.Errorf("%d held", n)
		}
		if len(f.sink.foreign) != 0 {
			t.Errorf("told of %q, for a session that has ended", f.sink.foreign)
		}
	})
	t.Run("standalone: N", func(t *testing.T) {
		f := newFixture(t, roomy)
		a := f.open("10.0.0.1:1")
		f.release(a, 1, 1<<40, k)
		f.want("1 N owner=1 token=1099511627776")
	})
}

func TestStepDown(t *testing.T) {
	t.Run("what only waits: B not_leader at once", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.acquire(b, 2, k)
		f.acquire(b, 3, k)
		f.acquire(b, 4, k)
		f.release(a, 1, 101, k)
		f.release(b, 1, 101, k)
		f.stepDown()
		f.want("2 B owner=3 not_leader", "2 B owner=4 not_leader", "2 B owner=1 not_leader")
	})
	t.Run("what was proposed is answered when it is decided", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.acquire(b, 2, k)
		f.withdraw(b, 2, k)
		f.want("2 T owner=2", "2 R owner=2 token=0")
		f.acquire(b, 2, k)
		f.release(a, 1, 101, k)
		f.withdraw(b, 2, k)
		f.release(b, 9, 300, k)
		f.stepDown()
		f.want()
		f.apply(1)
		f.lose(wire.BusyNotLeader)
		f.forget()
		f.want("1 R owner=1 token=101", "2 B owner=2 not_leader", "2 N owner=2 token=0", "2 E owner=9 indeterminate")
	})
	t.Run("a grant applied after it is told", func(t *testing.T) {
		f := newPending(t)
		a := f.open("10.0.0.1:1")
		f.acquire(a, 1, k)
		f.stepDown()
		f.apply(1)
		f.want("1 A owner=1 token=101")
	})
	t.Run("a follower proposes nothing", func(t *testing.T) {
		f, _, b := heldPending(t)
		f.acquire(b, 2, k)
		f.stepDown()
		f.wantProposed()
		f.pass(time.Hour)
		f.m.Apply(f.now, &Command{Kind: KindExpire, Key: []byte(k), Token: 101}, false)
		f.check()
		f.pass(time.Hour)
		f.wantProposed()
	})
}

func TestLead(t *testing.T) {
	follower := func(t *testing.T) *fixture {
		f := newPending(t)
		f.stepDown()
		for i, key := range []string{"k1", "k2", "k3"} {
			c := Command{Kind: KindGrant, Key: []byte(key), Owner: 5, LeaseMillis: uint32(1000 * (i + 1))}
			if r := f.m.Apply(f.now, &c, false); r.Token != uint64(101+i) {
				t.Fatalf("token %d", r.Token)
			}
			f.check()
		}
		return f
	}
	t.Run("leases that ended on the follower are proposed", func(t *testing.T) {
		f := follower(t)
		f.pass(2500 * time.Millisecond)
		f.wantProposed()
		f.m.Lead(f.now)
		f.pass(0)
		f.wantProposed("Expire k1 token=101", "Expire k2 token=102")
		f.apply(2)
		f.pass(time.Second)
		f.wantProposed("Expire k3 token=103")
	})
	t.Run("only a committed Expire removes a lock", func(t *testing.T) {
		f := follower(t)
		f.pass(time.Hour)
		if n := f.m.Stats().Held; n != 3 {
			t.Errorf("%d held", n)
		}
	})
	t.Run("a follower without a Tick for longer than a turn of the wheel", func(t *testing.T) {
		f := follower(t)
		f.now.Mono += int64(time.Hour)
		f.m.Apply(f.now, &Command{Kind: KindGrant, Key: []byte("k4"), Owner: 5, LeaseMillis: 2000}, false)
		f.check()
		f.m.Lead(f.now)
		f.pass(0)
		f.wantProposed("Expire k1 token=101", "Expire k2 token=102", "Expire k3 token=103")
		f.pass(1999 * time.Millisecond)
		f.wantProposed()
		f.pass(6 * time.Millisecond)
		f.wantProposed("Expire k4 token=104")
	})
	t.Run("a queue of a new reign", func(t *testing.T) {
		f := follower(t)
		f.m.Lead(f.now)
		a := f.open("10.0.0.1:1")
		f.acquire(a, 1, "k1")
		f.release(a, 5, 101, "k1")
		f.apply(2)
		f.want("1 R owner=5 token=101", "1 A owner=1 token=104")
	})
}
