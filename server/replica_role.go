package server

import (
	"time"

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
	r.noteLeader(now.Mono)
	r.engine.setLeadership(r.leadership())
	if begins {
		r.undecided = undecided{giveUp: never}
		r.engine.manager.Lead(now)
	}
	r.refuse(now)
	r.engine.noteReadiness(now.Mono)
	r.changed()
}

// noteLeader notes at now (mono ns) since when no leader is known.
func (r *replica) noteLeader(now int64) {
	switch {
	case r.state.Role == raft.RoleLeader || !r.state.Leader.IsZero():
		r.leaderlessAt = 0
	case r.leaderlessAt == 0:
		r.leaderlessAt = now
	}
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

// The reasons of a replica that pass within an election, and the one that may stay.
const (
	electingText   = "no leader is known yet: an election is under way"
	assumingText   = "this node leads, but does not serve yet"
	leaderlessText = "no leader is known: without a majority of the nodes nothing is granted; " + majorityAdvice
)

// leastElectionPatience bounds from below how long no leader may be known until that is more than an election, in ns.
const leastElectionPatience = int64(2 * time.Second)

// unready implements authority.
func (r *replica) unready(now int64) string {
	leads := r.state.Role == raft.RoleLeader
	switch {
	case r.node == nil:
		return r.waiting
	case !r.node.Registry().Open:
		return "the domain is not open yet: every node named in the bootstrap credential must take part"
	case !r.state.Voter:
		return "this node is a learner: it is catching up"
	case !leads && r.state.Leader.IsZero():
		// Before the pause: that ends by itself, but the loss of a majority does not.
		if r.leaderlessAt != 0 && now-r.leaderlessAt >= r.electionPatience {
			return leaderlessText
		}
		return electingText
	case now < r.pauseEnd:
		return "recovering: leases of the domain before may still run"
	case leads && !r.state.Serving:
		return assumingText
	}
	return ""
}
