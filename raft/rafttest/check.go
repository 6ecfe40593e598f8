package rafttest

import (
	"ticketing.internal/raft"
)

// checker watches every node of one domain from outside and fails the run at the first broken invariant. It believes the
// trace for what a node does, and only its own records for what a node may do.
type checker struct {
	s       *sim
	domain  raft.Domain
	records map[raft.Member]*record
	hash    uint64 // of all events

	leaders   []leaderOfTerm // by term
	entries   [][]variant    // by index: what any log ever held there
	committed []commit       // by index; 0 is the empty log
	configs   []configAt     // of committed configuration entries, oldest first
	results   []appliedEntry // by index: what applying it did, first of all
	initial   *raft.InitialConfig
	accepted  map[raft.Member][32]byte
	model     *model
	openIndex uint64 // of ServiceOpen; 0: not applied anywhere
	fastest   int    // ppm: the fastest clock that a process was given
	tokens    uint64 // the largest token of the domains before
}

// record is what the checker knows of one member's node.
type record struct {
	member raft.Member
	p      *process
	term   uint64
	role   raft.Role

	votedTerm uint64
	votedFor  raft.Member

	base    uint64     // the log begins after this index
	log     []logEntry // entries base+1 ..
	refill  bool       // a snapshot was installed: what it replaces may be appended again
	commit  uint64
	applied uint64
	configs []configAt // in the log, oldest first; the first is the snapshot's or the bootstrap's
	firstOf uint64     // the first entry of its own in the present reign
	noop    uint64     // the term of the last Noop applied here
	invited uint64     // the term in which TimeoutNow asked it to stand

	leader    raft.Member         // that it follows
	heardTick int                 // of its leader
	hinted    bool                // its leader's connection has ended
	stuck     bool                // when it got the present message it heard a leader
	transfer  bool                // the present message carries a transfer
	ledTick   int                 // of its last victory
	acks      map[raft.Member]int // ticks of the last acknowledgements of its present reign
	commits   [128]uint64         // its commit index, at each of the last ticks
	events    int                 // appended so far
}

// logEntry is an entry in a log: hash covers it and all before it.
type logEntry struct {
	term, hash uint64
}

// variant is one entry that some log held at an index. Log matching: its term tells all that is in it and before it.
type variant struct {
	term, hash, data uint64
	kind             raft.EntryKind
	control          raft.ControlKind    // of an EntryControl
	config           *raft.Configuration // of a joint or final one
}

// commit is the entry that is committed at an index.
type commit struct {
	hash, term uint64
	by         uint64 // the term of the leader that first committed it
}

type configAt struct {
	index  uint64
	config raft.Configuration
}

type leaderOfTerm struct {
	elected, sends raft.Member
}

func newChecker(s *sim) *checker { return &checker{s: s, model: &model{}} }

// begin forgets the domain before: nothing of it lives any more, except that its tokens stay below.
func (c *checker) begin(id raft.Domain) {
	c.s.cover[CoverDomain]++
	*c = checker{
		s: c.s, domain: id, hash: c.hash, tokens: max(c.tokens, c.model.token),
		records: map[raft.Member]*record{}, accepted: map[raft.Member][32]byte{}, model: newModel(c.s),
		committed: make([]commit, 1), entries: make([][]variant, 1), results: make([]appliedEntry, 1),
	}
}

// started registers a node that has just been made.
func (c *checker) started(p *process) {
	if r := c.records[p.member]; r != nil && !c.s.faults.OldIdentity {
		c.s.fail("one life", "%v was a member's identity before", p.member)
	} else if r != nil {
		r.p = p // the checks that follow find what it has forgotten
		return
	}
	r := &record{member: p.member, p: p}
	if p.start.Initial != nil {
		c.checkUnanimity(p, p.start.Initial)
		r.configs = []configAt{{0, configurationOf(p.start.Initial)}}
	}
	c.records[p.member] = r
}

