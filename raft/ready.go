package raft

// Role is what a node does in its term.
type Role uint8

// The roles. A learner is a RoleFollower that is no voter in its own configuration (State.Voter is false).
const (
	RoleFollower     Role = 0
	RolePreCandidate Role = 1
	RoleCandidate    Role = 2
	RoleLeader       Role = 3
)

// String returns the role's name.
func (r Role) String() string {
	switch r {
	case RolePreCandidate:
		return "pre-candidate"
	case RoleCandidate:
		return "candidate"
	case RoleLeader:
		return "leader"
	}
	return "follower"
}

// State is what the driver needs to know of the node between two inputs.
type State struct {
	Role   Role
	Term   uint64
	Leader Member // zero while unknown
	Voter  bool   // a voter in its own configuration in force
	// Serving is true on a leader whose Noop is applied in an open domain: only then may clients be served.
	Serving bool
	// Transferring is true while a leader is handing over: proposals are accepted and wait.
	Transferring bool
	// HoldBack asks the leader to answer acquires with B overloaded, so that a snapshot can catch up.
	HoldBack bool
}

// Ready is everything that leaves the core: the one drain. All of it is valid until Advance, and the driver works it
// off in the order of the fields.
type Ready struct {
	// State is the present state; Changed says that it differs from the last Ready's. A leader whose Term differs
	// from the last Ready's has begun another reign in between.
	State   State
	Changed bool
	// Messages are to be sent, in this order for each receiver. Losing one is safe. Entries and chunks alias the
	// core's memory.
	Messages []Message
	// Installed is set when a snapshot has replaced the application's state since the last Ready.
	Installed *Installed
	// Committed are the entries to apply now.
	Committed []Committed
	// Lost is how many more of the oldest undecided proposals are now known never to take effect; it is settled
	// after Committed.
	Lost int
}

// HasReady reports whether Ready has anything to say.
func (n *Node) HasReady() bool {
	if len(n.msgs) > 0 || n.installed != nil || n.applied < n.commit || n.proposals.deadHead() || n.reign.outgoing.unsent {
		return true
	}
	for i := range n.reign.peers {
		if n.maySend(&n.reign.peers[i]) {
			return true
		}
	}
	return n.state() != n.lastState
}

// Ready returns all output since the last. No input but Propose is allowed until Advance.
func (n *Node) Ready() *Ready {
	n.mustBeOpen()
	n.draining = true
	rd := &n.ready
	*rd = Ready{Installed: n.installed}
	n.handOut(rd)
	for i := range n.reign.peers {
		n.replicate(&n.reign.peers[i])
	}
	n.sendChunk()
	rd.Messages = n.msgs
	rd.State = n.state()
	rd.Changed = rd.State != n.lastState
	n.lastState = rd.State
	return rd
}

// handOut applies the Control entries among those that are committed and hands out all of them.
func (n *Node) handOut(rd *Ready) {
	n.applyBuf = n.log.entries(n.applyBuf[:0], n.applied+1, n.commit, n.cfg.MaxApplyBytes)
	n.committed = n.committed[:0]
	for i := range n.applyBuf {
		n.committed = append(n.committed, Committed{Entry: n.applyBuf[i]})
		c := &n.committed[i]
		c.Lost, c.Own = n.proposals.settle(c.Index, c.Term)
		n.applied = c.Index
		if c.Kind == EntryControl {
			n.applyControl(c)
		}
		if n.tracesEntries() {
			n.trace(Event{Kind: EventApplied, Index: c.Index, LogTerm: c.Term, Entry: &c.Entry, Control: c.Control, Outcome: &c.Outcome})
		}
		if c.Lost > 0 {
			n.trace(Event{Kind: EventProposalsLost, Count: uint64(c.Lost)})
		}
	}
	if k := len(n.committed); n.faults.ApplyOutOfOrder && k > 1 && n.committed[k-1].Kind == n.committed[k-2].Kind {
		n.committed[k-1], n.committed[k-2] = n.committed[k-2], n.committed[k-1]
	}
	rd.Committed = n.committed
	if n.applied == n.commit {
		rd.Lost = n.proposals.settleDead()
	}
}

// applyControl applies a Control entry to the registry. An entry that does not decode is rejected like any other that
// does not fit: apply is total.
func (n *Node) applyControl(c *Committed) {
	control, err := DecodeControl(c.Data)
	if err != nil {
		c.Outcome = Outcome{Result: ResultControlRejected, Reason: ReasonMalformed}
		return
	}
	c.Control = control
	c.Outcome = n.registry.apply(c.Index, control, &n.faults)
	n.syncPeers()
}

// Advance says that the last Ready is worked off: its messages are encoded, its entries applied.
func (n *Node) Advance() {
	if !n.draining {
		panic("raft: Advance without Ready")
	}
	n.draining = false
	n.installed = nil
	clear(n.msgs)
	n.msgs = n.msgs[:0]
	n.sendBuf, n.batch = n.sendBuf[:0], batch{}
	if n.role == RoleLeader {
		n.releaseHeld()
		n.duties()
	}
	n.compact()
}
