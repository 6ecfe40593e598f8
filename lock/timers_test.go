package lock

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// wheelFixture is a wheel beside the naive list of what is set.
type wheelFixture struct {
	t    *testing.T
	w    wheel
	set  map[uint32]uint64 // due ticks of the timers in slots
	late []uint32
	now  uint64
}

func newWheelFixture(t *testing.T, now uint64) *wheelFixture {
	f := &wheelFixture{t: t, set: map[uint32]uint64{}, now: now}
	f.w.init()
	f.w.nodes.add(0)
	return f
}

func (f *wheelFixture) arm(id uint32, due uint64) {
	f.w.set(id, due, f.now)
	f.set[id] = due
}

func (f *wheelFixture) clear(id uint32) {
	f.w.clear(id)
	delete(f.set, id)
	for i, l := range f.late {
		if l == id {
			f.late = append(f.late[:i], f.late[i+1:]...)
			break
		}
	}
}

// pop takes out all that is due and checks that it is exactly that.
func (f *wheelFixture) pop(budget int) {
	f.t.Helper()
	for {
		left := budget
		id := f.w.pop(f.now, &left)
		if id == 0 {
			if left == 0 {
				continue // the budget went on timers that are not due yet
			}
			break
		}
		due, ok := f.set[id]
		if !ok || due > f.now {
			f.t.Fatalf("tick %d: timer %d fires, set %v for %d", f.now, id, ok, due)
		}
		if f.w.linked(id) || f.w.due(id) != due {
			f.t.Fatalf("tick %d: timer %d: linked %v, due %d, want %d", f.now, id, f.w.linked(id), f.w.due(id), due)
		}
		delete(f.set, id)
	}
	for id, due := range f.set {
		if due <= f.now {
			f.t.Fatalf("tick %d: timer %d, due at %d, has not fired", f.now, id, due)
		}
	}
}

func (f *wheelFixture) check() {
	f.t.Helper()
	var a ids
	for range chunkLen - 1 {
		a.alloc()
	}
	c := checker{}
	c.checkWheel("wheel", &f.w, &a)
	if len(c.broken) > 0 {
		f.t.Fatalf("tick %d: %v", f.now, c.broken)
	}
	first := f.w.next()
	if (first != noTick) != (len(f.set) > 0) {
		f.t.Fatalf("tick %d: next %d with %d set", f.now, first, len(f.set))
	}
	for id, due := range f.set {
		if due < first && due >= f.now {
			f.t.Fatalf("tick %d: timer %d is due at %d, next says %d", f.now, id, due, first)
		}
	}
	i := 0
	for id := f.w.late; id != 0; id = f.w.nodes.at(id).next {
		if i == len(f.late) || f.late[i] != id {
			f.t.Fatalf("tick %d: late timer %d is %d, want %v", f.now, i, id, f.late)
		}
		i++
	}
	if i != len(f.late) {
		f.t.Fatalf("tick %d: %d late, want %v", f.now, i, f.late)
	}
}

func TestWheelAgainstNaiveTimers(t *testing.T) {
	starts := []uint64{0, 1, turnLen - 1, 1<<32 - 3, 1<<32 + 5, 1 << 40}
	for _, start := range starts {
		t.Run(fmt.Sprint(start), func(t *testing.T) {
			f := newWheelFixture(t, start)
			rnd := rand.New(rand.NewPCG(start, 1))
			for step := range 4000 {
				id := uint32(rnd.IntN(chunkLen-1) + 1)
				switch rnd.IntN(8) {
				case 0, 1, 2:
					f.clear(id)
					span := []int{2, 100, turnLen, 20 * turnLen}[rnd.IntN(4)]
					f.arm(id, f.now+uint64(rnd.IntN(span)))
				case 3:
					f.clear(id)
					f.arm(id, max(f.now, 50)-uint64(rnd.IntN(50))) // in the past
				case 4:
					f.clear(id)
				case 5:
					f.clear(id)
					f.w.setLate(id)
					f.late = append(f.late, id)
				case 6:
					f.now += uint64(rnd.IntN(64))
				case 7:
					f.now += uint64([]int{1, 10, 1000, turnLen - 1, turnLen, 3 * turnLen}[rnd.IntN(6)])
				}
				f.pop(1 + rnd.IntN(20))
				if step%16 == 0 {
					f.check()
				}
			}
			for id := range f.set {
				f.clear(id)
			}
			f.check()
		})
	}
}

