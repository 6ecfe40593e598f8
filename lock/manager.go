package lock

import (
	"hash/maphash"
	"math"

	"ticketing.internal/wire"
)

// Time is one reading of the clocks.
type Time struct {
	Mono int64 // ns on a monotonic clock that counts suspend; not negative
	Wall int64 // unix ms, for people only
}

// Limits bound what the manager holds. All must be positive.
type Limits struct {
	Keys          int // keys held or about to be granted
	Waiters       int // acquires in queues; and, apart from them, releases that wait for a decision
	WaitersPerKey int // acquires in the queue of one key
	InFlight      int // unanswered acquires of one session
}

// Config is what a Manager is made of.
type Config struct {
	Limits    Limits
	Seed      maphash.Seed // of the indices; from maphash.MakeSeed
	TokenBase uint64       // the first token is above it; below 2^63
	Log       Log
	Sink      Sink
}

// Manager turns requests into commands and results into replies. See the package's documentation.
type Manager struct {
	table
	line
	sessions   slab[session]
	sessionIDs ids
	heldByOpen int // keys held that were granted to open sessions

	proposals proposals
	leading   bool
	refuse    wire.Busy // what new acquires are told; 0: they are served
	retryAt   int64     // mono ns before which nothing is proposed that was refused
	trimAt    int64     // mono ns at which trim is called next
	trimming  bool      // the last trim found memory to give back

	stats  Stats
	limits Limits
	log    Log
	sink   Sink

	reply   Reply   // scratch of Sink.Reply
	command Command // scratch of Log.Propose and Oldest
}

const (
	retryPause = 5_000_000  // ns after a refusal until the manager offers its own proposals again
	trimPause  = 10_000_000 // ns between two looks for memory to give back
)

// NewManager returns a manager that leads, serves, and holds nothing.
func NewManager(c Config) *Manager {
	m := &Manager{limits: c.Limits, log: c.Log, sink: c.Sink, leading: true}
	m.table.init(c.Seed, c.TokenBase)
	m.line.init(maphash.Bytes(c.Seed, nil))
	return m
}

// Tick judges what is due at now, in the order in which it fell due: what a Log has refused before, leases and waits. It
// does at most budget of that, and reports whether more is due at now.
func (m *Manager) Tick(now Time, budget int) (more bool) {
	m.retry(now, &budget)
	t := tickBefore(now.Mono)
	for budget > 0 {
		lease, wait := m.leases.next(), m.waits.next()
		switch {
		case lease <= min(t, wait):
			m.endLeases(now, min(t, wait), &budget)
		case wait <= t:
			m.endWaits(now, min(t, lease-1), &budget)
		default:
			budget = 0
		}
	}
	return m.nextDue() <= now.Mono
}

// endLeases judges leases due at tick or before.
func (m *Manager) endLeases(now Time, tick uint64, budget *int) {
	for id := m.leases.pop(tick, budget); id != 0; id = m.leases.pop(tick, budget) {
		if m.mayOffer(now) {
			m.proposeExpire(now, id)
		} else {
			m.leases.setLate(id)
		}
	}
}

// endWaits answers waiters whose wait is over at tick.
func (m *Manager) endWaits(now Time, tick uint64, budget *int) {
	for w := m.waits.pop(tick, budget); w != 0; w = m.waits.pop(tick, budget) {
		p := m.leaveQueue(w)
		m.timedOut(p.session, p.owner, m.keyOf(m.records.at(p.record)))
		m.settleQueue(now, p.record)
	}
}

// retry proposes what the Log has refused before, or what fell due while nothing could be proposed.
func (m *Manager) retry(now Time, budget *int) {
	for m.leases.late != 0 && m.mayOffer(now) && *budget > 0 {
		*budget--
		id := m.leases.late
		switch r := m.records.at(id); {
		case r.flags&held == 0:
			m.handOff(now, id)
		case r.flags&takenBack != 0:
			m.proposeRelease(now, 0, id)
		default:
			m.proposeExpire(now, id)
		}
	}
}

// EndBatch ends a batch of calls, Tick among them. now was read after them: the leases of what the batch has granted start then.
func (m *Manager) EndBatch(now Time) {
	m.startLeases(now.Mono)
	if now.Mono >= m.trimAt {
		m.trim(now)
	}
}

// Starting reports whether grants of this batch wait for EndBatch to start their leases.
func (m *Manager) Starting() bool { return len(m.freshIDs) > 0 }

// trim gives back the memory that a peak has left, slowly, so that a load that comes and goes makes no garbage.
func (m *Manager) trim(now Time) {
	m.trimAt = now.Mono + trimPause
	table, line := m.table.trim(), m.line.trim()
	m.trimming = table || line
	if c := m.sessionIDs.trim(); c != noChunk {
		m.sessions.drop(c)
		m.trimming = true
	}
}

// NextDeadline returns when Tick or EndBatch has something to do next, in ns of Time.Mono; math.MaxInt64 for never.
func (m *Manager) NextDeadline() int64 {
	next := m.nextDue()
	if m.trimming || m.table.ids.empty > keepEmpty || m.waiterIDs.empty > keepEmpty {
		next = min(next, m.trimAt)
	}
	return next
}

// nextDue returns when Tick has something to do next.
func (m *Manager) nextDue() int64 {
	next := int64(math.MaxInt64)
	if m.leading && m.leases.late != 0 {
		next = m.retryAt
	}
	if t := min(m.leases.next(), m.waits.next()); t != noTick {
		next = min(next, int64(t<<tickShift))
	}
	return next
}

// Refuse answers new acquires with B code from now on; 0 serves them again.
func (m *Manager) Refuse(code wire.Busy) { m.refuse = code }

// Drain refuses new acquires with B shutting_down, and queued waiters too. Releases still pass.
func (m *Manager) Drain(now Time) {
	m.refuse = wire.BusyShuttingDown
	m.refuseQueued(now, wire.BusyShuttingDown)
}

// refuseQueued answers everybody in a queue with B code.
func (m *Manager) refuseQueued(now Time, code wire.Busy) {
	for w := m.waiterIDs.next(0); w != 0; w = m.waiterIDs.next(w) {
		if m.waiters.at(w).proposed {
			continue
		}
		p := m.leaveQueue(w)
		m.busy(p.session, code, p.owner, m.keyOf(m.records.at(p.record)))
		m.settleQueue(now, p.record)
	}
}

// LastToken returns the token counter: the largest token that was granted, or the base.
func (m *Manager) LastToken() uint64 { return m.counter }

// RaiseToken makes every later token larger than base. It never lowers the counter.
func (m *Manager) RaiseToken(base uint64) { m.counter = max(m.counter, base) }

// StateHash returns a hash of the replicated state: the token counter, and of each lock key, owner, token, granted_at and
// lease. Nodes that applied the same commands have the same.
func (m *Manager) StateHash() uint64 { return m.stateHash() }

// LatestLeaseEnd returns when the last of all leases ends, in ns of Time.Mono, rounded up to the timers' tick.
// ok is false when nothing is held. To be called after EndBatch. It looks at every lock.
func (m *Manager) LatestLeaseEnd() (end int64, ok bool) {
	for id := m.table.ids.next(0); id != 0; id = m.table.ids.next(id) {
		if m.records.at(id).flags&held != 0 {
			end, ok = max(end, int64(m.leases.due(id)<<tickShift)), true
		}
	}
	return end, ok
}