// ended notes that the process of p is no more.
func (c *checker) ended(p *process) {
	for _, a := range c.s.acquires {
		if a.at == p && a.state == asked {
			a.state = unknown
		}
	}
	if c.inJoint() && p.state.Role == raft.RoleLeader {
		c.s.cover[CoverLeaderLostInJoint]++
	}
}

// traced checks one step of a node.
func (c *checker) traced(p *process, e *raft.Event) {
	r := c.records[p.member]
	if r == nil {
		r = &record{member: p.member, p: p} // events of raft.New itself
		if p.start.Initial != nil {
			r.configs = []configAt{{0, configurationOf(p.start.Initial)}}
		}
		c.records[p.member] = r
	}
	c.hash = hashWord(c.hash, uint64(e.Kind)<<56^uint64(p.id)<<48^e.Term<<32^e.Index^uint64(c.s.now))
	if c.s.log != nil {
		c.s.logf("%v %v", p, describeEvent(e))
	}
	if e.Term < r.term {
		c.s.fail("terms grow", "%v is in term %d after %d", p, e.Term, r.term)
	}
	r.term, r.role = e.Term, e.Role
	switch e.Kind {
	case raft.EventRoleChanged:
		c.roleChanged(r, e)
	case raft.EventHint:
		r.hinted = true
	case raft.EventElectionWon:
		c.elected(r, e)
	case raft.EventVoteGranted:
		c.voted(r, e)
	case raft.EventAppended:
		c.appended(r, e)
	case raft.EventTruncated:
		c.truncated(r, e)
	case raft.EventCommitted:
		c.commits(r, e)
	case raft.EventQuorumHeard:
		c.checkQuorum(r, e, "CheckQuorum")
	case raft.EventQuorumLost:
		c.s.cover[CoverQuorumLost]++
		c.s.triggered(whenQuorumLost, p)
	case raft.EventControlProposed:
		c.controlProposed(r, e)
	case raft.EventSnapshotInstalled:
		c.snapshotInstalled(r, e)
	case raft.EventSnapshotStarted:
		c.s.cover[CoverSnapshotStarted]++
		c.s.triggered(whenSnapshotStarted, p)
	case raft.EventCompacted:
		c.s.cover[CoverCompacted]++
	case raft.EventTransferStarted:
		c.s.triggered(whenTransferStarted, p)
	case raft.EventTimeoutNow:
		r.invited = e.Term
		c.s.triggered(whenTimeoutNow, p)
	case raft.EventImpossible:
		c.s.cover[CoverImpossible]++
	}
}

// received checks who sends what a node is about to step, and notes what the step may not do.
func (c *checker) received(p, from *process, m *raft.Message) {
	c.checkSender(p, from)
	r := c.records[p.member]
	r.stuck = !r.leader.IsZero() && !r.hinted && p.ticks-r.heardTick < c.electionTicks()
	r.transfer = m.TransferTerm > 0
	switch m.Kind {
	case raft.MsgAppendEntries, raft.MsgInstallSnapshot:
		c.checkOneSender(from, m)
		if m.Term >= r.term {
			r.heardTick, r.hinted = p.ticks, false
		}
	case raft.MsgTimeoutNow:
		c.checkOneSender(from, m)
	case raft.MsgAppendEntriesReply, raft.MsgInstallSnapshotReply:
		if m.Term == r.term && r.role == raft.RoleLeader {
			r.acks[from.member] = p.ticks
		}
	}
}

// checkOneSender checks that one member alone sends as leader of a term.
func (c *checker) checkOneSender(from *process, m *raft.Message) {
	l := c.leaderOf(m.Term)
	if l.sends.IsZero() {
		l.sends = from.member
	}
	if l.sends != from.member {
		c.s.fail("election safety", "%v and %v both send as leader of term %d", l.sends, from.member, m.Term)
	}
}

