package raft

// MaxVoters bounds a half of a configuration.
const MaxVoters = 5

// reached returns the largest value that a majority of the voters has reached. values holds one value for each voter, and is
// sorted in place.
func reached(values []uint64, voters int) uint64 {
	if voters == 0 {
		return 0
	}
	for i := 1; i < len(values); i++ {
		for j := i; j > 0 && values[j-1] < values[j]; j-- {
			values[j-1], values[j] = values[j], values[j-1]
		}
	}
	return values[voters/2]
}

// quorum returns the largest value that a majority of each half of c has. It is the one function that computes
// quorums: of match indexes for commit, of the ticks of acknowledgements for CheckQuorum, of votes as 0 and 1.
func (n *Node) quorum(c Configuration, value func(Member) uint64) uint64 {
	if !c.Joint() {
		return n.quorumIn(c.Voters, value)
	}
	switch {
	case n.faults.OldMajorityOnly:
		return n.quorumIn(c.Voters, value)
	case n.faults.NewMajorityOnly:
		return n.quorumIn(c.Next, value)
	}
	return min(n.quorumIn(c.Voters, value), n.quorumIn(c.Next, value))
}

func (n *Node) quorumIn(half []Member, value func(Member) uint64) uint64 {
	var buf [2*MaxVoters + 2]uint64
	values := buf[:0]
	for _, m := range half {
		values = append(values, value(m))
	}
	if n.faults.CountLearner && n.registry.Replacement != nil && !n.registry.Replacement.Newcomer.IsZero() {
		values = append(values, value(n.registry.Replacement.Newcomer))
	}
	return reached(values, len(half))
}

// counted lists the members of c whose value is at least the one reached, for the trace.
func counted(c Configuration, value func(Member) uint64, at uint64) []Member {
	var members []Member
	c.each(func(m Member) {
		if value(m) >= at {
			members = append(members, m)
		}
	})
	return members
}
