package rafttest

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
)

// script is a cluster in which nothing happens by itself.
type script struct {
	t        *testing.T
	out      strings.Builder
	nodes    []*scriptNode
	initial  *raft.InitialConfig
	queue    []raft.Message
	cuts     [][2]int
	wall     int64
	quiet    bool
	messages bool
	stood    bool // somebody has stood for election
}

type scriptNode struct {
	*process // for the state machine's sake
	*raft.Node
	number int
	down   bool
}

var scriptDomain = raft.Domain{'s'}

func scriptMember(n int) raft.Member {
	return raft.Member{NodeID: raft.NodeID(n), Incarnation: raft.Incarnation{byte(n)}}
}

func (s *script) begin(voters int) {
	s.wall = startMillis
	s.initial = &raft.InitialConfig{Domain: scriptDomain, NotAfterMillis: s.wall + 900_000, Credential: raft.CredentialID{'c'}}
	for i := range voters {
		s.initial.Members = append(s.initial.Members, raft.MemberInfo{
			Member: scriptMember(i + 1), Seat: raft.Seat(i + 1), PeerAddr: fmt.Sprintf("n%d:5325", i+1), ClientAddr: fmt.Sprintf("n%d:5225", i+1),
		})
	}
	for i := range voters {
		s.start(i+1, s.initial)
	}
}

