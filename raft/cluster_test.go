package raft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// testWall is the wall clock of the tests, after the epoch of tokens.
const testWall = int64(1_800_000_000_000)

var testDomain = Domain{'d', 'o', 'm'}

// journal is the application of the tests: the list of commands applied.
type journal struct {
	commands [][]byte
	slow     int // chunks that are not ready at first
}

func (j *journal) Capture() Capture {
	return &journalCapture{rest: j.encode(), wait: j.slow}
}

func (j *journal) encode() []byte {
	var b []byte
	for _, c := range j.commands {
		b = binary.BigEndian.AppendUint16(b, uint16(len(c)))
		b = append(b, c...)
	}
	return b
}

func (j *journal) Restore() Restore { return &journalRestore{into: j} }

type journalCapture struct {
	rest []byte
	wait int
}

func (c *journalCapture) AppendChunk(dst []byte, limit int) ([]byte, bool) {
	if c.wait > 0 {
		c.wait--
		return dst, false
	}
	k := min(limit, len(c.rest))
	dst = append(dst, c.rest[:k]...)
	c.rest = c.rest[k:]
	return dst, len(c.rest) == 0
}

func (c *journalCapture) Close() {}

type journalRestore struct {
	into *journal
	data []byte
}

func (r *journalRestore) Chunk(data []byte) error {
	r.data = append(r.data, data...)
	return nil
}

func (r *journalRestore) Install() error {
	var commands [][]byte
	for b := r.data; len(b) > 0; {
		if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
			return errors.New("journal: malformed snapshot")
		}
		k := int(binary.BigEndian.Uint16(b))
		commands, b = append(commands, b[2:2+k]), b[2+k:]
	}
	r.into.commands = commands
	return nil
}

func (r *journalRestore) Close() {}

// process is a node with its application and what it has seen.
type process struct {
	*Node
	app      *journal
	events   []Event
	outcomes []Committed // Control entries
	own      int
	lost     int
	unknown  int
	down     bool
}

// testCluster runs nodes in one goroutine. Messages go through the codec and wait in order until they are delivered.
type testCluster struct {
	t     testing.TB
	procs []*process
	queue []Message
	// drop, if set, decides which messages vanish.
	drop func(m *Message) bool
	wall int64
	cfg  func(*Config)
}

func testMember(id int) Member {
	return Member{NodeID: NodeID(id), Incarnation: Incarnation{byte(id), 1}}
}

func testInitial(voters int) *InitialConfig {
	c := &InitialConfig{Domain: testDomain, TokenBase: 1000, NotAfterMillis: testWall + 900_000, Credential: CredentialID{'b'}}
	for i := 1; i <= voters; i++ {
		c.Members = append(c.Members, MemberInfo{
			Member: testMember(i), Seat: Seat(i), PeerAddr: fmt.Sprintf("n%d:5325", i), ClientAddr: fmt.Sprintf("n%d:5225", i),
		})
	}
	return c
}

func newTestCluster(t testing.TB, voters int, options ...func(*Config)) *testCluster {
	c := &testCluster{t: t, wall: testWall}
	c.cfg = func(cfg *Config) {
		for _, o := range options {
			o(cfg)
		}
	}
	initial := testInitial(voters)
	for i := 1; i <= voters; i++ {
		c.start(testMember(i), initial)
	}
	return c
}

// start adds a process; initial is nil for one that joins.
func (c *testCluster) start(m Member, initial *InitialConfig) *process {
	c.t.Helper()
	p := &process{app: new(journal)}
	cfg := Config{
		Domain: testDomain, Self: m, Initial: initial, StateMachine: p.app,
		Rand: rand.New(rand.NewPCG(uint64(m.NodeID), uint64(m.Incarnation[1]))),
		Trace: func(e *Event) {
			kept := *e
			kept.Entry, kept.Control, kept.Outcome = nil, nil, nil
			p.events = append(p.events, kept)
		},
		TraceEntries: true,
	}
	c.cfg(&cfg)
	node, err := New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	p.Node = node
	c.procs = append(c.procs, p)
	return p
}

func (c *testCluster) proc(m Member) *process {
	for _, p := range c.procs {
		if p.self == m {
			return p
		}
	}
	return nil
}

