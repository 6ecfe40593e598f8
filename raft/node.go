package raft

import "errors"

const entryOverhead = 32

// Errors of Propose, ProposeControl and TransferLeadership. None of them leaves an effect.
var (
	ErrNotLeader    = errors.New("raft: not the leader")
	ErrNotServing   = errors.New("raft: the leader's first entry is not applied yet")
	ErrOverloaded   = errors.New("raft: too many proposals wait")
	ErrTooLarge     = errors.New("raft: entry too large")
	ErrControlBusy  = errors.New("raft: another control entry is not applied yet")
	ErrTransferBusy = errors.New("raft: a transfer is under way, or the last one was a moment ago")
	ErrNotEligible  = errors.New("raft: the target of a transfer is no voter that is up to date")
)

// Node is one member's Raft. It is a pure state machine: not safe for concurrent use.
type Node struct{}

// New returns a follower in term 0 with an empty log.
func New(cfg Config) (*Node, error) { return nil, cfg.Validate() }

// Tick advances time by Config.Tick. wallMillis is the wall clock in Unix milliseconds, for the entries that a leader makes by itself. After a pause the driver calls it once, having stepped what had arrived.
func (n *Node) Tick(wallMillis int64) {}

// Step takes one message from the connection of m.From. It keeps nothing of m's memory.
func (n *Node) Step(m *Message) {}

// Propose appends a command of the application, which is copied, and counts as undecided until a Ready settles it (Committed.Own, Committed.Lost, Ready.Lost, Installed.Unknown), in the order of proposing. While leadership is being transferred it is accepted and waits.
func (n *Node) Propose(data []byte) error { return ErrNotLeader }

// ControlProposal tells where the outcome of a Control will be found.
type ControlProposal struct {
	// Index and Term of the entry: its Committed carries the Outcome. If another term's entry is committed there, the request had no effect.
	Index, Term uint64
	// Outcome is set, and Index 0, when applied state gives the answer already (the same request was made before).
	Outcome Outcome
}

// ProposeControl validates c against the applied registry and appends it with wallMillis as its wall time. The error is a Reason where the registry refuses; nothing is appended then.
func (n *Node) ProposeControl(c *Control, wallMillis int64) (ControlProposal, error) {
	return ControlProposal{}, ErrNotLeader
}

// ReportConnectionLoss is the hint that a connection from m has ended (not: was replaced by a newer one). The driver gives it once per connection.
func (n *Node) ReportConnectionLoss(m Member) {}

// TransferLeadership hands over to a voter, or to the most up-to-date one when to is zero.
func (n *Node) TransferLeadership(to Member) error { return ErrNotLeader }

// HasReady reports whether Ready has anything to say.
func (n *Node) HasReady() bool { return false }

// Ready returns all output since the last. No input is allowed until Advance.
func (n *Node) Ready() *Ready { return nil }

// Advance says that the last Ready is worked off: its messages encoded, its entries applied.
func (n *Node) Advance() {}

// Status is a picture of the node for people and metrics.
type Status struct {
	Self                         Member
	State                        State
	Commit, Applied, First, Last uint64
	LogBytes                     int // memory of the log
	ConfigIndex                  uint64
	Configuration                Configuration // in force
	BootstrapHeld                bool          // an initial voter has acknowledged (holds) the Bootstrap entry
	Undecided                    int           // own proposals
	Peers                        []PeerStatus  // on a leader
}

// PeerStatus is a leader's view of another member.
type PeerStatus struct {
	Member     Member
	Match      uint64
	HeardTicks int // ticks since its last acknowledgement in this reign
	Snapshot   bool
}

// Status returns a copy of the present state.
func (n *Node) Status() Status { return Status{} }

// Registry returns the applied registry. It must not be modified, and is valid until the next input.
func (n *Node) Registry() *Registry { return nil }

// Configuration returns the configuration in force: that of the latest configuration entry in the log.
func (n *Node) Configuration() Configuration { return Configuration{} }

// EntryAt returns the entry at index, if the log holds it. Data aliases the log.
func (n *Node) EntryAt(index uint64) (Entry, bool) { return Entry{}, false }

// MayStop reports whether m may stop now without taking the majority along; asked of a leader.
func (n *Node) MayStop(m Member) error { return ErrNotLeader }

// AppendMessage appends the body of m (docs/protocol-peer.md).
func AppendMessage(dst []byte, m *Message) []byte { return dst }

// DecodeMessage decodes a body of that kind into m, using all of it. m.Entries is reused; data aliases b.
func DecodeMessage(kind MessageKind, b []byte, m *Message) error { return nil }

// AppendInitialConfig appends c's encoding.
func AppendInitialConfig(dst []byte, c *InitialConfig) []byte { return dst }
