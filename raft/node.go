package raft

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of Propose, ProposeControl, TransferLeadership and MayStop. None of them leaves an effect.
var (
	ErrNotLeader    = errors.New("raft: not the leader")
	ErrNotServing   = errors.New("raft: the leader does not serve yet")
	ErrOverloaded   = errors.New("raft: too many proposals wait")
	ErrTooLarge     = errors.New("raft: entry too large")
	ErrControlBusy  = errors.New("raft: another control entry is not applied yet")
	ErrTransferBusy = errors.New("raft: a transfer is under way, or the last one was a moment ago")
	ErrNotEligible  = errors.New("raft: the target of a transfer is no voter that is alive")
)

// Node is one member's Raft. It is a pure state machine: not safe for concurrent use. It lives and dies with the
// member's incarnation; it is never made again under the same one.
type Node struct {
	cfg    Config
	faults Faults
	self   Member

	// Time: ticks since New, and the driver's wall clock at the last one.
	now            uint64
	wallMillis     int64
	electionTicks  uint64
	heartbeatTicks uint64
	hintTicks      uint64

	// The persistent state of the Raft paper, here as volatile as the rest.
	term uint64
	vote Member
	log  log
	// blank is true in a process that joined until it has installed a snapshot: its log has no beginning.
	blank bool

	confs    configurations // of the log
	commit   uint64         // never falls; at most log.last
	applied  uint64         // never falls; at most commit
	registry Registry       // as of applied

	role       Role
	leader     Member
	heardAt    uint64 // tick of the leader's last message
	hinted     bool   // the leader's connection ended: no stickiness until it is heard again
	electionAt uint64 // tick of the next election

	votes        []ballot // of a pre-candidate or candidate
	transferTerm uint64   // of a candidate whom a leader's TimeoutNow has asked to stand

	reign    reign    // of a leader
	attempts uint32   // snapshots begun in this life
	incoming incoming // snapshot being received

	proposals proposals

	// Output since the last Ready, and its reused memory.
	draining  bool
	msgs      []Message
	sendBuf   []Entry
	batch     batch // the last one made of sendBuf
	applyBuf  []Entry
	committed []Committed
	installed *Installed
	ready     Ready
	lastState State
}

type batch struct {
	from, limit uint64
	maxBytes    int
	entries     []Entry
}

type ballot struct {
	voter   Member
	granted bool
}

// New returns a follower in term 0 with an empty log. A process calls it once per incarnation.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	n := &Node{
		cfg: cfg, self: cfg.Self,
		electionTicks:  uint64(cfg.ElectionTimeout / cfg.Tick),
		heartbeatTicks: uint64(cfg.Heartbeat / cfg.Tick),
		hintTicks:      max(1, uint64(hintDelay/cfg.Tick)),
		log:            newLog(cfg.LogBytes),
		blank:          cfg.Initial == nil,
	}
	if cfg.Faults != nil {
		n.faults = *cfg.Faults
	}
	var first Configuration
	if cfg.Initial != nil {
		n.registry = newRegistry(cfg.Initial)
		first = cfg.Initial.configuration()
	} else {
		n.registry.Domain = cfg.Domain
	}
	n.confs.push(0, first)
	n.resetElectionTimer()
	n.lastState = n.state()
	return n, nil
}

// hintDelay is what each place among the voters adds to the delay after a lost connection (Connection-loss hint).
const hintDelay = 10 * time.Millisecond

// Tick advances time by Config.Tick. wallMillis is the wall clock in Unix milliseconds, for the entries that a leader
// makes by itself. After a pause the driver steps what had arrived, and then ticks once.
func (n *Node) Tick(wallMillis int64) {
	n.mustBeOpen()
	n.now++
	n.wallMillis = wallMillis
	if n.role == RoleLeader {
		n.tickLeader()
	} else if n.now >= n.electionAt && (n.promotable() || n.faults.RankWithoutVoter) {
		n.startPreVote()
	}
	n.compact()
}

// Propose appends a command of the application, which is copied and then counts as undecided until a Ready settles it
// (Installed.Unknown, Committed.Lost, Committed.Own, Ready.Lost), in the order of proposing. While leadership is being
// transferred it is accepted and waits. It is the one input that is allowed between Ready and Advance, for what an
// application proposes as it applies; it waits for Advance then. Errors: ErrNotLeader, ErrNotServing, ErrOverloaded,
// ErrTooLarge.
func (n *Node) Propose(data []byte) error {
	switch {
	case n.role != RoleLeader:
		return ErrNotLeader
	case !n.serving():
		return ErrNotServing
	case len(data) > MaxEntryBytes:
		return ErrTooLarge
	case n.unappliedBytes()+len(data)+entryOverhead > n.cfg.MaxUnappliedBytes:
		return ErrOverloaded
	}
	if n.draining || n.reign.transfer.active {
		n.proposals.hold(data)
		return nil
	}
	n.propose(data)
	return nil
}

// propose appends a command that was accepted.
func (n *Node) propose(data []byte) {
	n.proposals.add(n.term, n.appendEntry(n.term, EntryCommand, data))
}

// unappliedBytes is what the quota of proposals counts.
func (n *Node) unappliedBytes() int {
	return n.log.bytesAfter(n.applied) + len(n.proposals.held.data)
}

// ControlProposal tells where the outcome of a Control will be found.
type ControlProposal struct {
	// Index and Term are the entry's: its Committed carries the Outcome. When an entry of another term is committed
	// at Index, the request had no effect.
	Index, Term uint64
	// Outcome is set, and Index is 0, when applied state gives the answer already: the same was asked before.
	Outcome Outcome
}

