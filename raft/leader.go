package raft

import "slices"

// reign is what a leader knows, from its election to its step-down. All of it is forgotten then.
type reign struct {
	noop        uint64     // index of the entry that began it
	control     uint64     // index of the last Control entry in the log
	peers       []progress // everybody else who is sent the log, sorted by member
	heartbeatAt uint64     // tick of the next round
	transfer    transfer
	outgoing    outgoing // the snapshot being sent
}

func (n *Node) becomeLeader() {
	transferred := n.transferTerm != 0
	n.role, n.leader, n.transferTerm = RoleLeader, n.self, 0
	conf := n.confs.current()
	if n.cfg.Trace != nil {
		n.trace(Event{
			Kind: EventElectionWon, Quorum: counted(conf.conf, n.granted, 1), Configuration: conf.conf,
			Index: n.log.last, LogTerm: n.log.lastTerm(),
		})
	}
	n.votes = n.votes[:0]
	n.reign = reign{heartbeatAt: n.now + n.heartbeatTicks, peers: n.reign.peers[:0]}
	if transferred {
		n.reign.transfer.notBefore = n.now + n.electionTicks
	}
	for i := n.applied + 1; i <= n.log.last; i++ {
		if n.log.entry(i).Kind == EntryControl {
			n.reign.control = i
		}
	}
	n.syncPeers()
	n.reign.noop = n.appendEntry(n.term, EntryNoop, nil)
	n.trace(Event{Kind: EventRoleChanged, Peer: n.self})
}

// endReign forgets everything that belonged to it. Proposals that wait for a transfer will never be appended.
func (n *Node) endReign() {
	n.endTransfer("the reign ended")
	n.endSnapshot("the reign ended", false)
	n.proposals.kill()
	clear(n.reign.peers)
	n.reign = reign{peers: n.reign.peers[:0]}
}

// syncPeers makes the leader's list of members that of the configuration in force and of the registry: voters, the
// learner, and the predecessor until it is retired.
func (n *Node) syncPeers() {
	if n.role != RoleLeader {
		return
	}
	conf := n.confs.current().conf
	wanted := func(m Member) bool { return m != n.self && (conf.IsVoter(m) || n.registry.Member(m) != nil) }
	n.reign.peers = slices.DeleteFunc(n.reign.peers, func(p progress) bool {
		if wanted(p.member) {
			return false
		}
		if n.reign.outgoing.active && n.reign.outgoing.to == p.member {
			n.endSnapshot("no member any more", false)
		}
		return true
	})
	conf.each(n.addPeer)
	for i := range n.registry.Members {
		n.addPeer(n.registry.Members[i].Member)
	}
}

func (n *Node) addPeer(m Member) {
	at, found := slices.BinarySearchFunc(n.reign.peers, m, func(p progress, m Member) int { return p.member.Compare(m) })
	if found || m == n.self {
		return
	}
	p := progress{member: m, ackedAt: n.now, roundGoal: n.commit, roundBegan: n.now}
	if n.confs.current().conf.IsVoter(m) {
		p.becomeProbe(n.log.last + 1)
	} else {
		p.becomeProbe(n.commit + 1)
	}
	n.reign.peers = slices.Insert(n.reign.peers, at, p)
}

// peer returns the leader's view of m, or nil.
func (n *Node) peer(m Member) *progress {
	for i := range n.reign.peers {
		if n.reign.peers[i].member == m {
			return &n.reign.peers[i]
		}
	}
	return nil
}

// matchOf returns the last index that m is known to hold.
func (n *Node) matchOf(m Member) uint64 {
	if m == n.self {
		return n.log.last
	}
	if p := n.peer(m); p != nil {
		return p.match
	}
	return 0
}

// ackedAtOf returns the tick of m's last acknowledgement in this reign.
func (n *Node) ackedAtOf(m Member) uint64 {
	if m == n.self {
		return n.now
	}
	if p := n.peer(m); p != nil {
		return p.ackedAt
	}
	return 0
}

