package lock

import (
	"fmt"
	"hash/maphash"
	"testing"

	"ticketing.internal/wire"
)

// queueLog decides nothing and keeps nothing.
type queueLog struct{}

func (queueLog) Propose(Time, *Command) (Verdict, wire.Busy) { return Pending, 0 }

// tokenSink keeps the token of each owner's latest grant.
type tokenSink struct{ tokens []uint64 }

func (s *tokenSink) Reply(_ Session, r *Reply) {
	if r.Op == wire.OpGranted {
		s.tokens[r.Owner] = r.Token
	}
}
func (s *tokenSink) ForeignRelease(Session, []byte, uint64, uint64, Client) {}

// quick is a manager whose log and sink cost nothing, for allocations and benchmarks.
type quick struct {
	m    *Manager
	sink *tokenSink
	s    Session
	now  Time
	r    wire.Request
	keys [][]byte
}

type applyNow struct{}

func (applyNow) Propose(Time, *Command) (Verdict, wire.Busy) { return ApplyNow, 0 }

func newQuick(log Log, keys int) *quick {
	const plenty = 1 << 20
	q := &quick{sink: &tokenSink{make([]uint64, 1<<18)}, now: Time{Mono: 1 << 50}}
	q.m = NewManager(Config{
		Limits: Limits{Keys: plenty, Waiters: plenty, WaitersPerKey: plenty, InFlight: plenty},
		Seed:   maphash.MakeSeed(), Log: log, Sink: q.sink,
	})
	q.s = q.m.OpenSession(Client{Name: "bench", Addr: "10.0.0.1:1"})
	for i := range keys {
		q.keys = append(q.keys, fmt.Appendf(nil, "order-%010d", i)) // 16 bytes
	}
	return q
}

func (q *quick) acquire(owner int, key []byte, wait, lease uint32) {
	q.r = wire.Request{Op: wire.OpAcquire, Owner: uint64(owner), Key: key, Wait: wait, Lease: lease}
	q.m.Acquire(q.now, q.s, &q.r)
}

func (q *quick) release(owner int, key []byte) {
	q.r = wire.Request{Op: wire.OpRelease, Owner: uint64(owner), Token: q.sink.tokens[owner], Key: key}
	q.m.Release(q.now, q.s, &q.r)
}

func (q *quick) endBatch() {
	q.now.Mono += 100_000
	q.m.EndBatch(q.now)
}

func TestNothingIsAllocated(t *testing.T) {
	long := make([]byte, 100)
	for i := range long {
		long[i] = 'x'
	}
	tests := []struct {
		name string
		log  Log
		do   func(q *quick)
	}{
		{"acquire and release", applyNow{}, func(q *quick) {
			for i, key := range q.keys {
				q.acquire(i+1, key, 0, 1000)
			}
			q.endBatch()
			for i, key := range q.keys {
				q.release(i+1, key)
			}
		}},
		{"of a long key", applyNow{}, func(q *quick) {
			q.acquire(1, long, 0, 1000)
			q.endBatch()
			q.release(1, long)
		}},
		{"hand-off", applyNow{}, func(q *quick) {
			for i := range 50 {
				q.acquire(i+1, q.keys[0], 1000, 1000)
			}
			q.endBatch()
			for i := range 50 {
				q.release(i+1, q.keys[0])
			}
		}},
		{"waits that end, withdrawals, refusals", applyNow{}, func(q *quick) {
			q.acquire(1, q.keys[0], 1, 1000)
			for i := range 50 {
				q.acquire(i+2, q.keys[0], 1, 1000)
			}
			q.endBatch()
			q.r = wire.Request{Owner: 7, Key: q.keys[0]}
			q.m.Release(q.now, q.s, &q.r)
			q.now.Mono += 10_000_000
			q.m.Tick(q.now, 1000)
			q.acquire(8, q.keys[0], 0, 1)
			q.release(1, q.keys[0])
		}},
		{"expiry, with a hand-off", applyNow{}, func(q *quick) {
			for i, key := range q.keys {
				q.acquire(i+1, key, 0, 1000)
				q.acquire(i+1000, key, 5000, 1000)
			}
			for range 2 {
				q.endBatch()
				q.now.Mono += 1_100_000_000
				q.m.Tick(q.now, 10_000)
			}
		}},
		{"all of it decided later", queueLog{}, func(q *quick) {
			decide := func() {
				for _, ok := q.m.Oldest(); ok; _, ok = q.m.Oldest() {
					q.m.ApplyOldest(q.now)
				}
				q.endBatch()
			}
			for i, key := range q.keys {
				q.acquire(i+1, key, 0, 1000)
				q.acquire(i+1000, key, 5000, 1000)
			}
			decide()
			for i, key := range q.keys {
				q.release(i+1, key)
				q.release(i+1, key)
			}
			decide()
			q.now.Mono += 1_100_000_000
			q.m.Tick(q.now, 10_000)
			decide()
		}},
		{"a follower", applyNow{}, func(q *quick) {
			q.m.StepDown(q.now)
			c := Command{Kind: KindGrant, Owner: 5, LeaseMillis: 1000, Key: q.keys[0]}
			token := q.m.Apply(q.now, &c, false).Token
			q.endBatch()
			q.m.Apply(q.now, &Command{Kind: KindExpire, Token: token, Key: q.keys[0]}, false)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := newQuick(test.log, 500)
			for range 3 {
				test.do(q) // tables grow
			}
			if n := testing.AllocsPerRun(20, func() { test.do(q) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if err := q.m.CheckInvariants(); err != nil {
				t.Error(err)
			}
			if held := q.m.Stats().Held; held != 0 {
				t.Errorf("%d keys are left", held)
			}
		})
	}
}

// TestMemoryComesBack: after a peak chunks are given back, slowly, and NextDeadline sees to it that this goes on.
func TestMemoryComesBack(t *testing.T) {
	const n = 100_000
	q := newQuick(applyNow{}, n)
	for i, key := range q.keys {
		q.acquire(i+1, key, 0, 1000)
		q.acquire(i+1+n, key, 1000, 1000)
	}
	q.endBatch()
	peak := q.chunks()
	q.m.CloseSession(q.now, q.s)
	q.s = q.m.OpenSession(Client{})
	for i, key := range q.keys {
		q.release(i+1, key)
	}
	for range 1000 {
		q.m.EndBatch(q.now)
		if q.m.NextDeadline() == 1<<63-1 {
			break
		}
		q.now.Mono = q.m.NextDeadline()
		q.m.Tick(q.now, 100)
	}
	if d := q.m.NextDeadline(); d != 1<<63-1 {
		t.Errorf("still a deadline at %d", d)
	}
	if left := q.chunks(); peak < 300 || left > 4*keepEmpty {
		t.Errorf("%d chunks are left of %d", left, peak)
	}
	if err := q.m.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// chunks counts the chunks that the slabs hold.
func (q *quick) chunks() (n int) {
	n += present(&q.m.records) + present(&q.m.index.nodes) + present(&q.m.waiters) + present(&q.m.queues)
	return n
}

func present[T any](s *slab[T]) (n int) {
	for _, c := range s.chunks {
		if c != nil {
			n++
		}
	}
	return n
}
