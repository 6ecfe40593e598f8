package server

import "ticketing.internal/lock"

// authority stands between the lock manager's commands and their application, and is all that a standalone server and a node
// of a cluster differ in: alone lets them pass, a replica has a majority record them first. Its methods are called inside a
// batch of the engine, but for left.
type authority interface {
	lock.Log
	// decide tells the manager what has become of its undecided commands. It is called at the end of each batch, before
	// leases start.
	decide(now lock.Time)
	// vouch is called once the leases of a batch have started: the first of its grants was proposed at first at the
	// earliest, and they start at now (mono ns). After an error none of them may leave.
	vouch(first, now int64) error
	// deadline is when it must be asked again at the latest, in mono ns.
	deadline() int64
	// left is called after the batch, without the engine's lock.
	left()
	// unready says why acquires are refused at now (mono ns), "" if they are not.
	unready(now int64) string
}

// alone is the authority of a standalone server: the gate lets a command pass at once unless the state file must be written
// first.
type alone struct {
	*gate
	manager *lock.Manager
	start   func(stateWrite) // starts a write; does not block
}

func (a *alone) decide(now lock.Time) {
	if write, ok := a.advance(now, a.manager); ok {
		a.start(write)
	}
}

func (a *alone) vouch(first, now int64) error { return a.settle(first, now) }

// deadline needs none of its own: an idle loop comes round often enough for a write that is to be tried again.
func (a *alone) deadline() int64 { return never }

func (a *alone) left() {}