// tickLeader steps down without a quorum, and does what is due.
func (n *Node) tickLeader() {
	conf := n.confs.current().conf
	heard := n.quorum(conf, n.ackedAtOf)
	if n.now-heard >= n.electionTicks && !n.faults.NoCheckQuorum {
		n.trace(Event{Kind: EventQuorumLost})
		n.becomeFollower(n.term, Member{})
		return
	}
	if n.tracesEntries() && n.now == n.reign.heartbeatAt {
		n.trace(Event{Kind: EventQuorumHeard, Quorum: counted(conf, n.ackedAtOf, heard), Configuration: conf})
	}
	if n.now >= n.reign.heartbeatAt {
		n.reign.heartbeatAt = n.now + n.heartbeatTicks
		for i := range n.reign.peers {
			p := &n.reign.peers[i]
			p.heartbeatDue = true
			p.unanswered = p.unanswered || p.probed
			p.probed = false
		}
	}
	n.tickTransfer()
	n.tickSnapshot()
	n.duties()
}

// handleAcknowledgement takes a reply of the present term, and so of this reign.
func (n *Node) handleAcknowledgement(p *progress, m *Message) {
	p.heard, p.ackedAt = true, n.now
	switch {
	case m.Kind == MsgInstallSnapshotReply:
		n.handleSnapshotReply(p, m)
	case m.Reject:
		n.handleAppendRejected(p, m)
	case m.Index > n.log.last:
		n.impossible(m, "an acknowledgement of an entry that does not exist")
	default:
		n.handleAppended(p, m)
	}
}

func (n *Node) handleAppended(p *progress, m *Message) {
	advanced := m.Index > p.match
	p.match = max(p.match, m.Index)
	p.next = max(p.next, p.match+1)
	switch p.state {
	case stateProbe:
		if p.match >= n.log.base {
			p.becomeReplicate()
		} else {
			n.needSnapshot(p)
		}
	case stateReplicate:
		p.window.acknowledge(p.match)
	case stateSnapshot:
		if p.match >= n.log.base && advanced {
			n.leaveSnapshot(p, "caught up another way")
		}
	}
	n.countRound(p)
	if advanced {
		n.maybeCommit()
		n.maybeTimeoutNow(p)
	}
}

// handleAppendRejected goes back to where the logs may agree, in one step for each term in between (paper, end of
// section 5.3), and never below what is known to match.
func (n *Node) handleAppendRejected(p *progress, m *Message) {
	if m.NeedSnapshot {
		n.needSnapshot(p)
		return
	}
	stale := p.state == stateSnapshot || m.Index <= p.match || p.state == stateProbe && m.Index != p.next-1
	if stale {
		return
	}
	at, _ := n.log.conflictBefore(m.Hint, m.LogTerm)
	p.becomeProbe(min(m.Index, at+1))
	if p.next <= n.log.base {
		n.needSnapshot(p)
	}
}

// countRound follows how fast a member catches up.
func (n *Node) countRound(p *progress) {
	if p.match < p.roundGoal || p.state == stateSnapshot {
		return
	}
	if n.now-p.roundBegan < n.electionTicks {
		p.caughtUpAt = n.now
		if p.snapshots.count > 0 && n.log.bytesAfter(p.match) <= n.cfg.LogBytes/2 {
			p.snapshots = snapshotAttempts{} // the log's own bound is enough for it from now on
		}
	}
	p.roundGoal, p.roundBegan = n.commit, n.now
}

// maybeCommit commits what a quorum holds, if it is of this term: an entry of an earlier one is committed by one of
// this term after it, never by counting (paper, section 5.4.2).
func (n *Node) maybeCommit() {
	conf := n.confs.current().conf
	index := min(n.quorum(conf, n.matchOf), n.log.last)
	if index <= n.commit {
		return
	}
	if term, _ := n.log.term(index); term != n.term && !n.faults.CommitOldTermByCount {
		return
	}
	n.commit = index
	if n.tracesEntries() {
		n.trace(Event{Kind: EventCommitted, Index: index, Quorum: counted(conf, n.matchOf, index), Configuration: conf})
	}
}

