package lock

import (
	"hash/maphash"

	"ticketing.internal/wire"
)

// Time is one reading of the clocks.
type Time struct {
	Mono int64 // ns on a monotonic clock that counts suspend
	Wall int64 // unix ms, for people only
}

// Limits bound what the manager holds. All must be positive.
type Limits struct {
	Keys          int // keys held or about to be granted
	Waiters       int // acquires in queues
	WaitersPerKey int // acquires in the queue of one key
	InFlight      int // unanswered acquires of one session
}

// Config is what a Manager is made of.
type Config struct {
	Limits    Limits
	Seed      maphash.Seed // of the indices; from maphash.MakeSeed outside of tests
	TokenBase uint64       // the first token is above it
	Log       Log
	Sink      Sink
}

// Manager turns requests into commands and results into replies.
type Manager struct{ stats Stats }

// NewManager returns a manager that leads, serves, and holds nothing.
func NewManager(c Config) *Manager { return &Manager{} }

// OpenSession takes up a connection.
func (m *Manager) OpenSession(c Client) Session { return 0 }

// CloseSession ends s. Its waiters leave their queues; a grant that is under way to one of them is given back once it is
// applied. What the session holds stays held.
func (m *Manager) CloseSession(now Time, s Session) {}

// Acquire takes up an acquire that was read at now. Every outcome goes to Sink.Reply, possibly before it returns.
func (m *Manager) Acquire(now Time, s Session, r *wire.Request) {}

// Release takes up a release that was read at now, or a withdrawal if its token is 0.
func (m *Manager) Release(now Time, s Session, r *wire.Request) {}

// TakeBack gives back the grant that a Reply with this Ref and Token told of, because it could not be delivered.
// It does nothing if the grant is gone.
func (m *Manager) TakeBack(now Time, ref uint32, token uint64) {}

// Tick judges what is due at now: waits that have ended, leases that have ended, and what a Log has refused before.
// It does at most budget of that, and reports whether more is due at now.
func (m *Manager) Tick(now Time, budget int) (more bool) { return false }

// EndBatch ends a batch of calls. now was read after them: leases of what was granted in the batch start at it.
func (m *Manager) EndBatch(now Time) {}

// NextDeadline returns when Tick has something to do next, in ns of Time.Mono; math.MaxInt64 for never.
func (m *Manager) NextDeadline() int64 { return 0 }

// Refuse answers new acquires with B code from now on; 0 serves them again.
func (m *Manager) Refuse(code wire.Busy) {}

// Drain refuses new acquires with B shutting_down, and queued waiters too. Releases still pass.
func (m *Manager) Drain(now Time) {}

// Lead makes the manager propose and judge leases. The Log must not hold an undecided proposal of an earlier reign.
func (m *Manager) Lead(now Time) {}

// StepDown ends the reign: what only waits is told B not_leader, and nothing is proposed until Lead.
func (m *Manager) StepDown(now Time) {}

// Oldest returns the oldest undecided proposal. The command is scratch, valid until the next call of any method.
func (m *Manager) Oldest() (*Command, bool) { return nil, false }

// ApplyOldest applies the oldest undecided proposal, which is committed, and completes what waited for it.
func (m *Manager) ApplyOldest(now Time) Result { return Result{} }

// Apply applies a committed command. own says that it is the oldest undecided proposal.
func (m *Manager) Apply(now Time, c *Command, own bool) Result { return Result{} }

// Lost says that the oldest undecided proposal will never take effect: B code to its client.
func (m *Manager) Lost(now Time, code wire.Busy) {}

// Unknown says that the fate of the oldest undecided proposal cannot be known here: E indeterminate to its client.
func (m *Manager) Unknown(now Time) {}

// LastToken returns the token counter: the largest token that was granted, or the base.
func (m *Manager) LastToken() uint64 { return 0 }

// RaiseToken makes every later token larger than base. It never lowers the counter.
func (m *Manager) RaiseToken(base uint64) {}

// HeldByOpenSessions counts the held keys whose granting session is still open.
func (m *Manager) HeldByOpenSessions() int { return 0 }

// LatestLeaseEnd returns when the last of all leases ends, in ns of Time.Mono, rounded up to the timers' tick.
// ok is false when nothing is held. To be called after EndBatch.
func (m *Manager) LatestLeaseEnd() (end int64, ok bool) { return 0, false }

// StateHash returns a hash of the replicated state: the token counter, and of each lock key, owner, token, granted_at and
// lease. Nodes that applied the same commands have the same.
func (m *Manager) StateHash() uint64 { return 0 }

// BeginSnapshot starts a snapshot of the table as it is now; an unfinished one is given up.
func (m *Manager) BeginSnapshot(now Time) {}

// AppendSnapshot appends the next part of the snapshot to dst, looking at most at budget places of the table.
// more is false when the snapshot is complete. The table may change between the calls.
func (m *Manager) AppendSnapshot(dst []byte, budget int) (b []byte, more bool) { return dst, false }

// RestoreSnapshot replaces the table by the snapshot b, whose remaining leases count from now.
// The manager must not lead. If b is not a snapshot the table is left as it was.
func (m *Manager) RestoreSnapshot(now Time, b []byte) error { return nil }

// CheckInvariants walks over everything and returns what is broken. For tests: it takes time and memory.
func (m *Manager) CheckInvariants() error { return nil }
