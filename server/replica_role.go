package server

import (
	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// depose ends the manager's reign if the node's has ended, before anything else is done: clients are told where to go, and waiters
// are sent there. What is proposed stays undecided until the log decides it.
func (r *replica) depose(now lock.Time, s *raft.State) {
	if !r.state.Serving || s.Serving && s.Term == r.state.Term {
		return
	}
	r.state = *s
	r.state.Serving = false
	r.engine.setLeadership(r.leadership())
	r.engine.manager.StepDown(now)
	r.undecided.giveUp = now.Mono + indeterminateAfter
}

// assume takes over the node's new state, after everything that is committed is applied: a reign begins with nothing undecided from
// the one before.
func (r *replica) assume(now lock.Time, s *raft.State) {
	begins := s.Serving && !r.state.Serving
	r.state = *s
	r.engine.setLeadership(r.leadership())
	if begins {
		r.undecided = undecided{giveUp: never}
		r.engine.manager.Lead(now)
	}
	r.refuse(now)
	r.engine.noteReadiness(now.Mono)
	r.changed()
}

// leadership is what clients are told. A leader that does not serve yet is as good as none.
func (r *replica) leadership() leadership {
	l := leadership{serving: r.state.Serving, term: r.state.Term}
	if !l.serving && r.state.Role == raft.RoleFollower {
		if info := r.node.Registry().Member(r.state.Leader); info != nil {
			l.leader = info.ClientAddr
		}
	}
	return l
}

// refuse tells the manager what new acquires get for now.
func (r *replica) refuse(now lock.Time) {
	if r.engine.draining {
		return // Drain has said it
	}
	code := wire.Busy(0)
	switch {
	case !r.state.Serving:
		code = r.whereElse()
	case now.Mono < r.pauseEnd:
		code = wire.BusyRecovering
	case r.state.HoldBack:
		code = wire.BusyOverloaded
	}
	r.engine.manager.Refuse(code)
}

// majorityAdvice is what to do without a majority. A process that has ended comes back as another, which only a majority can admit.
const majorityAdvice = "wait, if the other processes still run (they start, elect, or the network is cut); if a majority of them has ended, starting them again " +
	"does not help: make a new cluster with `ticketing cluster init --after-loss`"

// unready implements authority.
func (r *replica) unready(now int64) string {
	switch {
	case r.node == nil:
		return r.waiting
	case !r.node.Registry().Open:
		return "the domain is not open yet: every node named in the bootstrap credential must take part"
	case now < r.pauseEnd:
		return "recovering: leases of the domain before may still run"
	case !r.state.Voter:
		return "this node is a learner: it is catching up"
	case r.state.Role != raft.RoleLeader && r.state.Leader.IsZero():
		return "no leader is known: without a majority of the nodes nothing is granted; " + majorityAdvice
	case r.state.Role == raft.RoleLeader && !r.state.Serving:
		return "this node leads, but does not serve yet"
	}
	return ""
}
