package raft

// Step takes one message from the connection of m.From. It keeps nothing of m's memory. Terms are compared here and nowhere
// else: the handlers see only messages of the node's own term, and PreVotes.
func (n *Node) Step(m *Message) {
	n.mustBeOpen()
	if m.To != n.self || m.From == n.self || m.From.IsZero() {
		n.impossible(m, "not between these two members")
		return
	}
	if n.registry.refuses(m.From) != RefuseNone && !n.faults.AcceptRetired {
		return // its connection is about to be closed
	}
	switch {
	case m.Term > n.term:
		if !n.adopts(m) {
			return
		}
	case m.Term < n.term:
		if !n.answersLower(m) {
			return
		}
	}
	switch m.Kind {
	case MsgPreVote:
		n.handlePreVote(m)
	case MsgRequestVote:
		n.handleRequestVote(m)
	case MsgPreVoteReply, MsgRequestVoteReply:
		n.handleVoteReply(m)
	case MsgAppendEntries, MsgInstallSnapshot:
		if n.followsSender(m) {
			n.handleFromLeader(m)
		}
	case MsgAppendEntriesReply, MsgInstallSnapshotReply:
		if p := n.peer(m.From); n.role == RoleLeader && p != nil {
			n.handleAcknowledgement(p, m)
		}
	case MsgTimeoutNow:
		n.handleTimeoutNow(m)
	}
}

// adopts takes over a higher term where the message calls for it, and reports whether the message is to be handled.
func (n *Node) adopts(m *Message) bool {
	switch {
	case m.Kind == MsgPreVote || m.Kind == MsgPreVoteReply && !m.Reject:
		return true // names a term in which nobody stands yet
	case m.Kind == MsgRequestVote && n.sticky() && !carriesTransfer(m):
		n.reject(m)
		return false
	case m.Kind == MsgAppendEntries || m.Kind == MsgInstallSnapshot || m.Kind == MsgTimeoutNow:
		n.becomeFollower(m.Term, m.From)
	default:
		n.becomeFollower(m.Term, Member{})
	}
	return true
}

// answersLower tells a sender of an earlier term about this one. It reports whether the message is to be handled all
// the same.
func (n *Node) answersLower(m *Message) bool {
	switch m.Kind {
	case MsgPreVote, MsgRequestVote, MsgAppendEntries, MsgInstallSnapshot:
		n.reject(m)
	case MsgAppendEntriesReply:
		return n.faults.CountOldTermAcks
	}
	return false
}

// reject refuses a request with the node's own term.
func (n *Node) reject(m *Message) {
	r := Message{To: m.From, Term: n.term, Reject: true, Index: m.Index, LogTerm: m.LogTerm, Attempt: m.Attempt}
	switch m.Kind {
	case MsgPreVote:
		r.Kind, r.Index, r.LogTerm = MsgPreVoteReply, 0, 0
	case MsgRequestVote:
		r.Kind, r.Index, r.LogTerm = MsgRequestVoteReply, 0, 0
	case MsgAppendEntries:
		r.Kind, r.LogTerm = MsgAppendEntriesReply, 0
	case MsgInstallSnapshot:
		r.Kind = MsgInstallSnapshotReply
	}
	if n.faults.HideTermInReject && m.Kind != MsgInstallSnapshot {
		r.Term = 0
	}
	n.send(r)
}

// send queues a message for the next Ready.
func (n *Node) send(m Message) {
	m.From = n.self
	n.msgs = append(n.msgs, m)
}

// sticky reports whether this node hears a leader and therefore refuses to help replace it. Votes for a transfer pass, and
// the hint of a lost connection ends it. Safety does not rely on it.
func (n *Node) sticky() bool {
	if n.faults.IgnoreStickiness {
		return false
	}
	return n.role == RoleLeader || !n.leader.IsZero() && !n.hinted && n.now-n.heardAt < n.electionTicks
}

// carriesTransfer reports whether the vote is asked for on behalf of the leader of the term before.
func carriesTransfer(m *Message) bool {
	return m.TransferTerm != 0 && m.TransferTerm+1 == m.Term && m.Target == m.From
}

// becomeFollower follows leader (zero: unknown) in a term that is not below the present one.
func (n *Node) becomeFollower(term uint64, leader Member) {
	if term > n.term {
		n.term, n.vote = term, Member{}
		n.incoming.close()
	}
	was := n.role
	n.role, n.leader, n.hinted = RoleFollower, leader, false
	if was == RoleLeader {
		n.endReign()
	}
	if was != RoleFollower {
		n.resetElectionTimer()
	}
	n.votes, n.transferTerm = n.votes[:0], 0
	n.trace(Event{Kind: EventRoleChanged, Peer: leader})
}

// resetElectionTimer draws the next election timeout, between the minimum and twice it, anew each time.
func (n *Node) resetElectionTimer() {
	n.electionAt = n.now + n.electionTicks + n.cfg.Rand.Uint64N(n.electionTicks)
}
