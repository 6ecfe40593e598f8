package raft

// followsSender makes the sender of AppendEntries or InstallSnapshot this node's leader. False: two leaders in one
// term, which election safety excludes.
func (n *Node) followsSender(m *Message) bool {
	if n.role == RoleLeader || n.role == RoleFollower && !n.leader.IsZero() && n.leader != m.From {
		n.impossible(m, "a second leader in one term")
		return false
	}
	if n.role != RoleFollower || n.leader != m.From {
		n.becomeFollower(m.Term, m.From)
	}
	n.heardAt, n.hinted = n.now, false
	n.resetElectionTimer()
	return true
}

func (n *Node) handleFromLeader(m *Message) {
	if m.Kind == MsgInstallSnapshot {
		n.handleInstallSnapshot(m)
		return
	}
	n.handleAppendEntries(m)
}

// handleAppendEntries is the receiver's side of AppendEntries (Raft paper, figure 2). It looks at the term and the log only,
// never at the node's own configuration.
func (n *Node) handleAppendEntries(m *Message) {
	reply := Message{Kind: MsgAppendEntriesReply, To: m.From, Term: n.term, Index: m.Index}
	entries := m.Entries
	switch {
	case n.blank:
		reply.Reject, reply.NeedSnapshot = true, true
		n.send(reply)
		return
	case m.Index < n.commit:
		// What is committed here is the same on the leader, and need not be in this log any more: skip it.
		skip := min(n.commit-m.Index, uint64(len(entries)))
		entries = entries[skip:]
		reply.Index = n.commit
	case !n.log.matches(m.Index, m.LogTerm) && !(n.faults.SkipLogCheck && m.Index <= n.log.last):
		reply.Reject = true
		reply.Hint, reply.LogTerm = n.log.conflictBefore(m.Index, m.LogTerm)
		if n.faults.HideTermInReject {
			reply.Term = 0
		}
		n.send(reply)
		return
	}
	if !n.appendAfter(reply.Index, entries, m) {
		return
	}
	reply.Index += uint64(len(entries))
	commit := min(m.Commit, reply.Index)
	if n.faults.CommitBeyondMatch {
		commit = min(m.Commit, n.log.last)
	}
	n.commitTo(commit)
	n.send(reply)
}

// appendAfter makes the log hold the entries that follow index. It removes what conflicts and nothing else: a late
// message must not shorten the log.
func (n *Node) appendAfter(index uint64, entries []Entry, m *Message) bool {
	for i := range entries {
		e := &entries[i]
		if e.Index != index+uint64(i)+1 {
			n.impossible(m, "entries with a gap")
			return false
		}
		if e.Index <= n.log.last {
			if n.log.matches(e.Index, e.Term) || n.faults.KeepConflicting {
				continue
			}
			if e.Index <= n.commit {
				n.impossible(m, "a conflict with a committed entry")
				return false
			}
			n.truncate(e.Index)
		}
		n.appendEntry(e.Term, e.Kind, e.Data)
	}
	return true
}

// truncate removes the entries from index on, and with them the configurations that they made.
func (n *Node) truncate(index uint64) {
	n.trace(Event{Kind: EventTruncated, Index: index})
	n.log.truncate(index)
	if !n.faults.KeepTruncatedConfig && n.confs.truncate(index) {
		n.configurationChanged()
	}
}

// commitTo raises a follower's commit index.
func (n *Node) commitTo(index uint64) {
	if index > n.commit {
		n.commit = index
		if n.tracesEntries() {
			n.trace(Event{Kind: EventCommitted, Index: index})
		}
	}
}

// ReportConnectionLoss is the hint that a connection from m has ended (not: was replaced by a newer one of the same
// pair). The driver gives it once per connection. A follower of m forgets its stickiness for exactly that leader and
// asks for pre-votes after a delay by rank, so that the survivors of a dead leader do not split their votes. It is a
// hint and proves nothing. A leader does not take m for alive until it is heard again.
func (n *Node) ReportConnectionLoss(m Member) {
	n.mustBeOpen()
	if p := n.peer(m); p != nil {
		p.heard = false
	}
	if n.role != RoleFollower || n.leader != m || m.IsZero() || n.hinted {
		return
	}
	n.hinted = true
	n.trace(Event{Kind: EventHint, Peer: m})
	if rank := n.rank(m); rank > 0 {
		jitter := n.cfg.Rand.Uint64N(n.hintTicks/2 + 1)
		n.electionAt = min(n.electionAt, n.now+rank*n.hintTicks+jitter)
	}
}

// rank is this node's place, from 1, among the voters other than the leader; 0 if it is none.
func (n *Node) rank(leader Member) uint64 {
	conf := n.confs.current().conf
	if !conf.IsVoter(n.self) {
		return 0
	}
	rank := uint64(1)
	conf.each(func(m Member) {
		if m != leader && m.Compare(n.self) < 0 {
			rank++
		}
	})
	return rank
}

// handleTimeoutNow stands for election at once, without pre-votes: the leader of this term has asked for it.
func (n *Node) handleTimeoutNow(m *Message) {
	if m.Target != n.self || !n.promotable() || n.role != RoleFollower && n.role != RolePreCandidate ||
		!n.leader.IsZero() && n.leader != m.From {
		return
	}
	n.trace(Event{Kind: EventTimeoutNow, Peer: m.From})
	n.campaign(m.Term)
}