// sends checks what a node gives to the network.
func (c *checker) sends(p *process, m *raft.Message) {
	r := c.records[p.member]
	switch m.Kind {
	case raft.MsgAppendEntries:
		if k := len(m.Entries); k > 0 && m.Entries[k-1].Index > r.commit && !r.config().IsVoter(m.To) {
			c.s.fail("committed only to learners", "%v sends %v entry %d, committed is %d", p, m.To, m.Entries[k-1].Index, r.commit)
		}
	case raft.MsgTimeoutNow:
		if to := c.records[m.To]; to == nil || !r.config().IsVoter(m.To) || to.last() < r.last() {
			c.s.fail("transfer to an up-to-date voter", "%v (last %d) asks %v to lead", p, r.last(), m.To)
		}
	}
}

// staleAck checks that an acknowledgement of an earlier term does not count: the leader's view of its sender stays.
func (c *checker) staleAck(p, from *process, before raft.PeerStatus) {
	if after := p.peerStatus(from.member); after.Match != before.Match || after.HeardTicks < before.HeardTicks {
		c.s.fail("acknowledgements of this term", "%v counts one of an earlier term of %v", p, from)
	}
}

// checkLeader checks that a leader still hears a quorum (CheckQuorum), with some patience.
func (c *checker) checkLeader(p *process) {
	r := c.records[p.member]
	if r.role != raft.RoleLeader || p.ticks-r.ledTick < 2*c.electionTicks() {
		return
	}
	heard := func(m raft.Member) bool {
		at, ok := r.acks[m]
		return m == p.member || ok && p.ticks-at <= 2*c.electionTicks()
	}
	if config := r.config(); !majority(config.Voters, heard) || config.Joint() && !majority(config.Next, heard) {
		c.s.fail("CheckQuorum", "%v leads and has not heard from a quorum for two election timeouts", p)
	}
}

func (c *checker) electionTicks() int { return int(c.s.opt.election / c.s.opt.tick) }

// ticks notes what was committed at this tick.
func (c *checker) ticks(p *process) {
	if r := c.records[p.member]; r != nil {
		r.commits[p.ticks%len(r.commits)] = r.commit
	}
}

// settled checks what must hold whenever a node has worked off its input.
func (c *checker) settled(p *process) {
	r := c.records[p.member]
	if p.state.Serving && (!c.openIn(r) || r.noop != p.state.Term) {
		c.s.fail("served only when open", "%v serves in term %d; open %v, last Noop applied of term %d", p, p.state.Term, c.openIn(r), r.noop)
	}
}

// memory checks that the log is within its bound: LogBytes, or RetainBytes while a snapshot is on its way.
func (c *checker) memory(p *process) {
	status := p.node.Status()
	bound := p.s.opt.logBytes
	for i := range status.Peers {
		if status.Peers[i].Snapshot {
			bound = 8 * p.s.opt.logBytes
		}
	}
	bound += 2 * p.s.opt.messageBytes // what is not applied yet cannot be dropped
	if status.LogBytes > bound {
		c.s.fail("memory bound", "%v: the log takes %d bytes, allowed are %d", p, status.LogBytes, bound)
	}
}

// end checks what is left when a run is over.
func (c *checker) end() {
	if c.model.open {
		for _, p := range c.s.alive() {
			if p.locks != nil {
				if err := p.locks.CheckInvariants(); err != nil {
					c.s.fail("lock table", "%v: %v", p, err)
				}
			}
		}
	}
}

// leaderOf returns the row of a term.
func (c *checker) leaderOf(term uint64) *leaderOfTerm {
	if term > 1<<20 {
		c.s.fail("terms grow", "to %d", term)
	}
	for uint64(len(c.leaders)) <= term {
		c.leaders = append(c.leaders, leaderOfTerm{})
	}
	return &c.leaders[term]
}

// last returns the last index of a log.
func (r *record) last() uint64 { return r.base + uint64(len(r.log)) }

// at returns the entry of a log at index; ok is false for one that it does not hold.
func (r *record) at(index uint64) (e logEntry, ok bool) {
	if index <= r.base || index > r.last() {
		return logEntry{}, false
	}
	return r.log[index-r.base-1], true
}

// holds reports whether the log holds that entry, or a snapshot that covers it.
func (r *record) holds(index, hash uint64) bool {
	if index <= r.base {
		return true
	}
	e, ok := r.at(index)
	return ok && e.hash == hash
}
