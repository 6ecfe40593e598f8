package server

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

const (
	second     = int64(time.Second)
	gateEpoch  = tokenEpochMillis + 1_000_000 // wall clock of the tests' start, unix ms
	gateBase   = 1_000_000 << tokenShift      // the token base that it gives
	processAge = 1000 * second                // CLOCK_BOOTTIME of the tests' start
)

func firstBoot() bootID  { return bootID{1} }
func secondBoot() bootID { return bootID{2} }

// recordStore is a stateStore in memory.
type recordStore struct {
	record stateRecord
	order  uint64
	writes int
	err    error
}

func (s *recordStore) read() (stateRecord, error) { return s.record, s.err }

func (s *recordStore) write(r stateRecord, order uint64) error {
	if s.err != nil {
		return s.err
	}
	if order > s.order {
		s.record, s.order = r, order
		s.writes++
	}
	return nil
}

// gateRig drives a gate as the engine does, in place of the lock manager.
type gateRig struct {
	t       *testing.T
	gate    *gate
	store   *recordStore
	now     lock.Time
	pending []*lock.Command
	lost    []wire.Busy
	applied int
	write   stateWrite // under way
	writing bool
}

func openRig(t *testing.T, store *recordStore, now lock.Time, boot bootID) *gateRig {
	t.Helper()
	store.order = 0
	g, err := openGate(store, now, boot, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &gateRig{t: t, gate: g, store: store, now: now}
}

func newRig(t *testing.T) *gateRig {
	return openRig(t, &recordStore{}, lock.Time{Mono: processAge, Wall: gateEpoch}, firstBoot())
}

func (r *gateRig) Oldest() (*lock.Command, bool) {
	if len(r.pending) == 0 {
		return nil, false
	}
	return r.pending[0], true
}

func (r *gateRig) ApplyOldest(lock.Time) lock.Result {
	r.applied++
	r.pending = r.pending[1:]
	return lock.Result{}
}

func (r *gateRig) Lost(_ lock.Time, code wire.Busy) {
	r.lost = append(r.lost, code)
	r.pending = r.pending[1:]
}

func grantFor(lease time.Duration) *lock.Command {
	return &lock.Command{Kind: lock.KindGrant, LeaseMillis: uint32(lease.Milliseconds()), Key: []byte("key"), Owner: 1}
}

// propose asks for a grant, as a batch of its own.
func (r *gateRig) propose(lease time.Duration) (lock.Verdict, wire.Busy) {
	c := grantFor(lease)
	verdict, code := r.gate.Propose(r.now, c)
	if verdict == lock.Pending {
		r.pending = append(r.pending, c)
	}
	r.endBatch()
	return verdict, code
}

func (r *gateRig) endBatch() {
	if w, ok := r.gate.advance(r.now, r); ok {
		if r.writing {
			r.t.Fatal("a second write is started while one is under way")
		}
		r.write, r.writing = w, true
	}
}

// finish ends the write under way.
func (r *gateRig) finish() {
	if !r.writing {
		r.t.Fatal("no write is under way")
	}
	r.writing = false
	r.gate.written(r.now, r.write.run())
	r.endBatch()
}

func (r *gateRig) pass(d int64) { r.now.Mono += d; r.now.Wall += d / int64(time.Millisecond) }

func (r *gateRig) expect(lease time.Duration, want lock.Verdict, wantCode wire.Busy) {
	r.t.Helper()
	if verdict, code := r.propose(lease); verdict != want || code != wantCode {
		r.t.Errorf("a grant for %s at %d s: verdict %d, %v; want %d, %v", lease, r.now.Mono/second, verdict, code, want, wantCode)
	}
}

// warm brings a grant for lease through, so that the next passes at once.
func (r *gateRig) warm(lease time.Duration) {
	r.t.Helper()
	r.expect(lease, lock.Pending, 0)
	r.finish()
	if len(r.pending) != 0 {
		r.t.Fatal("the write did not let the grant pass")
	}
}

func TestGateFirstGrantWaitsForItsWrite(t *testing.T) {
	r := newRig(t)
	if r.store.record != (stateRecord{boot: firstBoot(), horizon: processAge, reserved: gateBase + tokenBlock}) {
		t.Errorf("the first write says %+v", r.store.record)
	}
	r.expect(30*time.Second, lock.Pending, 0)
	r.expect(7*time.Second, lock.Pending, 0)
	if !r.writing || r.applied != 0 {
		t.Fatalf("writing %v, applied %d", r.writing, r.applied)
	}
	r.finish()
	if r.applied != 2 || r.gate.tokens != gateBase+2 {
		t.Errorf("applied %d, tokens to %d", r.applied, r.gate.tokens)
	}
	want := stateRecord{boot: firstBoot(), horizon: processAge + 30*second + horizonReach, reserved: gateBase + tokenBlock, longestMillis: 30_000}
	if r.store.record != want {
		t.Errorf("recorded %+v, want %+v", r.store.record, want)
	}
	r.expect(30*time.Second, lock.ApplyNow, 0)
	if r.writing {
		t.Error("a write follows that nobody needs")
	}
}

func TestGateReleaseAndExpiryAlwaysPass(t *testing.T) {
	r := newRig(t)
	r.store.err = errDisk
	r.expect(time.Second, lock.Pending, 0)
	r.finish()
	for _, kind := range []lock.Kind{lock.KindRelease, lock.KindExpire} {
		if verdict, _ := r.gate.Propose(r.now, &lock.Command{Kind: kind, LeaseMillis: 250_000}); verdict != lock.ApplyNow {
			t.Errorf("kind %d: verdict %d", kind, verdict)
		}
	}
}

// Steady load, one lease: the horizon moves once in 5 s and no grant waits, though each write takes a second.
func TestGateSteadyLoadNeverWaits(t *testing.T) {
	r := newRig(t)
	r.warm(10 * time.Second)
	before := r.store.writes
	started := int64(0)
	for range 60_000 / 10 {
		r.pass(10 * int64(time.Millisecond))
		r.expect(10*time.Second, lock.ApplyNow, 0)
		if r.writing && started == 0 {
			started = r.now.Mono
		}
		if r.writing && r.now.Mono >= started+second {
			r.finish()
			started = 0
		}
	}
	if writes := r.store.writes - before; writes < 10 || writes > 12 {
		t.Errorf("%d writes in 60 s; about one in 5 s to 6 s is due", writes)
	}
}

func TestGateLeaseLongerThanRecorded(t *testing.T) {
	r := newRig(t)
	r.warm(12 * time.Second)
	if r.store.record.longestMillis != 20_000 {
		t.Errorf("the longest lease is recorded as %d ms", r.store.record.longestMillis)
	}
	r.expect(20*time.Second, lock.ApplyNow, 0)
	r.expect(20*time.Second+time.Millisecond, lock.Pending, 0)
	r.finish()
	if r.store.record.longestMillis != 30_000 || r.applied != 2 {
		t.Errorf("the longest lease is recorded as %d ms, %d applied", r.store.record.longestMillis, r.applied)
	}
}

func TestGateReservesTokensAheadOfUse(t *testing.T) {
	r := newRig(t)
	r.warm(time.Second)
	r.gate.tokens = r.store.record.reserved - tokenBlock/2
	r.expect(time.Second, lock.ApplyNow, 0)
	if !r.writing {
		t.Fatal("half of the block is used and no write is started")
	}
	horizon := r.store.record.horizon
	for range 3 {
		r.expect(time.Second, lock.ApplyNow, 0)
	}
	r.gate.tokens = r.store.record.reserved - 1
	r.expect(time.Second, lock.ApplyNow, 0)
	r.expect(time.Second, lock.Pending, 0)
	r.finish()
	if r.applied != 2 {
		t.Fatalf("applied %d", r.applied)
	}
	// The block counts from where its write was started, and half of it is used by now.
	r.expect(time.Second, lock.ApplyNow, 0)
	r.finish()
	if got := r.store.record.reserved - r.gate.tokens; got != tokenBlock {
		t.Errorf("%d tokens are reserved", got)
	}
	if r.store.record.horizon != horizon {
		t.Error("the horizon moved, though only tokens were needed")
	}
}

func TestGateFailedWrite(t *testing.T) {
	r := newRig(t)
	r.warm(10 * time.Second)
	r.store.err = errDisk
	r.expect(100*time.Second, lock.Pending, 0)
	r.finish()
	if len(r.lost) != 1 || r.lost[0] != wire.BusyRecovering {
		t.Fatalf("the grant that waited: lost %v", r.lost)
	}
	if why := r.gate.unready(r.now.Mono); why != errDisk.Error() {
		t.Errorf("unready says %q", why)
	}
	r.expect(100*time.Second, lock.Refused, wire.BusyRecovering)
	r.expect(10*time.Second, lock.ApplyNow, 0)
	if r.writing {
		t.Error("tried again at once")
	}
	for range 3 {
		r.pass(second)
		r.endBatch()
		r.expect(100*time.Second, lock.Refused, wire.BusyRecovering)
		r.finish()
	}
	r.store.err = nil
	r.pass(second)
	r.endBatch()
	r.finish()
	if why := r.gate.unready(r.now.Mono); why != "" {
		t.Errorf("unready says %q", why)
	}
	r.expect(100*time.Second, lock.ApplyNow, 0)
}

// A disk that hangs is as bad as one that fails: what waits for it is told so, and it counts again once it answers.
func TestGateWriteThatHangs(t *testing.T) {
	r := newRig(t)
	r.expect(10*time.Second, lock.Pending, 0)
	r.pass(writeStall)
	r.endBatch()
	if len(r.lost) != 0 {
		t.Fatal("given up too early")
	}
	r.pass(1)
	r.endBatch()
	if len(r.lost) != 1 || !strings.Contains(r.gate.unready(r.now.Mono), "has not come back for 5") {
		t.Errorf("lost %v; unready says %q", r.lost, r.gate.unready(r.now.Mono))
	}
	r.expect(10*time.Second, lock.Refused, wire.BusyRecovering)
	r.finish()
	if why := r.gate.unready(r.now.Mono); why != "" {
		t.Errorf("unready says %q", why)
	}
	r.expect(10*time.Second, lock.ApplyNow, 0)
}

// After the write a grant is judged anew: it may have taken so long that the horizon is behind again.
func TestGateChecksAgainAfterTheWrite(t *testing.T) {
	r := newRig(t)
	r.expect(10*time.Second, lock.Pending, 0)
	r.pass(horizonReach)
	r.gate.failure = nil
	r.writing = false
	r.gate.written(r.now, r.write.run())
	r.endBatch()
	if r.applied != 0 || len(r.pending) != 1 || !r.writing {
		t.Fatalf("applied %d, pending %d, writing %v", r.applied, len(r.pending), r.writing)
	}
	r.finish()
	if r.applied != 1 {
		t.Error("the second write does not let it pass")
	}
}

func TestGateSettle(t *testing.T) {
	r := newRig(t)
	r.warm(10 * time.Second)
	r.gate.settle(r.now.Mono, r.now.Mono)
	writes := r.store.writes

	first := r.now.Mono
	r.expect(10*time.Second, lock.ApplyNow, 0)
	r.pass(leaseMargin)
	if err := r.gate.settle(first, r.now.Mono); err != nil || r.store.writes != writes {
		t.Errorf("a batch within the margin: %v, %d writes", err, r.store.writes-writes)
	}

	r.pass(100 * second) // nothing granted meanwhile
	if err := r.gate.settle(first, r.now.Mono); err != nil || r.store.writes != writes {
		t.Errorf("a long batch that granted nothing: %v, %d writes", err, r.store.writes-writes)
	}

	r.warm(10 * time.Second)
	r.gate.settle(r.now.Mono, r.now.Mono)
	first = r.now.Mono
	r.expect(10*time.Second, lock.ApplyNow, 0)
	r.pass(60 * second)
	if err := r.gate.settle(first, r.now.Mono); err != nil {
		t.Fatal(err)
	}
	if r.store.record.horizon < r.now.Mono+10*second {
		t.Error("a lease outlives the horizon")
	}

	r.warm(250 * time.Second)
	r.gate.settle(r.now.Mono, r.now.Mono)
	first = r.now.Mono
	r.expect(250*time.Second, lock.ApplyNow, 0)
	r.pass(60 * second)
	r.store.err = errDisk
	if err := r.gate.settle(first, r.now.Mono); !errors.Is(err, errDisk) {
		t.Errorf("settling on a disk that fails: %v", err)
	}
	if r.gate.unready(r.now.Mono) == "" {
		t.Error("ready, though the disk fails")
	}
}

// A write that was under way while settle wrote must not count for more than settle's.
func TestGateSettleDuringAWrite(t *testing.T) {
	r := newRig(t)
	r.warm(10 * time.Second)
	r.gate.settle(r.now.Mono, r.now.Mono)
	first := r.now.Mono
	r.expect(10*time.Second, lock.ApplyNow, 0)
	r.expect(240*time.Second, lock.Pending, 0) // starts a write
	r.pass(60 * second)
	if err := r.gate.settle(first, r.now.Mono); err != nil {
		t.Fatal(err)
	}
	settled := r.store.record
	if settled.longestMillis != 240_000 || settled.horizon < r.now.Mono+10*second {
		t.Errorf("settled with %+v, which does not cover the write under way", settled)
	}
	r.finish()
	if r.store.record != settled || r.gate.recorded.record != settled {
		t.Error("the older record came back")
	}
}

func TestGateWithoutAStateDirectory(t *testing.T) {
	g, err := openGate(nil, lock.Time{Mono: processAge, Wall: gateEpoch}, firstBoot(), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &gateRig{t: t, gate: g, now: lock.Time{Mono: processAge}}
	for range 1000 {
		r.pass(100 * second)
		r.expect(250*time.Second, lock.ApplyNow, 0)
	}
	if err := g.settle(0, math.MaxInt64); err != nil || r.writing || g.unready(r.now.Mono) != "" {
		t.Errorf("settle: %v; writing %v; unready %q", err, r.writing, g.unready(r.now.Mono))
	}
	if _, ok := g.final(r.now, math.MaxInt64); ok {
		t.Error("there is a final write")
	}
	r.expect(time.Second, lock.Refused, wire.BusyShuttingDown)
}

func TestGateHotPathDoesNotAllocate(t *testing.T) {
	r := newRig(t)
	r.warm(10 * time.Second)
	c := grantFor(10 * time.Second)
	if n := testing.AllocsPerRun(100, func() {
		if verdict, _ := r.gate.Propose(r.now, c); verdict != lock.ApplyNow {
			t.Fatal("not on the hot path")
		}
		r.gate.advance(r.now, r)
		r.gate.settle(r.now.Mono, r.now.Mono)
	}); n != 0 {
		t.Errorf("%v allocations a grant", n)
	}
}

func BenchmarkGatePropose(b *testing.B) {
	g, err := openGate(&recordStore{}, lock.Time{Mono: processAge, Wall: gateEpoch}, firstBoot(), 0)
	if err != nil {
		b.Fatal(err)
	}
	g.softEnd, g.softMillis, g.softTokens = math.MaxInt64, math.MaxUint32, math.MaxUint64
	now, c := lock.Time{Mono: processAge}, grantFor(10*time.Second)
	for b.Loop() {
		g.Propose(now, c)
	}
}
