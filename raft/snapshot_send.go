package raft

import "time"

// Pace of attempts to bring a member up to date by a snapshot.
const (
	minSnapshotRetry = time.Second
	maxSnapshotRetry = 30 * time.Second
	holdBackFrom     = 3 // the attempt from which acquires are held back
	holdBackTime     = 5 * time.Second
	// maxChunkBytes lets a chunk arrive and be acknowledged in an election timeout over a link of 2 Mbit/s.
	maxChunkBytes = 64 << 10
)

// snapshotAttempts counts the attempts since the member was last caught up.
type snapshotAttempts struct {
	count   int
	began   uint64 // tick of the last
	retryAt uint64 // tick before which no other begins
	// retain keeps the entries that follow the snapshot beyond the bound of the log, until the member is caught up.
	retain bool
}

// outgoing is the one snapshot that a leader is sending: a chunk at a time, the next when it is acknowledged.
type outgoing struct {
	active  bool
	to      Member
	attempt uint32
	index   uint64
	term    uint64
	capture Capture
	raft    []byte // encoded SnapshotState
	chunk   []byte
	loaded  bool // chunk holds the next bytes
	last    bool // they are the last
	unsent  bool
	offset  uint64 // of chunk
	sentAt  uint64 // tick
	ackedAt uint64 // tick of the last chunk acknowledged
}

// needSnapshot notes that the log does not hold what p needs next.
func (n *Node) needSnapshot(p *progress) {
	if p.state != stateSnapshot {
		p.state, p.probed, p.unanswered = stateSnapshot, false, false
		p.window.clear()
	}
}

// leaveSnapshot goes back to sending entries.
func (n *Node) leaveSnapshot(p *progress, why string) {
	if n.reign.outgoing.active && n.reign.outgoing.to == p.member {
		n.endSnapshot(why, false)
	}
	p.becomeReplicate()
}

// tickSnapshot begins, continues or gives up the sending of a snapshot. A capture begins here because, between inputs, everything
// that was handed out is applied.
func (n *Node) tickSnapshot() {
	o := &n.reign.outgoing
	if o.active {
		switch {
		case n.now-o.ackedAt >= n.electionTicks:
			n.endSnapshot("no chunk acknowledged", true)
		case !o.loaded:
			n.loadChunk()
		case !o.unsent && n.now-o.sentAt >= n.electionTicks/3:
			o.unsent = true
		}
	}
	for i := range n.reign.peers {
		// A member that fell silent on its way from the snapshot to the end of the log is not waited for.
		p := &n.reign.peers[i]
		if p.snapshots.retain && n.now-p.ackedAt >= n.electionTicks && !(o.active && o.to == p.member) {
			n.snapshotFailed(p)
		}
	}
	if !o.active {
		if p := n.nextReceiver(); p != nil {
			n.beginSnapshot(p)
		}
	}
}

// nextReceiver returns a member that needs a snapshot, is alive and is due: a voter before the learner.
func (n *Node) nextReceiver() *progress {
	var next *progress
	for i := range n.reign.peers {
		p := &n.reign.peers[i]
		due := p.state == stateSnapshot && p.heard && n.now-p.ackedAt < n.electionTicks && n.now >= p.snapshots.retryAt
		if due && (next == nil || n.confs.current().conf.IsVoter(p.member) && !n.confs.current().conf.IsVoter(next.member)) {
			next = p
		}
	}
	return next
}

func (n *Node) beginSnapshot(p *progress) {
	term, ok := n.log.term(n.applied)
	if !ok || n.applied == 0 {
		return
	}
	conf := n.confs.at(n.applied)
	state := SnapshotState{
		Index: n.applied, Term: term, Configuration: conf.conf, ConfigIndex: conf.index, Registry: n.registry,
	}
	n.attempts++
	p.snapshots.count++
	p.snapshots.began, p.snapshots.retain = n.now, true
	n.reign.outgoing = outgoing{
		active: true, to: p.member, attempt: n.attempts, index: state.Index, term: term,
		capture: n.cfg.StateMachine.Capture(), raft: AppendSnapshotState(nil, &state),
		chunk: n.reign.outgoing.chunk, ackedAt: n.now,
	}
	n.trace(Event{Kind: EventSnapshotStarted, Peer: p.member, Index: state.Index, Count: uint64(n.attempts)})
	n.loadChunk()
}

