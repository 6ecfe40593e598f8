package lock

import "ticketing.internal/wire"

// Stats counts what the manager did and holds.
type Stats struct {
	Held    int // keys held
	Waiters int // acquires in queues
	Pending int // undecided proposals

	LastToken uint64

	Acquires    uint64 // acquires taken up
	Releases    uint64 // releases taken up
	Withdrawals uint64 // releases with token 0 taken up

	Grants      uint64 // applied, own or not
	Handoffs    uint64 // grants to a waiter
	Released    uint64 // applied releases that found their grant
	Expirations uint64 // applied expiries that found their grant

	Replies ReplyCounts
}

// ReplyCounts counts the replies given.
type ReplyCounts struct {
	Granted, TimedOut, Released, NotHeld uint64

	Busy   [wire.BusyOverloaded + 1]uint64     // by wire.Busy
	Failed [wire.TooManyConnections + 1]uint64 // by wire.Failure
}

// Stats returns the manager's counters, which change with its next call: copy what is kept.
func (m *Manager) Stats() *Stats {
	s := &m.stats
	s.Held, s.Waiters, s.Pending, s.LastToken = m.held, m.line.queued, m.proposals.length, m.counter
	return s
}
