package rafttest

import (
	"slices"

	"ticketing.internal/raft"
)

// elected checks a victory: one leader a term, elected by voters who voted for it, with everything committed in its log.
func (c *checker) elected(r *record, e *raft.Event) {
	c.s.cover[CoverElection]++
	if r.invited > 0 && r.invited+1 == e.Term {
		c.s.cover[CoverTransferDone]++
	}
	if c.inJoint() {
		c.s.cover[CoverElectionInJoint]++
	}
	l := c.leaderOf(e.Term)
	if !l.elected.IsZero() && l.elected != r.member || !l.sends.IsZero() && l.sends != r.member {
		c.s.fail("election safety", "%v and %v both won term %d", l.elected, r.member, e.Term)
	}
	l.elected = r.member
	r.firstOf, r.ledTick, r.acks = 0, r.p.ticks, map[raft.Member]int{}
	c.checkQuorum(r, e, "election")
	for _, m := range e.Quorum {
		if other := c.records[m]; m != r.member && (other == nil || other.votedTerm < e.Term || other.votedTerm == e.Term && other.votedFor != r.member) {
			c.s.fail("votes", "%v won term %d with a vote of %v, which gave none", r.p, e.Term, m)
		}
	}
	c.checkComplete(r, e)
	c.s.triggered(whenElected, r.p)
}

// checkComplete checks leader completeness: what was committed in an earlier term is in the log of the elected.
func (c *checker) checkComplete(r *record, e *raft.Event) {
	index := uint64(len(c.committed)) - 1
	for index > 0 && c.committed[index].by >= e.Term {
		index--
	}
	if !r.holds(index, c.committed[index].hash) {
		c.s.fail("leader completeness", "%v won term %d and lacks entry %d, committed in term %d", r.p, e.Term, index, c.committed[index].by)
	}
}

// roleChanged checks who stands for election: voters alone.
func (c *checker) roleChanged(r *record, e *raft.Event) {
	r.leader, r.hinted = e.Peer, false
	if (e.Role == raft.RolePreCandidate || e.Role == raft.RoleCandidate) && !r.config().IsVoter(r.member) {
		c.s.fail("only voters stand", "%v stands for election, its configuration is %v", r.p, r.config())
	}
}

// voted checks a vote: one a term.
func (c *checker) voted(r *record, e *raft.Event) {
	if r.votedTerm == e.Term && r.votedFor != e.Peer {
		c.s.fail("one vote a term", "%v votes for %v in term %d, and voted for %v", r.p, e.Peer, e.Term, r.votedFor)
	}
	if e.Term < r.votedTerm {
		c.s.fail("one vote a term", "%v votes in term %d after %d", r.p, e.Term, r.votedTerm)
	}
	if again := r.votedTerm == e.Term; r.stuck && !r.transfer && !again {
		c.s.fail("stickiness", "%v votes for %v and hears its leader", r.p, e.Peer)
	}
	r.votedTerm, r.votedFor = e.Term, e.Peer
	c.s.triggered(whenVoted, r.p)
}

// checkQuorum checks that those counted are majorities of the configuration in force in the node's log, and nobody else:
// no learner, nobody unknown, nobody retired, nobody twice.
func (c *checker) checkQuorum(r *record, e *raft.Event, what string) {
	config := r.config()
	if !config.Equal(e.Configuration) {
		c.s.fail("configuration in force", "%v counts for its %s in %v; its log says %v", r.p, what, e.Configuration, config)
	}
	for i, m := range e.Quorum {
		switch {
		case slices.Contains(e.Quorum[:i], m):
			c.s.fail("quorum", "%v counts %v twice for its %s", r.p, m, what)
		case !config.IsVoter(m):
			c.s.fail("quorum", "%v counts %v for its %s, which is no voter in %v", r.p, m, what, config)
		case c.model.retiredAt(m) > 0 && c.model.retiredAt(m) <= r.applied:
			c.s.fail("quorum", "%v counts %v for its %s, which was retired at %d", r.p, m, what, c.model.retiredAt(m))
		case !c.model.wasAdmitted(m):
			c.s.fail("quorum", "%v counts %v for its %s, which was never admitted", r.p, m, what)
		}
	}
	counted := func(m raft.Member) bool { return slices.Contains(e.Quorum, m) }
	if !majority(config.Voters, counted) || config.Joint() && !majority(config.Next, counted) {
		c.s.fail("quorum", "%v takes %v for its %s, no majority of %v", r.p, e.Quorum, what, config)
	}
}

// config is the configuration in force in a log.
func (r *record) config() raft.Configuration {
	if len(r.configs) == 0 {
		return raft.Configuration{}
	}
	return r.configs[len(r.configs)-1].config
}
