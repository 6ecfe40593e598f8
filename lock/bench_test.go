package lock

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// BenchmarkUncontended takes and gives back keys as clients do that pipeline: a batch of acquires, later their releases.
// One iteration is a request.
func BenchmarkUncontended(b *testing.B) {
	const depth, batch = 2048, 256
	q := newQuick(applyNow{}, depth)
	b.ReportAllocs()
	for n := 0; n < b.N; n += 2 * depth {
		for i, key := range q.keys {
			q.acquire(i+1, key, 1000, 30_000)
			if i%batch == batch-1 {
				q.endBatch()
			}
		}
		for i, key := range q.keys {
			q.release(i+1, key)
			if i%batch == batch-1 {
				q.endBatch()
			}
		}
	}
	if held := q.m.Stats().Held; held != 0 {
		b.Fatalf("%d keys are left", held)
	}
}

// BenchmarkAcquire and BenchmarkRelease measure the halves of it.
func BenchmarkAcquire(b *testing.B) { benchmarkHalf(b, true) }
func BenchmarkRelease(b *testing.B) { benchmarkHalf(b, false) }

func benchmarkHalf(b *testing.B, acquires bool) {
	const depth = 2048
	q := newQuick(applyNow{}, depth)
	for n := 0; n < b.N; n += depth {
		if !acquires {
			b.StopTimer()
		}
		for i, key := range q.keys {
			q.acquire(i+1, key, 1000, 30_000)
		}
		q.endBatch()
		if acquires {
			b.StopTimer()
		} else {
			b.StartTimer()
		}
		for i, key := range q.keys {
			q.release(i+1, key)
		}
		q.endBatch()
		if acquires {
			b.StartTimer()
		}
	}
}

// BenchmarkHandOff releases a key to its next waiter, who then queues again. One iteration is a release and an acquire.
func BenchmarkHandOff(b *testing.B) {
	for _, bench := range []struct {
		name    string
		waiters int
	}{{"8 waiters", 8}, {"100000 waiters", 100_000}} {
		b.Run(bench.name, func(b *testing.B) {
			q := newQuick(applyNow{}, 1)
			for i := range bench.waiters + 1 {
				q.acquire(i+1, q.keys[0], wire.MaxWaitMillis, 30_000)
			}
			b.ReportAllocs()
			b.ResetTimer()
			owner := 0
			for range b.N {
				q.release(owner+1, q.keys[0])
				q.acquire(owner+1, q.keys[0], wire.MaxWaitMillis, 30_000)
				q.endBatch()
				owner = (owner + 1) % (bench.waiters + 1)
			}
		})
	}
}

// BenchmarkPending is an acquire and a release that are decided later, as in a cluster.
func BenchmarkPending(b *testing.B) {
	const depth = 256
	q := newQuick(queueLog{}, depth)
	decide := func() {
		for range depth {
			q.m.Oldest()
			q.m.ApplyOldest(q.now)
		}
		q.endBatch()
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += 2 * depth {
		for i, key := range q.keys {
			q.acquire(i+1, key, 1000, 30_000)
		}
		decide()
		for i, key := range q.keys {
			q.release(i+1, key)
		}
		decide()
	}
}

// BenchmarkMillionHeld measures the memory of a lock with a key of 16 bytes, and how long a Tick holds the engine when the
// leases of a million end at once.
func BenchmarkMillionHeld(b *testing.B) {
	const n, budget = 1_000_000, 1024
	for range b.N {
		q := newQuick(applyNow{}, 0)
		key := []byte("order-0000000000")
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		for i := range n {
			for j, rest := 15, i; rest > 0; j, rest = j-1, rest/10 {
				key[j] = '0' + byte(rest%10)
			}
			q.acquire(1+i%1000, key, 0, 1000+uint32(i%1000))
			if i%256 == 255 {
				q.endBatch()
			}
		}
		q.endBatch()
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/n, "ns/acquire")
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.Sys-before.Sys)/n, "sys-bytes/key")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heap-bytes/key")
		b.ReportMetric(residentMegabytes(b), "MB-rss")
		q.now.Mono += 10_000_000_000
		worst, start := time.Duration(0), time.Now()
		for more := true; more; {
			part := time.Now()
			more = q.m.Tick(q.now, budget)
			worst = max(worst, time.Since(part))
		}
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/n, "ns/expiry")
		b.ReportMetric(float64(worst.Microseconds()), "us/worst-tick")
		if held := q.m.Stats().Held; held != 0 {
			b.Fatalf("%d keys are left", held)
		}
	}
}

// residentMegabytes returns the resident memory of the process, 0 where the system does not tell.
func residentMegabytes(b *testing.B) float64 {
	var size, resident int
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return float64(resident) * float64(os.Getpagesize()) / 1e6
}

// BenchmarkTimer sets and clears a timer among a million others.
func BenchmarkTimer(b *testing.B) {
	const n = 1 << 20
	var w wheel
	w.init()
	for c := range n >> chunkBits {
		w.nodes.add(c)
	}
	for id := uint32(2); id < n; id++ {
		w.set(id, uint64(id*2654435761%turnLen), 0)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		w.set(1, uint64(i%turnLen), 0)
		w.clear(1)
	}
}

// BenchmarkNextDeadline is asked once a batch.
func BenchmarkNextDeadline(b *testing.B) {
	q := newQuick(applyNow{}, 100)
	for i, key := range q.keys {
		q.acquire(i+1, key, 0, 30_000)
	}
	q.endBatch()
	b.ReportAllocs()
	for b.Loop() {
		q.m.NextDeadline()
	}
}

// BenchmarkSnapshot appends the locks of a large table. One iteration is a lock.
func BenchmarkSnapshot(b *testing.B) {
	const n = 100_000
	q := newQuick(applyNow{}, n)
	for i, key := range q.keys {
		q.acquire(i+1, key, 0, 30_000)
	}
	q.endBatch()
	buf := make([]byte, 0, 1<<20)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; {
		q.m.BeginSnapshot(q.now)
		for more := true; more && i < b.N; i += 1000 {
			_, more = q.m.AppendSnapshot(buf, 1000)
		}
	}
}