// appendEntry puts an entry of a leader or from one into the log. A configuration takes effect here.
func (n *Node) appendEntry(term uint64, kind EntryKind, data []byte) uint64 {
	index := n.log.append(term, kind, data)
	if n.tracesEntries() {
		n.trace(Event{Kind: EventAppended, Index: index, LogTerm: term, Entry: &Entry{Index: index, Term: term, Kind: kind, Data: data}})
	}
	if conf, ok := configurationOf(kind, data); ok {
		n.confs.push(index, conf)
		n.configurationChanged()
	}
	return index
}

// configurationChanged follows a change of the configuration in force.
func (n *Node) configurationChanged() {
	at := n.confs.current()
	n.trace(Event{Kind: EventConfiguration, Index: at.index, Configuration: at.conf})
	n.syncPeers()
}

// promotable reports whether this node may stand for election: it is a voter in either half of its configuration.
func (n *Node) promotable() bool { return !n.blank && n.confs.current().conf.IsVoter(n.self) }

// serving reports whether clients may be served.
func (n *Node) serving() bool {
	return n.role == RoleLeader && n.applied >= n.reign.noop && (n.registry.Open || n.faults.ServeBeforeOpen)
}

func (n *Node) state() State {
	return State{
		Role: n.role, Term: n.term, Leader: n.leader,
		Voter: n.promotable(), Serving: n.serving(),
		Transferring: n.role == RoleLeader && n.reign.transfer.active,
		HoldBack:     n.holdBack(),
	}
}

// mustBeOpen panics when the driver breaks the one rule of the drain: what Ready handed out aliases the core's memory,
// so that no input but Propose may come before Advance.
func (n *Node) mustBeOpen() {
	if n.draining {
		panic("raft: input between Ready and Advance")
	}
}

// tracesEntries reports whether somebody looks at events of the request path.
func (n *Node) tracesEntries() bool { return n.cfg.TraceEntries && n.cfg.Trace != nil }

func (n *Node) trace(e Event) {
	if n.cfg.Trace != nil {
		n.emit(e)
	}
}

// emit is apart from trace so that an event is on the heap only when somebody looks at it.
func (n *Node) emit(e Event) {
	e.Self, e.Role = n.self, n.role
	if e.Term == 0 {
		e.Term = n.term
	}
	n.cfg.Trace(&e)
}

// impossible reports a message that the rules exclude. It is ignored: dropping is always safe.
func (n *Node) impossible(m *Message, detail string) {
	n.trace(Event{Kind: EventImpossible, Peer: m.From, Index: m.Index, Detail: detail})
}

// Status is a picture of the node for people and metrics.
type Status struct {
	Self                         Member
	State                        State
	First, Last, Commit, Applied uint64
	LogBytes                     int // memory of the log
	ConfigIndex                  uint64
	Configuration                Configuration // in force
	// BootstrapHeld says that this node has acknowledged the Bootstrap entry: it may not decide alone that the
	// domain never opened.
	BootstrapHeld bool
	Undecided     int          // own proposals
	Peers         []PeerStatus // on a leader
}

// PeerStatus is a leader's view of another member.
type PeerStatus struct {
	Member     Member
	Match      uint64
	Heard      bool // it has acknowledged something in this reign, and since its connection ended last
	HeardTicks uint64
	Snapshot   bool // it needs one, or is being sent one
}

// Status returns a copy of the present state.
func (n *Node) Status() Status {
	at := n.confs.current()
	s := Status{
		Self: n.self, State: n.state(),
		First: n.log.base + 1, Last: n.log.last, Commit: n.commit, Applied: n.applied,
		LogBytes: n.log.bytes, ConfigIndex: at.index, Configuration: at.conf,
		BootstrapHeld: n.bootstrapHeld(), Undecided: n.proposals.undecided(),
	}
	for i := range n.reign.peers {
		p := &n.reign.peers[i]
		s.Peers = append(s.Peers, PeerStatus{
			Member: p.member, Match: p.match, Heard: p.heard, HeardTicks: n.now - p.ackedAt,
			Snapshot: p.state == stateSnapshot,
		})
	}
	return s
}

// bootstrapHeld reports whether the log holds, or held, a Bootstrap entry.
func (n *Node) bootstrapHeld() bool {
	return n.registry.Bootstrapped || slices.ContainsFunc(n.unappliedControls(), func(k ControlKind) bool { return k == ControlBootstrap })
}

// unappliedControls returns the kinds of the Control entries after applied.
func (n *Node) unappliedControls() []ControlKind {
	var kinds []ControlKind
	for i := n.applied + 1; i <= n.log.last; i++ {
		if e := n.log.entry(i); e.Kind == EntryControl && len(e.Data) > 0 {
			kinds = append(kinds, ControlKind(e.Data[0]))
		}
	}
	return kinds
}

// Registry returns the applied registry. It must not be modified and is valid until the next input.
func (n *Node) Registry() *Registry { return &n.registry }

// Configuration returns the configuration in force, that of the latest configuration entry in the log, and the index
// of that entry (0: the InitialConfig).
func (n *Node) Configuration() (Configuration, uint64) {
	at := n.confs.current()
	return at.conf, at.index
}

// EntryAt returns the entry at index, if the log holds it. Its data aliases the log.
func (n *Node) EntryAt(index uint64) (Entry, bool) {
	if index <= n.log.base || index > n.log.last {
		return Entry{}, false
	}
	return n.log.entry(index), true
}

// TermAt returns the term of the entry at index, if it is known.
func (n *Node) TermAt(index uint64) (uint64, bool) { return n.log.term(index) }

// String names the node and its place, as in "2/0a1b2c3d leader of term 4, 17 of 19 applied".
func (n *Node) String() string {
	return fmt.Sprintf("%v %v of term %d, %d of %d applied", n.self, n.role, n.term, n.applied, n.log.last)
}