// start makes a node; initial is nil for one that joins.
func (s *script) start(number int, initial *raft.InitialConfig) {
	n := &scriptNode{number: number, process: &process{s: &sim{}, host: &host{}, alive: true}}
	n.process.locks = lock.NewManager(lock.Config{
		Limits: lock.Limits{Keys: 100, Waiters: 100, WaitersPerKey: 10, InFlight: 10},
		Seed:   maphash.MakeSeed(), Log: proposer{n.process}, Sink: sink{n.process},
	})
	n.process.locks.StepDown(lock.Time{})
	node, err := raft.New(raft.Config{
		Domain: scriptDomain, Self: scriptMember(number), Initial: initial, Tick: 100 * time.Millisecond,
		Heartbeat: 100 * time.Millisecond, ElectionTimeout: 500 * time.Millisecond, LogBytes: 64 << 10, MaxMessageBytes: 33 << 10,
		StateMachine: stateMachine{n.process}, Rand: stream(uint64(number), "script"), Trace: s.trace, TraceEntries: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	n.Node = node
	s.nodes = append(s.nodes, n)
}

// open makes n the leader of an open domain, without a word.
func (s *script) open(n *scriptNode) {
	s.quiet = true
	defer func() { s.quiet = false }()
	s.timeout([]*scriptNode{n})
	s.deliver(nil)
	for range 10 {
		s.tick(s.these(nil))
		s.deliver(nil)
	}
	if !n.Status().State.Serving {
		s.t.Fatalf("n%d does not serve", n.number)
	}
}

func (s *script) tick(nodes []*scriptNode) {
	s.wall += 100
	for _, n := range nodes {
		n.Tick(s.wall)
		s.drain(n)
	}
}

// timeout lets time pass for these nodes alone until each stands for election.
func (s *script) timeout(nodes []*scriptNode) {
	for _, n := range nodes {
		s.stood = false
		for i := 0; i < 50 && !s.stood; i++ {
			n.Tick(s.wall)
			s.drain(n)
		}
	}
}

// drain works off all that n has to say.
func (s *script) drain(n *scriptNode) {
	for n.HasReady() {
		rd := n.Ready()
		for i := range rd.Messages {
			m := &rd.Messages[i]
			var kept raft.Message
			if err := raft.DecodeMessage(m.Kind, raft.AppendMessage(nil, m), &kept); err != nil {
				s.t.Fatal(err)
			}
			kept.Kind, kept.From, kept.To = m.Kind, m.From, m.To
			s.queue = append(s.queue, kept)
		}
		for i := range rd.Committed {
			if c := &rd.Committed[i]; c.Kind == raft.EntryCommand && c.Data[0] != tagFiller {
				s.apply(n, c)
			} else if c.Control != nil && c.Control.Kind == raft.ControlBootstrap {
				n.locks.RaiseToken(1000) // the clock's base would make transcripts hard to read
			}
		}
		n.Advance()
	}
}

func (s *script) apply(n *scriptNode, c *raft.Committed) {
	var cmd lock.Command
	if err := lock.DecodeCommand(commandBytes(c.Data), &cmd); err != nil {
		s.t.Fatal(err)
	}
	r := n.locks.Apply(lock.Time{}, &cmd, false)
	if c.Own {
		s.printf("n%d tells its client: %s granted, token %d", n.number, cmd.Key, r.Token)
	}
}

func grantCommand(key string) []byte {
	return lock.AppendCommand([]byte{tagCommand}, &lock.Command{Kind: lock.KindGrant, Key: []byte(key), LeaseMillis: 5000, Owner: 1})
}

// deliver lets messages arrive: those between the pairs; without pairs all, and what they cause, until nothing is left.
func (s *script) deliver(pairs []string) {
	for range 10_000 {
		batch := s.take(pairs)
		for i := range batch {
			s.arrive(&batch[i])
		}
		if len(pairs) > 0 || len(s.queue) == 0 {
			return
		}
	}
	s.t.Fatal("messages without end")
}

// take removes from the queue what is on its way between the pairs; without pairs everything. A pair A>>B is for the first
// message alone.
func (s *script) take(pairs []string) (taken []raft.Message) {
	pairs = slices.Clone(pairs)
	all := len(pairs) == 0
	s.queue = slices.DeleteFunc(s.queue, func(m raft.Message) bool {
		first := slices.Index(pairs, fmt.Sprintf("%d>>%d", m.From.NodeID, m.To.NodeID))
		if first >= 0 {
			pairs[first] = ""
		} else if !all && !slices.Contains(pairs, fmt.Sprintf("%d->%d", m.From.NodeID, m.To.NodeID)) {
			return false
		}
		taken = append(taken, m)
		return true
	})
	return taken
}

func (s *script) arrive(m *raft.Message) {
	from, to := int(m.From.NodeID), int(m.To.NodeID)
	if slices.Contains(s.cuts, [2]int{from, to}) || slices.Contains(s.cuts, [2]int{to, from}) {
		return
	}
	for _, n := range s.nodes {
		if n.number == to && !n.down {
			if s.messages {
				s.printf("%s -> %s %s", name(m.From), name(m.To), describe(m))
			}
			n.Step(m)
			s.drain(n)
		}
	}
}

func (s *script) cut(between func(a, b int) bool) {
	for _, a := range s.nodes {
		for _, b := range s.nodes {
			if a != b && between(a.number, b.number) {
				s.cuts = append(s.cuts, [2]int{a.number, b.number})
			}
		}
	}
}

// crash ends a process: the kernel closes its connections.
func (s *script) crash(n *scriptNode) {
	n.down = true
	for _, other := range s.nodes {
		if !other.down {
			other.ReportConnectionLoss(scriptMember(n.number))
			s.drain(other)
		}
	}
}

func (s *script) propose(n *scriptNode, data []byte) {
	if err := n.Propose(data); err != nil {
		s.printf("n%d refuses: %v", n.number, err)
	}
	s.drain(n)
}

func (s *script) transfer(n *scriptNode, to []string) {
	var target raft.Member
	if len(to) > 0 {
		target = scriptMember(s.number(to[0]))
	}
	if err := n.TransferLeadership(target); err != nil {
		s.printf("n%d refuses: %v", n.number, err)
	}
	s.drain(n)
}

func (s *script) control(n *scriptNode, command string, args []string) {
	c := raft.Control{}
	switch command {
	case "prepare":
		c = raft.Control{Kind: raft.ControlPrepare, Seat: raft.Seat(s.number(args[0])), PeerAddr: "new" + args[0] + ":5325", ExpiresMillis: s.wall + 60_000}
	case "admit":
		r := n.Registry().Replacement
		if r == nil {
			s.printf("n%d knows of no replacement", n.number)
			return
		}
		c = raft.Control{Kind: raft.ControlAdmit, Seat: r.Seat, Newcomer: scriptMember(s.number(args[0])), PeerAddr: r.PeerAddr, Credential: raft.CredentialID{'j', byte(r.Newcomer.NodeID)}}
		if !slices.ContainsFunc(s.nodes, func(n *scriptNode) bool { return n.number == s.number(args[0]) }) {
			s.start(s.number(args[0]), nil)
		}
	case "rejoin":
		seat := s.number(args[0])
		c = raft.Control{Kind: raft.ControlRejoin, Seat: raft.Seat(seat), Newcomer: raft.Member{Incarnation: raft.Incarnation{99, byte(seat)}},
			PeerAddr: fmt.Sprintf("n%d:5325", seat), Marker: []raft.Member{scriptMember(seat)}}
	case "abort":
		c = raft.Control{Kind: raft.ControlAbort}
	}
	if _, err := n.ProposeControl(&c, s.wall); err != nil {
		s.printf("n%d refuses: %v", n.number, err)
	}
	s.drain(n)
}

func (s *script) printLog(n *scriptNode) {
	status := n.Status()
	var b strings.Builder
	for i := status.First; i <= status.Last; i++ {
		if e, ok := n.EntryAt(i); ok {
			fmt.Fprintf(&b, " %s", describeEntry(&e))
		}
	}
	s.printf("n%d log:%s; committed %d", n.number, b.String(), status.Commit)
}

func describeStatus(st raft.Status) string {
	text := fmt.Sprintf("%s %v, term %d, applied %d of %d", name(st.Self), st.State.Role, st.State.Term, st.Applied, st.Last)
	if !st.State.Leader.IsZero() {
		text += ", leader " + name(st.State.Leader)
	}
	if !st.State.Voter {
		text += ", no voter"
	}
	if st.State.Serving {
		text += ", serves"
	}
	return text
}

// trace prints the steps of the nodes that a reader of a transcript wants to see.
func (s *script) trace(e *raft.Event) {
	self := name(e.Self)
	s.stood = s.stood || e.Kind == raft.EventRoleChanged && e.Role == raft.RolePreCandidate
	switch e.Kind {
	case raft.EventRoleChanged:
		text := fmt.Sprintf("%s %v, term %d", self, e.Role, e.Term)
		if !e.Peer.IsZero() && e.Peer != e.Self {
			text += ", leader " + name(e.Peer)
		}
		s.printf("%s", text)
	case raft.EventElectionWon:
		s.printf("%s wins term %d with %s", self, e.Term, names(e.Quorum))
	case raft.EventVoteGranted:
		s.printf("%s votes for %s in term %d", self, name(e.Peer), e.Term)
	case raft.EventCommitted:
		if len(e.Quorum) > 0 {
			s.printf("%s commits %d with %s", self, e.Index, names(e.Quorum))
		}
	case raft.EventQuorumLost:
		s.printf("%s hears no quorum", self)
	case raft.EventTruncated:
		s.printf("%s removes its entries from %d on", self, e.Index)
	case raft.EventConfiguration:
		text := names(e.Configuration.Voters)
		if e.Configuration.Joint() {
			text += " and " + names(e.Configuration.Next)
		}
		s.printf("%s: voters are %s", self, text)
	case raft.EventControlProposed:
		s.printf("%s appends %v at %d", self, e.Control.Kind, e.Index)
	case raft.EventApplied:
		s.traceApplied(e)
	case raft.EventTransferStarted:
		s.printf("%s hands over to %s", self, name(e.Peer))
	case raft.EventTransferEnded:
		s.printf("%s ends the transfer: %s", self, e.Detail)
	case raft.EventSnapshotStarted:
		s.printf("%s sends %s a snapshot of %d", self, name(e.Peer), e.Index)
	case raft.EventSnapshotInstalled:
		s.printf("%s installs a snapshot of %d", self, e.Index)
	case raft.EventHint:
		s.printf("%s has lost its connection from %s", self, name(e.Peer))
	case raft.EventTimeoutNow:
		s.printf("%s is asked by %s to lead", self, name(e.Peer))
	case raft.EventProposalsLost:
		s.printf("%s tells %d clients: not leader", self, e.Count)
	}
}

func (s *script) traceApplied(e *raft.Event) {
	if e.Control == nil {
		return
	}
	text := fmt.Sprintf("%s applies %d, %v", name(e.Self), e.Index, e.Control.Kind)
	if e.Outcome.Member.NodeID != 0 {
		text += " of " + name(e.Outcome.Member)
	}
	if !e.Outcome.Retired.IsZero() {
		text += ", retired is " + name(e.Outcome.Retired)
	}
	if e.Outcome.Reason != 0 {
		text += ": " + e.Outcome.Reason.Error()
	}
	s.printf("%s", text)
}