// loadChunk reads the next bytes, if the application has them.
func (n *Node) loadChunk() {
	o := &n.reign.outgoing
	o.chunk, o.last = o.capture.AppendChunk(o.chunk[:0], min(maxChunkBytes, n.cfg.MaxMessageBytes))
	o.loaded = len(o.chunk) > 0 || o.last
	o.unsent = o.loaded
	if !o.loaded {
		o.ackedAt = n.now // the application is slow, not the receiver
	}
}

// sendChunk puts the chunk that is due into the present Ready.
func (n *Node) sendChunk() {
	o := &n.reign.outgoing
	if !o.unsent {
		return
	}
	o.unsent, o.sentAt = false, n.now
	m := Message{
		Kind: MsgInstallSnapshot, To: o.to, Term: n.term, Index: o.index, LogTerm: o.term,
		Attempt: o.attempt, Offset: o.offset, Last: o.last, Data: o.chunk,
	}
	if o.offset == 0 {
		m.Raft = o.raft
	}
	n.send(m)
}

func (n *Node) handleSnapshotReply(p *progress, m *Message) {
	o := &n.reign.outgoing
	if !o.active || o.to != p.member || o.attempt != m.Attempt || o.index != m.Index {
		return
	}
	switch {
	case m.Reject:
		n.endSnapshot("refused by the receiver", true)
	case m.Last:
		p.match = max(p.match, o.index)
		n.leaveSnapshot(p, "installed")
		p.roundGoal, p.roundBegan = n.commit, n.now // it has yet to catch up with what was committed meanwhile
		n.maybeCommit()
	case o.loaded && !o.last && m.Offset == o.offset+uint64(len(o.chunk)):
		o.offset, o.ackedAt = m.Offset, n.now
		n.loadChunk()
	}
}

// endSnapshot ends the attempt that is under way, if any.
func (n *Node) endSnapshot(why string, failed bool) {
	o := &n.reign.outgoing
	if !o.active {
		return
	}
	o.capture.Close()
	n.trace(Event{Kind: EventSnapshotEnded, Peer: o.to, Index: o.index, Detail: why, Count: o.offset})
	if p := n.peer(o.to); p != nil && failed {
		n.snapshotFailed(p)
	}
	n.reign.outgoing = outgoing{chunk: o.chunk[:0]}
}

// snapshotFailed waits before the next attempt: 1 s, doubling to 30 s.
func (n *Node) snapshotFailed(p *progress) {
	p.snapshots.retain = false
	wait := min(minSnapshotRetry<<min(max(p.snapshots.count-1, 0), 5), maxSnapshotRetry)
	p.snapshots.retryAt = n.now + uint64(wait/n.cfg.Tick)
}

// holdBack reports whether acquires are to be answered B overloaded so that a snapshot can catch up.
func (n *Node) holdBack() bool {
	for i := range n.reign.peers {
		s := &n.reign.peers[i].snapshots
		if s.retain && s.count >= holdBackFrom && n.now-s.began < uint64(holdBackTime/n.cfg.Tick) {
			return true
		}
	}
	return false
}

// compact drops from the front of the log what every member has and, if the log is larger than its bound, what is applied. What
// follows a snapshot that is on its way is kept, up to a bound of its own.
func (n *Node) compact() {
	before := n.log.base
	if n.role == RoleLeader {
		everybody := n.applied
		for i := range n.reign.peers {
			everybody = min(everybody, n.reign.peers[i].match)
		}
		for n.log.dropFront(everybody) {
			continue
		}
	}
	for n.log.bytes > n.cfg.LogBytes {
		p, retained := n.retained()
		if n.log.dropFront(min(n.applied, retained)) {
			continue
		}
		if p == nil || retained >= n.applied || n.log.bytes <= n.cfg.RetainBytes {
			break
		}
		n.endRetention(p)
	}
	n.confs.compact(n.applied)
	if n.log.base != before {
		n.trace(Event{Kind: EventCompacted, Index: n.log.base})
	}
}

// retained returns the member for which the most is kept, and the index after which it is.
func (n *Node) retained() (*progress, uint64) {
	var receiver *progress
	after := n.applied
	for i := range n.reign.peers {
		p := &n.reign.peers[i]
		if !p.snapshots.retain {
			continue
		}
		from := p.match
		if o := &n.reign.outgoing; o.active && o.to == p.member {
			from = max(from, o.index)
		}
		if receiver == nil || from < after {
			receiver, after = p, min(after, from)
		}
	}
	return receiver, after
}

func (n *Node) endRetention(p *progress) {
	if n.reign.outgoing.active && n.reign.outgoing.to == p.member {
		n.endSnapshot("the log grew past its bound", true)
		return
	}
	n.snapshotFailed(p)
}
