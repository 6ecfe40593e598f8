package server

import (
	"fmt"
	"math"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// gate is the lock.Log of a standalone server. It lets a grant take effect only when a restart after a crash could neither grant
// the same key while the lease runs nor hand out a token that is not larger. For that the state file records a time that no lease
// outlives (the horizon), the longest lease, and a number that no token exceeds. These are written ahead of use, in the background,
// so that only a grant beyond them has to wait. Releases and expiries always pass: they give nothing away.
//
// Everything here is called under the engine's lock, except the run of a stateWrite, which takes as long as the disk takes.
// The engine drives it like this:
//
//	start        openGate reads the state file and makes the first write, which comes before any grant
//	             manager: Config{TokenBase: gate.tokenBase(), Log: gate}
//	each batch   first := the stamp of its input; manager calls Propose for each grant
//	its end      write, ok := gate.advance(now, manager)   decides what waited; may apply grants
//	             manager.EndBatch(stamp)                   leases start
//	             err := gate.settle(first, stamp)          see there: an error means that the batch's grants must not leave
//	             unlock; if ok: writer.start(write)
//	write done   lock; gate.written(now, err); then as at the end of a batch
//	each tick    as at the end of a batch, at least twice a second: retries and stalled writes are found here
//	clean stop   write := gate.final(now, latest lease end); unlock; writer.start(write); writer.stop(ctx)
//
// Without a state directory every grant passes at once, and a restart forgets everything.
type gate struct {
	// What each grant is compared with first. Within these bounds no write is due; beyond them decide looks closer.
	softEnd    int64  // mono ns
	softMillis uint32 // lease
	softTokens uint64
	tokens     uint64 // at least the manager's token counter: every grant that passed is counted

	store    stateStore // nil: nothing is kept
	pauseEnd int64      // mono ns until which leases of an earlier process may run; 0: no pause, or over
	stopped  bool
	settled  uint64 // tokens at the last settle

	recorded stateWrite // the newest write that is on the disk
	orders   uint64     // how many writes were made
	flying   stateWrite // the write under way, if inFlight
	inFlight bool
	startAt  int64 // mono ns at which the write under way began
	retryAt  int64 // mono ns before which no other write begins
	failure  error // why grants that need a write get B recovering
	recheck  bool  // the grants that wait have to be decided anew

	wanted     bool   // a write is due
	wantMillis uint32 // longest lease among the grants that made it so
}

// stateStore keeps one record for the next life of the server; stateFile is one.
type stateStore interface {
	read() (stateRecord, error) // the zero record if there is none yet
	write(r stateRecord, order uint64) error
}

// stateWrite is a record on its way to the store.
type stateWrite struct {
	record stateRecord
	order  uint64
	store  stateStore
}

func (w stateWrite) run() error { return w.store.write(w.record, w.order) }

// pendingGrants is what the gate needs of the lock manager to decide the grants that wait.
type pendingGrants interface {
	Oldest() (*lock.Command, bool)
	ApplyOldest(now lock.Time) lock.Result
	Lost(now lock.Time, code wire.Busy)
}

const (
	// leaseMargin is how long a batch may take: leases are proposed at its first stamp and start at its last.
	leaseMargin = int64(time.Second)
	// writeAhead is how long before the horizon is reached the next write starts, so that nothing waits for a slow disk.
	writeAhead = int64(2 * time.Second)
	// horizonPeriod is how long leases of one length can be granted before the horizon has to be moved.
	horizonPeriod = int64(5 * time.Second)
	horizonReach  = leaseMargin + writeAhead + horizonPeriod

	// tokenBlock is how many tokens a write reserves; the next one starts at half of it.
	tokenBlock = 1 << 24
	// longestStepMillis is what the recorded longest lease is rounded up to, so that slowly growing leases cost few writes.
	longestStepMillis = 10_000
	writeRetry        = int64(time.Second)
	// writeStall is how long a write may take before it counts as failed: nobody waits for a disk that hangs.
	writeStall = int64(5 * time.Second)
)

// tokenBase is the token above which the manager starts.
func (g *gate) tokenBase() uint64 { return g.tokens }

// Propose implements lock.Log.
func (g *gate) Propose(now lock.Time, c *lock.Command) (lock.Verdict, wire.Busy) {
	if c.Kind != lock.KindGrant {
		return lock.ApplyNow, 0
	}
	if now.Mono+millis(c.LeaseMillis) <= g.softEnd && c.LeaseMillis <= g.softMillis && g.tokens < g.softTokens {
		g.tokens++
		return lock.ApplyNow, 0
	}
	return g.decide(now.Mono, c.LeaseMillis)
}

// decide judges a grant for which a write is due.
func (g *gate) decide(now int64, leaseMillis uint32) (lock.Verdict, wire.Busy) {
	if g.stopped {
		return lock.Refused, wire.BusyShuttingDown
	}
	if now < g.pauseEnd {
		return lock.Refused, wire.BusyRecovering
	}
	if g.pauseEnd != 0 {
		g.pauseEnd = 0
		g.relax()
	}
	g.wanted, g.wantMillis = true, max(g.wantMillis, leaseMillis)
	if g.covers(now, leaseMillis) {
		g.tokens++
		return lock.ApplyNow, 0
	}
	if g.failure != nil {
		return lock.Refused, wire.BusyRecovering
	}
	return lock.Pending, 0
}

// covers reports whether a lease proposed at now, and starting within leaseMargin, is within what the disk says.
func (g *gate) covers(now int64, leaseMillis uint32) bool {
	r := &g.recorded.record
	return now+millis(leaseMillis)+leaseMargin <= r.horizon && leaseMillis <= r.longestMillis && g.tokens < r.reserved
}

// advance decides the grants that wait, as far as it can, and says whether a write is to be started.
func (g *gate) advance(now lock.Time, m pendingGrants) (write stateWrite, ok bool) {
	if g.inFlight && g.failure == nil && now.Mono-g.startAt > writeStall {
		g.failure = fmt.Errorf("the write of the state file has not come back for %s", time.Duration(now.Mono-g.startAt))
		g.recheck = true
	}
	if g.recheck {
		g.recheck = false
		g.decidePending(now, m)
	}
	if !g.wanted || g.inFlight || g.stopped || now.Mono < g.retryAt {
		return stateWrite{}, false
	}
	g.flying, g.inFlight, g.startAt = g.newWrite(g.next(now.Mono)), true, now.Mono
	return g.flying, true
}

func (g *gate) decidePending(now lock.Time, m pendingGrants) {
	for {
		c, ok := m.Oldest()
		if !ok {
			return
		}
		switch verdict, code := g.Propose(now, c); verdict {
		case lock.ApplyNow:
			m.ApplyOldest(now)
		case lock.Refused:
			m.Lost(now, code)
		default:
			return
		}
	}
}

// next returns a record that lets grants such as those that made the write due pass for a while. What is wanted only grows until a
// write succeeds, so next also covers a record that is still under way.
func (g *gate) next(now int64) stateRecord {
	r := g.recorded.record
	lease := roundUpLease(g.wantMillis)
	if now+millis(lease) > g.softEnd {
		r.horizon = max(r.horizon, now+millis(lease)+horizonReach)
	}
	r.longestMillis = max(r.longestMillis, lease)
	r.reserved = max(r.reserved, g.tokens+tokenBlock)
	return r
}

func (g *gate) newWrite(r stateRecord) stateWrite {
	g.orders++
	return stateWrite{record: r, order: g.orders, store: g.store}
}

// written takes the outcome of the write under way. The engine calls advance next.
func (g *gate) written(now lock.Time, err error) {
	g.inFlight, g.recheck = false, true
	if g.stopped {
		return
	}
	g.failure = err
	if err != nil {
		g.retryAt = now.Mono + writeRetry
		g.wanted = true
		return
	}
	g.accept(g.flying)
}

// settle is called once the leases of a batch have started, at stamp; first is the earliest stamp at which one of them was
// proposed. If the batch took longer than leaseMargin, because the machine or the process stood still, they may end after the
// recorded horizon: then settle moves the horizon while the engine waits. After an error the grants of the batch must not be sent:
// the connections that were to get one are reset, which takes the grants back.
func (g *gate) settle(first, stamp int64) error {
	granted := g.tokens != g.settled
	g.settled = g.tokens
	late := stamp - first - leaseMargin
	if late <= 0 || !granted || g.store == nil {
		return nil
	}
	if g.failure != nil {
		return g.failure
	}
	r := g.next(stamp)
	r.horizon = max(r.horizon, g.recorded.record.horizon+late)
	w := g.newWrite(r)
	if err := w.run(); err != nil {
		g.failure, g.recheck, g.wanted = err, true, true
		g.retryAt = stamp + writeRetry
		return err
	}
	g.accept(w)
	return nil
}

// final ends the granting, and returns the record of a clean stop. latestEnd is when the last lease that is still held ends (mono
// ns; 0 if nothing is held). Grants that still wait are refused at the next advance. ok is false without a state directory.
func (g *gate) final(now lock.Time, latestEnd int64) (write stateWrite, ok bool) {
	g.stopped, g.recheck = true, true
	g.softEnd = math.MinInt64
	if g.store == nil {
		return stateWrite{}, false
	}
	r := g.recorded.record
	r.clean, r.horizon, r.longestMillis = true, 0, 0
	if end := max(latestEnd, g.pauseEnd); end > now.Mono {
		r.horizon = end
		r.longestMillis = uint32(min((end-now.Mono)/int64(time.Millisecond)+1, wire.MaxLeaseMillis))
	}
	return g.newWrite(r), true
}

// unready says why acquires are refused at now, "" if they are not.
func (g *gate) unready(now int64) string {
	switch {
	case now < g.pauseEnd:
		left := (time.Duration(g.pauseEnd-now) + time.Second).Truncate(time.Second)
		return fmt.Sprintf("recovering: leases granted before the restart may run for %s more", left)
	case g.failure != nil:
		return g.failure.Error()
	}
	return ""
}

// accept notes that w is on the disk.
func (g *gate) accept(w stateWrite) {
	if w.order < g.recorded.order {
		return
	}
	g.recorded = w
	g.wanted, g.wantMillis = false, 0
	g.relax()
}

// relax derives the bounds of the hot path from what is on the disk.
func (g *gate) relax() {
	r := &g.recorded.record
	g.softEnd, g.softMillis, g.softTokens = r.horizon-leaseMargin-writeAhead, r.longestMillis, r.reserved-tokenBlock/2
	if g.pauseEnd != 0 || g.stopped {
		g.softEnd = math.MinInt64
	}
}

func millis(n uint32) int64 { return int64(n) * int64(time.Millisecond) }

// roundUpLease rounds a lease (ms) up to the step of the recorded longest lease.
func roundUpLease(leaseMillis uint32) uint32 {
	return (leaseMillis + longestStepMillis - 1) / longestStepMillis * longestStepMillis
}
