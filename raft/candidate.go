package raft

// startPreVote asks whether an election could be won, without disturbing anybody (dissertation, section 9.6).
func (n *Node) startPreVote() {
	n.role, n.leader, n.hinted, n.transferTerm = RolePreCandidate, Member{}, false, 0
	n.resetElectionTimer()
	n.votes = append(n.votes[:0], ballot{voter: n.self, granted: true})
	n.trace(Event{Kind: EventRoleChanged})
	n.requestVotes(Message{Kind: MsgPreVote, Term: n.term + 1})
}

// campaign stands for election in the next term. transferTerm is that of the leader that asked for it, else 0.
func (n *Node) campaign(transferTerm uint64) {
	if !n.faults.CandidateKeepsTerm {
		n.term++
	}
	n.incoming.close()
	n.role, n.leader, n.hinted, n.vote, n.transferTerm = RoleCandidate, Member{}, false, n.self, transferTerm
	n.resetElectionTimer()
	n.votes = append(n.votes[:0], ballot{voter: n.self, granted: true})
	n.trace(Event{Kind: EventRoleChanged})
	m := Message{Kind: MsgRequestVote, Term: n.term}
	if transferTerm != 0 {
		m.TransferTerm, m.Target = transferTerm, n.self
	}
	n.requestVotes(m)
}

// requestVotes sends m to every other voter of either half.
func (n *Node) requestVotes(m Message) {
	m.Index, m.LogTerm = n.log.last, n.log.lastTerm()
	n.confs.current().conf.each(func(to Member) {
		if to != n.self {
			m.To = to
			n.send(m)
		}
	})
}

// handlePreVote answers without changing term, vote or timer.
func (n *Node) handlePreVote(m *Message) {
	if m.Term <= n.term || n.sticky() || !n.votesByLog(m) {
		n.reject(m)
		return
	}
	n.send(Message{Kind: MsgPreVoteReply, To: m.From, Term: m.Term})
}

// handleRequestVote gives at most one vote in a term, by term and log alone. A learner votes like anybody: whoever asks
// may count it by a configuration that has not arrived here yet.
func (n *Node) handleRequestVote(m *Message) {
	free := n.vote.IsZero() && n.leader.IsZero() && n.role == RoleFollower || n.vote == m.From
	if n.faults.VoteTwice {
		free = n.role != RoleLeader
	}
	if !free || !n.votesByLog(m) {
		n.reject(m)
		return
	}
	n.vote = m.From
	n.resetElectionTimer()
	n.trace(Event{Kind: EventVoteGranted, Peer: m.From})
	n.send(Message{Kind: MsgRequestVoteReply, To: m.From, Term: n.term})
}

func (n *Node) votesByLog(m *Message) bool {
	return n.faults.VoteForShorterLog || n.log.upToDate(m.Index, m.LogTerm)
}

// handleVoteReply counts an answer to this pre-candidate's or candidate's question, once for each member.
func (n *Node) handleVoteReply(m *Message) {
	switch {
	case n.role == RolePreCandidate && m.Kind == MsgPreVoteReply && (m.Reject || m.Term == n.term+1):
	case n.role == RoleCandidate && m.Kind == MsgRequestVoteReply && m.Term == n.term:
	default:
		return
	}
	for i := range n.votes {
		if n.votes[i].voter == m.From {
			return
		}
	}
	n.votes = append(n.votes, ballot{voter: m.From, granted: !m.Reject})
	conf := n.confs.current().conf
	switch {
	case n.quorum(conf, n.granted) == 1:
		if n.role == RolePreCandidate {
			n.campaign(0)
			return
		}
		n.becomeLeader()
	case n.quorum(conf, n.notRejected) == 0:
		n.becomeFollower(n.term, Member{})
	}
}

// granted is 1 for a member that has voted for this node.
func (n *Node) granted(m Member) uint64 {
	for i := range n.votes {
		if n.votes[i].voter == m && n.votes[i].granted {
			return 1
		}
	}
	return 0
}

// notRejected is 0 for a member that has refused.
func (n *Node) notRejected(m Member) uint64 {
	for i := range n.votes {
		if n.votes[i].voter == m && !n.votes[i].granted {
			return 0
		}
	}
	return 1
}
