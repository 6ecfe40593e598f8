package lock

import (
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestTakeBack(t *testing.T) {
	t.Run("releases exactly that grant", func(t *testing.T) {
		f, a, b := heldPending(t)
		ref := f.sink.replies[0].Ref
		f.acquire(b, 2, k)
		f.m.TakeBack(f.now, ref, 100)
		f.m.TakeBack(f.now, ref+1, 101)
		f.m.TakeBack(f.now, 1<<30, 101)
		f.m.TakeBack(f.now, 0, 101)
		f.check()
		f.wantProposed()
		f.m.TakeBack(f.now, ref, 101)
		f.m.TakeBack(f.now, ref, 101)
		f.check()
		f.wantProposed("Release order-1 owner=1 token=101", "Grant order-1 owner=2")
		f.close(a)
		f.apply(2)
		f.want("2 A owner=2 token=102")
		f.m.TakeBack(f.now, ref, 101)
		f.check()
		f.wantProposed()
	})
	t.Run("lost: proposed again", func(t *testing.T) {
		f, _, _ := heldPending(t)
		f.m.TakeBack(f.now, f.sink.replies[0].Ref, 101)
		f.check()
		f.lose(wire.BusyNotLeader)
		f.pass(0)
		f.wantProposed("Release order-1 owner=1 token=101", "Release order-1 owner=1 token=101")
	})
	t.Run("behind a lost release of the client", func(t *testing.T) {
		f, a, _ := heldPending(t)
		f.release(a, 1, 101, k)
		f.m.TakeBack(f.now, f.sink.replies[0].Ref, 101)
		f.check()
		f.lose(wire.BusyNotLeader)
		f.pass(0)
		f.want("1 B owner=1 not_leader")
		f.wantProposed("Release order-1 owner=1 token=101", "Release order-1 owner=1 token=101")
	})
	t.Run("in the batch of the grant", func(t *testing.T) {
		f := newFixture(t, roomy)
		a := f.open("10.0.0.1:1")
		f.m.Acquire(f.now, a, &wire.Request{Owner: 1, Lease: testLease, Key: []byte(k)})
		f.m.TakeBack(f.now, f.sink.replies[0].Ref, 101)
		f.check()
		f.try(a, 2, k)
		f.want("1 A owner=1 token=101", "1 A owner=2 token=102")
	})
	t.Run("by a follower: when it leads", func(t *testing.T) {
		f, _, _ := heldPending(t)
		f.stepDown()
		f.m.TakeBack(f.now, f.sink.replies[0].Ref, 101)
		f.pass(time.Minute)
		f.wantProposed()
		f.m.Lead(f.now)
		f.pass(0)
		f.wantProposed("Release order-1 owner=1 token=101")
	})
}

// TestOwnProposalsAreTriedAgain: Expire, the Grants of a hand-off and take-backs are never given up, and paced.
func TestOwnProposalsAreTriedAgain(t *testing.T) {
	refuse := func(f *fixture, r bool) {
		f.log.verdict, f.log.code = Pending, wire.BusyOverloaded
		if r {
			f.log.verdict = Refused
		}
	}
	t.Run("Expire", func(t *testing.T) {
		f, _, _ := heldPending(t)
		refuse(f, true)
		f.pass((testLease + 5) * time.Millisecond)
		f.wantProposed("Expire order-1 token=101")
		if d := f.m.NextDeadline() - f.now.Mono; d != retryPause {
			t.Errorf("tried again in %d ns", d)
		}
		f.pass(retryPause - 1)
		f.wantProposed()
		f.pass(1)
		f.wantProposed("Expire order-1 token=101")
		refuse(f, false)
		f.pass(retryPause)
		f.wantProposed("Expire order-1 token=101")
		f.pass(time.Second)
		f.wantProposed()
	})
	t.Run("Grant of a hand-off, of a free key", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.acquire(b, 2, k)
		f.log.verdicts, f.log.code = []Verdict{Pending, Refused, Refused}, wire.BusyOverloaded
		f.release(a, 1, 101, k)
		f.wantProposed("Release order-1 owner=1 token=101", "Grant order-1 owner=2")
		f.apply(1)
		f.wantProposed() // paced
		f.acquire(a, 3, k)
		f.try(a, 4, k) // nobody barges in
		f.pass(retryPause)
		f.wantProposed("Grant order-1 owner=2")
		f.pass(retryPause)
		f.apply(1)
		f.want("1 R owner=1 token=101", "1 T owner=4", "2 A owner=2 token=102 after=10")
	})
	t.Run("Grant of a hand-off, whose waiter leaves", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.acquire(b, 2, k)
		f.log.verdicts, f.log.code = []Verdict{Pending, Refused}, wire.BusyOverloaded
		f.release(a, 1, 101, k)
		f.apply(1)
		f.withdraw(b, 2, k)
		f.want("1 R owner=1 token=101", "2 T owner=2", "2 R owner=2 token=0")
		f.wantProposed("Release order-1 owner=1 token=101", "Grant order-1 owner=2")
		f.pass(retryPause)
		f.wantProposed()
	})
	t.Run("Grant of a hand-off, whose waiter leaves, while the key is pinned", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.acquire(b, 2, k)
		f.log.verdicts, f.log.code = []Verdict{Pending, Refused}, wire.BusyOverloaded
		f.release(a, 1, 101, k)
		f.apply(1)
		f.release(a, 9, 300, k)
		f.withdraw(b, 2, k)
		if d := f.m.NextDeadline(); d != 1<<63-1 {
			t.Errorf("a deadline at %d, with nothing to do", d)
		}
		f.apply(1)
		f.want("1 R owner=1 token=101", "2 T owner=2", "2 R owner=2 token=0", "1 N owner=9 token=300")
	})
	t.Run("take-back", func(t *testing.T) {
		f, _, _ := heldPending(t)
		refuse(f, true)
		f.m.TakeBack(f.now, f.sink.replies[0].Ref, 101)
		f.check()
		refuse(f, false)
		f.pass(retryPause)
		f.wantProposed("Release order-1 owner=1 token=101", "Release order-1 owner=1 token=101")
	})
	t.Run("they say that they are", func(t *testing.T) {
		f, a, b := heldPending(t)
		f.acquire(b, 2, k)
		f.release(a, 1, 101, k)
		f.apply(2)
		f.m.TakeBack(f.now, f.sink.replies[0].Ref, 102)
		f.try(b, 3, "order-2")
		f.apply(2)
		f.pass((testLease + 5) * time.Millisecond)
		want := []string{
			"Release order-1 owner=1 token=101 paced=false", "Grant order-1 owner=2 paced=true",
			"Release order-1 owner=2 token=102 paced=true", "Grant order-2 owner=3 paced=false", "Expire order-2 token=103 paced=true",
		}
		for i, c := range f.log.commands {
			if got := commandLine(&c) + " paced=" + map[bool]string{true: "true", false: "false"}[c.Paced]; got != want[i] {
				t.Errorf("proposed %s, want %s", got, want[i])
			}
		}
	})
	t.Run("what a client asks for is refused to it", func(t *testing.T) {
		f, a, b := heldPending(t)
		refuse(f, true)
		f.release(a, 1, 101, k)
		f.acquire(b, 2, "order-2")
		f.release(b, 3, 200, k)
		f.want("1 B owner=1 overloaded", "2 B owner=2 overloaded", "2 B owner=3 overloaded")
		f.pass(time.Second)
		refuse(f, false)
		f.release(a, 1, 101, k)
		f.apply(1)
		f.want("1 R owner=1 token=101")
	})
}