func TestWheelFindsTheNextSlot(t *testing.T) {
	for _, now := range []uint64{0, 63, 64, 4095, 4096, turnLen - 1} {
		for _, distance := range []uint64{0, 1, 62, 63, 64, 65, 4031, 4032, 4096, 4160, turnLen - 64, turnLen - 1} {
			f := newWheelFixture(t, now)
			f.arm(1, now+distance)
			if tick := f.w.next(); tick != now+distance {
				t.Errorf("at %d: the next is %d, want %d", now, tick, now+distance)
			}
			f.clear(1)
			if tick := f.w.next(); tick != noTick {
				t.Errorf("at %d: the next is %d, want none", now, tick)
			}
		}
	}
}

func TestWheelSlotIsTakenInParts(t *testing.T) {
	f := newWheelFixture(t, 10)
	for id := uint32(1); id < 1000; id++ {
		f.arm(id, 12)
	}
	f.now = 20
	fired := 0
	for part := 1; part <= 4; part++ {
		budget := 300
		for f.w.pop(f.now, &budget) != 0 {
			fired++
		}
		if want := min(300*part, 999); fired != want {
			t.Fatalf("%d fired after %d parts, want %d", fired, part, want)
		}
		if tick := f.w.next(); part < 4 && tick != 12 {
			t.Fatalf("after %d parts the next tick is %d", part, tick)
		}
	}
}

// TestTimersAreNeverEarly lets a loop sleep until NextDeadline, always, and looks when leases and waits end.
func TestTimersAreNeverEarly(t *testing.T) {
	const tickNanos = 1 << tickShift
	rnd := rand.New(rand.NewPCG(3, 4))
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	ends := map[uint64]int64{}  // by owner: the end of its lease or wait
	leases := map[uint64]bool{} // owners that hold
	for owner := uint64(1); owner <= 300; owner++ {
		f.now.Mono += rnd.Int64N(int64(3 * time.Millisecond)) // less than the shortest lease or wait in all
		key := fmt.Sprintf("key-%d", owner)
		lease, wait := uint32(rnd.IntN(249_001)+1000), uint32(rnd.IntN(wire.MaxWaitMillis-999)+1000)
		if owner%2 == 1 {
			f.acquireFor(s, owner, key, 0, lease)
			ends[owner], leases[owner] = f.now.Mono+int64(lease)*nanosPerMilli, true
			continue
		}
		// Behind a lock that another leader granted, and that nothing ends.
		f.m.Apply(f.now, &Command{Kind: KindGrant, Key: []byte(key), Owner: 1, LeaseMillis: 1 << 31}, false)
		f.acquireFor(s, owner, key, wait, 1000)
		ends[owner] = f.now.Mono + int64(wait)*nanosPerMilli
	}
	f.sink.replies, f.sink.lines = f.sink.replies[:0], f.sink.lines[:0]
	f.log.commands = f.log.commands[:0]
	over := func(owner uint64) {
		late := f.now.Mono - ends[owner]
		if late < 0 || late > tickNanos {
			t.Errorf("owner %d: %v after the end", owner, time.Duration(late))
		}
		delete(ends, owner)
	}
	for len(ends) > 0 {
		deadline := f.m.NextDeadline()
		if deadline < f.now.Mono {
			t.Fatalf("the next deadline has passed by %v", time.Duration(f.now.Mono-deadline))
		}
		f.now.Mono = deadline
		f.m.Tick(f.now, 1<<30)
		f.m.EndBatch(f.now)
		for _, r := range f.sink.replies {
			over(r.Owner)
		}
		for _, c := range f.log.commands {
			owner := uint64(0)
			fmt.Sscanf(string(c.Key), "key-%d", &owner)
			if !leases[owner] {
				t.Errorf("%s", commandLine(&c))
			}
			over(owner)
		}
		f.sink.replies, f.sink.lines, f.log.commands = f.sink.replies[:0], f.sink.lines[:0], f.log.commands[:0]
	}
	f.check()
}