// drain works off every Ready and puts the messages into the queue.
func (c *testCluster) drain(p *process) {
	for i := 0; p.HasReady(); i++ {
		if i > 1000 {
			c.t.Fatalf("%v always has something to say", p.Node)
		}
		rd := p.Ready()
		for i := range rd.Messages {
			c.post(&rd.Messages[i])
		}
		if rd.Installed != nil {
			p.unknown += rd.Installed.Unknown
		}
		for _, e := range rd.Committed {
			p.lost += e.Lost
			if e.Own {
				p.own++
			}
			switch e.Kind {
			case EntryCommand:
				p.app.commands = append(p.app.commands, bytes.Clone(e.Data))
			case EntryControl:
				e.Data = bytes.Clone(e.Data)
				p.outcomes = append(p.outcomes, e)
			}
		}
		p.lost += rd.Lost
		p.Advance()
	}
}

func (c *testCluster) post(m *Message) {
	c.t.Helper()
	body := AppendMessage(nil, m)
	d := Message{From: m.From, To: m.To}
	if err := DecodeMessage(m.Kind, body, &d); err != nil {
		c.t.Fatalf("%v from %v: %v", m.Kind, m.From, err)
	}
	c.queue = append(c.queue, d)
}

// deliver steps everything that is waiting, and what that causes.
func (c *testCluster) deliver() {
	for i := 0; len(c.queue) > 0; i++ {
		if i > 1_000_000 {
			c.t.Fatal("messages without end")
		}
		m := c.queue[0]
		c.queue = c.queue[1:]
		if c.drop != nil && c.drop(&m) {
			continue
		}
		if p := c.proc(m.To); p != nil && !p.down {
			p.Step(&m)
			c.drain(p)
		}
	}
}

// tick advances every process by count ticks, delivering after each.
func (c *testCluster) tick(count int) {
	for range count {
		c.wall += 10
		for _, p := range c.procs {
			if !p.down {
				p.Tick(c.wall)
				c.drain(p)
			}
		}
		c.deliver()
	}
}

// until ticks until the condition holds, at most limit times.
func (c *testCluster) until(limit int, what string, condition func() bool) {
	c.t.Helper()
	for range limit {
		if condition() {
			return
		}
		c.tick(1)
	}
	if !condition() {
		c.t.Fatalf("%s: not within %d ticks: %v", what, limit, c.procs)
	}
}

// leader returns the one leader of the highest term that lives, or nil.
func (c *testCluster) leader() *process {
	var leader *process
	for _, p := range c.procs {
		if !p.down && p.role == RoleLeader && (leader == nil || p.term > leader.term) {
			leader = p
		}
	}
	return leader
}

// elect makes one a leader by its election timer, with the domain opened.
func (c *testCluster) elect(p *process) {
	c.t.Helper()
	p.electionAt = p.now
	c.until(200, "election", func() bool { return c.leader() == p && p.serving() })
}

func (c *testCluster) propose(p *process, commands ...string) {
	c.t.Helper()
	for _, command := range commands {
		if err := p.Propose([]byte(command)); err != nil {
			c.t.Fatalf("propose at %v: %v", p.Node, err)
		}
	}
	c.drain(p)
}

// control proposes a Control and runs until it is applied at the leader.
func (c *testCluster) control(request *Control) Outcome {
	c.t.Helper()
	p := c.leader()
	proposal, err := p.ProposeControl(request, c.wall)
	if err != nil {
		c.t.Fatalf("%v: %v", request.Kind, err)
	}
	if proposal.Index == 0 {
		return proposal.Outcome
	}
	c.drain(p)
	c.until(100, request.Kind.String(), func() bool { return p.applied >= proposal.Index })
	for _, o := range p.outcomes {
		if o.Index == proposal.Index {
			return o.Outcome
		}
	}
	c.t.Fatalf("no outcome of %v", request.Kind)
	return Outcome{}
}

// converged checks that all that live have applied the same.
func (c *testCluster) converged() bool {
	first := (*process)(nil)
	for _, p := range c.procs {
		if p.down {
			continue
		}
		if first == nil {
			first = p
		}
		if p.applied != first.applied || !slices.EqualFunc(p.app.commands, first.app.commands, bytes.Equal) ||
			!bytes.Equal(appendRegistry(nil, &p.registry), appendRegistry(nil, &first.registry)) {
			return false
		}
	}
	return true
}

func (p *process) String() string { return p.Node.String() }

// isolate drops everything to and from the members.
func isolate(members ...Member) func(*Message) bool {
	return func(m *Message) bool { return slices.Contains(members, m.From) || slices.Contains(members, m.To) }
}
