package server

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ticketing.internal/lock"
)

// lives plays a server that crashes, stops, restarts and loses writes, on one time line of real nanoseconds, and checks what the
// gate is for: no grant while a lease of an earlier life runs, and no token that is not larger than all before.
type lives struct {
	*gateRig
	random *rand.Rand

	boot     byte
	bootedAt int64  // real ns at which the present boot's CLOCK_BOOTTIME was 0
	token    uint64 // the manager's counter

	largest  uint64  // token of any life
	earlier  int64   // real ns: the latest end of a lease of an earlier life
	ends     []int64 // real ns: leases of this life
	fresh    []time.Duration
	broken   error
	grants   int
	restarts int
}

func (l *lives) real() int64 { return l.bootedAt + l.now.Mono }

func (l *lives) start() {
	l.store.order, l.store.err = 0, nil
	// The wall clock is wrong now and then, also by years; the store alone must keep tokens growing.
	wall := tokenEpochMillis + l.random.Int64N(1_000_000_000)
	now := lock.Time{Mono: l.now.Mono, Wall: wall}
	g, err := openGate(l.store, now, bootID{l.boot}, 0)
	if err != nil {
		l.broken = err
		return
	}
	l.gateRig = &gateRig{t: l.t, gate: g, store: l.store, now: now}
	l.token = g.tokenBase()
	l.restarts++
}

// granted is what the manager does when a grant is applied.
func (l *lives) granted(lease time.Duration) {
	l.token++
	l.grants++
	switch {
	case l.real() < l.earlier:
		l.broken = fmt.Errorf("a grant %s before a lease of an earlier life ends", time.Duration(l.earlier-l.real()))
	case l.token <= l.largest:
		l.broken = fmt.Errorf("token %d after token %d", l.token, l.largest)
	}
	l.largest = max(l.largest, l.token)
	l.fresh = append(l.fresh, lease)
}

func (l *lives) ApplyOldest(now lock.Time) lock.Result {
	l.granted(time.Duration(millis(l.pending[0].LeaseMillis)))
	return l.gateRig.ApplyOldest(now)
}

// batch is one hold of the engine: grants are proposed, time passes, what waits is decided, leases start.
func (l *lives) batch(proposals int) {
	first := l.now.Mono
	for range proposals {
		lease := time.Duration(1000+l.random.IntN(249_001)) * time.Millisecond
		if l.random.IntN(4) > 0 {
			lease = min(lease, 12*time.Second)
		}
		c := grantFor(lease)
		switch verdict, _ := l.gate.Propose(l.now, c); verdict {
		case lock.ApplyNow:
			l.granted(lease)
		case lock.Pending:
			l.pending = append(l.pending, c)
		}
	}
	l.pass(l.random.Int64N(second / 100))
	if l.random.IntN(20) == 0 {
		l.pass(l.random.Int64N(40 * second)) // stopped in the middle of a batch
	}
	if w, ok := l.gate.advance(l.now, l); ok {
		l.write, l.writing = w, true
	}
	if l.gate.settle(first, l.now.Mono) == nil {
		for _, lease := range l.fresh {
			l.ends = append(l.ends, l.real()+int64(lease))
		}
	}
	l.fresh = l.fresh[:0] // after an error nobody is told of the grants
}

func (l *lives) finishWrite() {
	if !l.writing {
		return
	}
	l.writing = false
	l.gate.written(l.now, l.write.run())
	l.batch(0)
}

// end ends a life; what it granted is held on.
func (l *lives) end() {
	for _, e := range l.ends {
		l.earlier = max(l.earlier, e)
	}
	l.ends = l.ends[:0]
}

func (l *lives) crash() {
	if l.writing && l.random.IntN(2) == 0 {
		l.write.run() // it reached the disk all the same
	}
	l.end()
}

func (l *lives) stop() {
	latest := int64(0)
	if l.random.IntN(2) == 0 {
		l.ends = l.ends[:0] // all given back
	}
	for _, e := range l.ends {
		latest = max(latest, e-l.bootedAt)
	}
	w, _ := l.gate.final(l.now, latest)
	w.run()
	l.end()
}

func (l *lives) restart() {
	l.pass(l.random.Int64N(second))
	if l.random.IntN(3) == 0 {
		reset := l.random.Int64N(2000 * second)
		l.bootedAt += l.now.Mono - reset
		l.now.Mono = reset
		l.boot++
	}
	l.start()
}

func (l *lives) step() {
	switch l.random.IntN(40) {
	case 0:
		l.crash()
		l.restart()
	case 1:
		l.stop()
		l.restart()
	case 2:
		l.store.err = errDisk
	case 3, 4:
		l.store.err = nil
	case 5:
		l.pass(l.random.Int64N(300 * second))
	case 6:
		if many := uint64(tokenBlock / 4); l.gate.tokens+many <= l.gate.recorded.record.reserved { // as many grants in one go
			l.gate.tokens, l.token = l.gate.tokens+many, l.token+many
			l.largest = max(l.largest, l.token)
		}
	case 7, 8, 9, 10, 11, 12:
		l.finishWrite()
	default:
		l.pass(l.random.Int64N(2 * second))
		l.batch(1 + l.random.IntN(3))
	}
}

func TestGateAcrossLives(t *testing.T) {
	grants, restarts := 0, 0
	for seed := range uint64(400) {
		l := &lives{gateRig: &gateRig{t: t, store: &recordStore{}, now: lock.Time{Mono: processAge}}, random: rand.New(rand.NewPCG(seed, 0)), boot: 1}
		l.start()
		for step := 0; step < 600 && l.broken == nil; step++ {
			l.step()
		}
		if l.broken != nil {
			t.Fatalf("seed %d, life %d: %v", seed, l.restarts, l.broken)
		}
		grants, restarts = grants+l.grants, restarts+l.restarts
	}
	if grants < 10_000 || restarts < 4_000 {
		t.Errorf("only %d grants in %d lives: the test shows little", grants, restarts)
	}
}