func TestLeaseStartsAtTheEndOfTheBatch(t *testing.T) {
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	f.m.Acquire(f.now, s, &wire.Request{Owner: 1, Lease: 1000, Key: []byte("k")})
	f.now.Mono += int64(700 * time.Millisecond) // a batch that took its time
	f.check()
	f.pass(999 * time.Millisecond)
	f.try(s, 2, "k")
	f.pass(6 * time.Millisecond)
	f.try(s, 3, "k")
	f.want("1 A owner=1 token=101", "1 T owner=2", "1 A owner=3 token=102")
}

func TestGrantReleasedInItsBatchIsNeverArmed(t *testing.T) {
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	for range 3 {
		f.m.Acquire(f.now, s, &wire.Request{Owner: 1, Lease: 1000, Key: []byte("k")})
		f.m.Release(f.now, s, &wire.Request{Owner: 1, Token: f.m.LastToken(), Key: []byte("k")})
	}
	f.check()
	if d := f.m.NextDeadline(); d != 1<<63-1 {
		t.Errorf("a deadline at %d", d)
	}
	f.m.Acquire(f.now, s, &wire.Request{Owner: 1, Lease: 1000, Key: []byte("k")})
	f.m.Release(f.now, s, &wire.Request{Owner: 1, Token: f.m.LastToken(), Key: []byte("k")})
	f.m.Acquire(f.now, s, &wire.Request{Owner: 2, Lease: 2000, Key: []byte("k")})
	f.check()
	if d := f.m.NextDeadline() - f.now.Mono; d < int64(2*time.Second) || d > int64(2*time.Second)+1<<tickShift {
		t.Errorf("a deadline in %v", time.Duration(d))
	}
}

// TestTickInOrderOfTime: after a stall, what fell due is judged in the order in which it did.
func TestTickInOrderOfTime(t *testing.T) {
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	f.acquireFor(s, 1, "k", 0, 3000)
	f.acquireFor(s, 2, "k", 2000, 60_000) // over before the lease ends
	f.acquireFor(s, 3, "k", 4000, 1500)   // its turn comes first
	f.acquireFor(s, 4, "k", 4100, 60_000)
	f.pass(time.Minute)
	f.want("1 A owner=1 token=101", "1 T owner=2", "1 A owner=3 token=102 after=60000", "1 T owner=4")
}

func TestTickBudget(t *testing.T) {
	const n = 1000
	f := newFixture(t, Limits{Keys: n, Waiters: n, WaitersPerKey: n, InFlight: n})
	s := f.open("10.0.0.1:1")
	r := wire.Request{Lease: 1000, Wait: 500}
	for i := range n {
		r.Owner, r.Key = uint64(i+1), fmt.Appendf(nil, "k%d", i)
		f.m.Acquire(f.now, s, &r)
	}
	for i := range n / 2 {
		r.Owner, r.Key = uint64(n+i+1), fmt.Appendf(nil, "k%d", i)
		f.m.Acquire(f.now, s, &r)
	}
	f.check()
	f.now.Mono += int64(2 * time.Second)
	for left := n + n/2; left > 0; {
		before := f.m.Stats().Held + f.m.Stats().Waiters
		more := f.m.Tick(f.now, 70)
		f.check()
		after := f.m.Stats().Held + f.m.Stats().Waiters
		if before-after != min(70, left) || more != (after > 0) {
			t.Fatalf("%d due timers became %d, more %v", before, after, more)
		}
		left = after
	}
}

func TestClocksOfLoopsMayDiffer(t *testing.T) {
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	f.acquireFor(s, 1, "k", 0, 1000)
	f.pass(900 * time.Millisecond)
	f.now.Mono -= int64(50 * time.Millisecond)
	f.acquireFor(s, 2, "k", 10, 1000)
	f.pass(5 * time.Millisecond)
	f.want("1 A owner=1 token=101")
	f.pass(30 * time.Millisecond)
	f.want("1 T owner=2")
	f.pass(time.Second)
	if n := f.m.Stats().Held; n != 0 {
		t.Errorf("%d held", n)
	}
}