// sendLimit is the last index that p may be sent. A member that is no voter in its own configuration gets committed entries
// only: otherwise it could hold an uncommitted entry and refuse every leader that does not, while its own log says that it
// is no voter. A newcomer becomes a voter with the joint entry, so the first message that goes past commit must include that.
func (n *Node) sendLimit(p *progress) uint64 {
	conf := n.confs.current()
	switch {
	case n.faults.UncommittedToLearner:
		return n.log.last
	case !conf.conf.IsVoter(p.member):
		return n.commit
	case n.awaitsJoint(p) && n.log.position(conf.index)-n.log.position(p.next-1) > maxMessageBytes:
		return n.commit
	}
	return n.log.last
}

// awaitsJoint reports whether p is the newcomer of the joint configuration in force and is not known to hold its entry,
// which is among those to be sent next.
func (n *Node) awaitsJoint(p *progress) bool {
	conf := n.confs.current()
	return conf.conf.Joint() && !slices.Contains(conf.conf.Voters, p.member) && p.match < conf.index && p.next <= conf.index
}

// maySend reports whether p is to be sent anything now.
func (n *Node) maySend(p *progress) bool {
	if p.heartbeatDue {
		return true
	}
	switch p.state {
	case stateProbe:
		return !p.probed
	case stateReplicate:
		return p.next <= n.sendLimit(p) && !p.window.full(n.cfg.WindowMessages, n.cfg.WindowBytes)
	}
	return false
}

// replicate sends p what is due.
func (n *Node) replicate(p *progress) {
	switch p.state {
	case stateProbe:
		if !p.probed {
			p.probed = true
			n.sendAppend(p, !p.unanswered)
		}
	case stateReplicate:
		for p.state == stateReplicate && p.next <= n.sendLimit(p) && !p.window.full(n.cfg.WindowMessages, n.cfg.WindowBytes) {
			n.sendAppend(p, true)
		}
	case stateSnapshot:
		if p.heartbeatDue {
			// Position 0 is everybody's: a heartbeat that needs no log.
			n.send(Message{Kind: MsgAppendEntries, To: p.member, Term: n.term})
		}
	}
	if p.heartbeatDue && p.state == stateReplicate {
		n.sendAppend(p, false)
	}
	p.heartbeatDue = false
}

// sendAppend sends the entries from p.next on, as many as one message takes, or with entries false a heartbeat.
func (n *Node) sendAppend(p *progress, entries bool) {
	term, ok := n.log.term(p.next - 1)
	if !ok {
		n.needSnapshot(p)
		return
	}
	m := Message{
		Kind: MsgAppendEntries, To: p.member, Term: n.term,
		Index: p.next - 1, LogTerm: term, Commit: n.commit,
	}
	p.heartbeatDue = false
	if limit := n.sendLimit(p); entries && p.next <= limit {
		maxBytes := n.cfg.MaxMessageBytes
		if n.awaitsJoint(p) {
			maxBytes = maxMessageBytes
		}
		m.Entries = n.entriesToSend(p.next, limit, maxBytes)
		if p.state == stateReplicate {
			last := p.next - 1 + uint64(len(m.Entries))
			p.window.add(last, int(n.log.position(last)-n.log.position(p.next-1)))
			p.next = last + 1
		}
	}
	n.send(m)
}

// entriesToSend returns those of the entries from..limit that one message takes. Members that need the same ones share them.
func (n *Node) entriesToSend(from, limit uint64, maxBytes int) []Entry {
	if b := &n.batch; b.from != from || b.limit != limit || b.maxBytes != maxBytes {
		at := len(n.sendBuf)
		n.sendBuf = n.log.entries(n.sendBuf, from, limit, maxBytes)
		*b = batch{from: from, limit: limit, maxBytes: maxBytes, entries: n.sendBuf[at:len(n.sendBuf):len(n.sendBuf)]}
	}
	return n.batch.entries
}
