package raft

import (
	"errors"
	"fmt"
	"testing"
)

// replace starts the replacement of the seat by newcomer 4, up to its admission.
func (c *testCluster) replace(seat Seat) *process {
	c.t.Helper()
	c.control(&Control{Kind: ControlPrepare, Seat: seat, PeerAddr: "n4:5325", ExpiresMillis: c.wall + 60_000})
	p := c.start(testMember(4), nil)
	c.control(&Control{Kind: ControlAdmit, Seat: seat, Newcomer: testMember(4), Credential: CredentialID{'j'}, PeerAddr: "n4:5325", ClientAddr: "n4:5225"})
	return p
}

// settled reports that no replacement is under way and that the seat has that voter.
func (c *testCluster) settled(seat Seat, m Member) func() bool {
	return func() bool {
		l := c.leader()
		return l != nil && l.serving() && l.registry.Replacement == nil && l.registry.Voter(seat).Member == m &&
			!l.confs.current().conf.Joint()
	}
}

func serving(t *testing.T, voters int, options ...func(*Config)) (*testCluster, *process) {
	t.Helper()
	c := newTestCluster(t, voters, options...)
	c.elect(c.procs[0])
	c.tick(15)
	return c, c.procs[0]
}

func TestReplacementOfLivingVoter(t *testing.T) {
	for _, voters := range []int{3, 5} {
		for seat := 1; seat <= 3; seat++ { // seat 1 leads
			t.Run(fmt.Sprintf("seat %d of %d", seat, voters), func(t *testing.T) {
				c, _ := serving(t, voters)
				if seat == 1 && voters == 5 {
					c.tick(1)
				}
				newcomer := testMember(4)
				if voters == 5 {
					newcomer = testMember(6)
				}
				c.control(&Control{Kind: ControlPrepare, Seat: Seat(seat), PeerAddr: "new:5325", ExpiresMillis: c.wall + 60_000})
				p := c.start(newcomer, nil)
				c.control(&Control{Kind: ControlAdmit, Seat: Seat(seat), Newcomer: newcomer, Credential: CredentialID{'j'}, PeerAddr: "new:5325"})
				c.until(400, "final", c.settled(Seat(seat), newcomer))
				c.tick(20)
				l := c.leader()
				if conf := l.confs.current().conf; len(conf.Voters) != voters || conf.IsVoter(testMember(seat)) || !conf.IsVoter(newcomer) {
					t.Errorf("voters %v", conf.Voters)
				}
				if l.self == testMember(seat) || !p.promotable() {
					t.Errorf("%v leads; the newcomer is a voter: %v", l, p.promotable())
				}
				c.proc(testMember(seat)).down = true
				c.propose(l, "x")
				c.tick(20)
				if !c.converged() {
					t.Error("not converged")
				}
			})
		}
	}
}

func TestReplacementSurvivesItsLeader(t *testing.T) {
	// The leader dies when the newcomer, or it, has seen each kind of entry.
	for _, phase := range []ControlKind{ControlPrepare, ControlAdmit, ControlJoint, ControlFinal} {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, applied %v", phase, applied), func(t *testing.T) {
				c, l := serving(t, 5)
				c.procs[1].down = true // the predecessor
				dead := false
				kill := func() bool {
					for i := l.log.base + 1; !dead && i <= l.log.last; i++ {
						e := l.log.entry(i)
						dead = e.Kind == EntryControl && ControlKind(e.Data[0]) == phase && (!applied || l.applied >= i)
					}
					l.down = l.down || dead
					return dead
				}
				request(c, l, &Control{Kind: ControlPrepare, Seat: 2, PeerAddr: "n6:5325", ExpiresMillis: c.wall + 60_000}, kill)
				c.until(300, "the entry of prepare is decided", func() bool {
					kill()
					return c.leader() != nil && c.leader().serving() && c.leader().registry.Replacement != nil
				})
				newcomer := testMember(6)
				c.start(newcomer, nil)
				for range 600 {
					kill()
					if lead := c.leader(); lead != nil && lead.serving() && lead.registry.Member(newcomer) == nil {
						request(c, lead, &Control{Kind: ControlAdmit, Seat: 2, Newcomer: newcomer, Credential: CredentialID{'j'}, PeerAddr: "n6:5325"}, kill)
					}
					c.tick(1)
					if dead && c.settled(2, newcomer)() {
						break
					}
				}
				c.tick(30)
				if !dead || !c.settled(2, newcomer)() || !c.converged() {
					t.Fatalf("leader killed: %v; %v", dead, c.procs)
				}
			})
		}
	}
}

// request proposes a Control wherever it fits; the answer does not matter.
func request(c *testCluster, p *process, r *Control, each func() bool) {
	if _, err := p.ProposeControl(r, c.wall); err == nil {
		c.drain(p)
		each()
	}
}

func TestReplacementWaitsForEveryLivingVoter(t *testing.T) {
	c, l := serving(t, 5)
	c.drop = func(m *Message) bool { return m.From == testMember(3) && m.Kind == MsgAppendEntriesReply }
	c.tick(31)
	c.control(&Control{Kind: ControlPrepare, Seat: 2, PeerAddr: "n6:5325", ExpiresMillis: c.wall + 60_000})
	c.start(testMember(6), nil)
	c.control(&Control{Kind: ControlAdmit, Seat: 2, Newcomer: testMember(6), Credential: CredentialID{'j'}, PeerAddr: "n6:5325"})
	for l.now-l.peer(testMember(3)).ackedAt < l.electionTicks {
		if l.now-l.peer(testMember(3)).ackedAt > 3*l.heartbeatTicks && count(l, EventControlProposed) > 4 {
			t.Fatal("joint while a voter that lives does not answer")
		}
		c.tick(1)
	}
	c.until(200, "final: the voter counts as dead", c.settled(2, testMember(6)))
}

func TestAbort(t *testing.T) {
	t.Run("by the operator", func(t *testing.T) {
		c, l := serving(t, 3)
		c.control(&Control{Kind: ControlPrepare, Seat: 2, PeerAddr: "n4:5325", ExpiresMillis: c.wall + 60_000})
		if o := c.control(&Control{Kind: ControlAbort}); o.Result != ResultControlApplied || o.Retired.NodeID != 4 {
			t.Errorf("abort: %+v", o)
		}
		if _, err := l.ProposeControl(&Control{Kind: ControlAbort}, c.wall); !errors.Is(err, ReasonNoReplacement) {
			t.Errorf("abort again: %v", err)
		}
	})
	t.Run("the credential ends unused", func(t *testing.T) {
		c, l := serving(t, 3)
		c.control(&Control{Kind: ControlPrepare, Seat: 2, PeerAddr: "n4:5325", ExpiresMillis: c.wall + 1000})
		c.tick(95)
		if l.registry.Replacement == nil {
			t.Fatal("given up too early")
		}
		c.until(20, "abort", func() bool { return l.registry.Replacement == nil })
	})
	t.Run("60 s of silence", func(t *testing.T) {
		c, l := serving(t, 3)
		c.replace(2).down = true
		at := l.now
		c.until(6100, "abort", func() bool { return l.registry.Replacement == nil })
		if took := l.now - at; took < 6000 {
			t.Errorf("given up after %d ticks", took)
		}
		if !l.registry.IsRetired(4) || l.registry.refuses(testMember(4)) != RefuseRetired {
			t.Error("the learner is not retired")
		}
	})
	t.Run("10 min without catching up", func(t *testing.T) {
		c, l := serving(t, 3)
		c.drop = func(m *Message) bool { return m.Kind == MsgInstallSnapshot }
		c.replace(2)
		c.tick(10)
		c.wall += 10*60*1000 - 1000
		c.tick(10)
		if l.registry.Replacement == nil {
			t.Fatal("given up too early")
		}
		c.until(150, "abort", func() bool { return l.registry.Replacement == nil })
	})
	t.Run("not after joint", func(t *testing.T) {
		c, l := serving(t, 3)
		c.procs[1].down = true
		c.drop = func(*Message) bool { return l.confs.current().conf.Joint() }
		c.replace(2)
		c.until(30, "joint", func() bool { return l.confs.current().conf.Joint() })
		if _, err := l.ProposeControl(&Control{Kind: ControlAbort}, c.wall); !errors.Is(err, ErrControlBusy) {
			t.Errorf("abort: %v", err)
		}
		c.drop = nil
		c.until(100, "final", c.settled(2, testMember(4)))
	})
}

func TestRejoin(t *testing.T) {
	c, l := serving(t, 3)
	reborn := Member{Incarnation: Incarnation{77}}
	ask := func() (ControlProposal, error) {
		return l.ProposeControl(&Control{
			Kind: ControlRejoin, Seat: 2, Newcomer: reborn, PeerAddr: "n2:5325", Marker: []Member{{Incarnation: testMember(2).Incarnation}},
		}, c.wall)
	}
	if _, err := ask(); !errors.Is(err, ReasonStillHeard) {
		t.Fatalf("while its predecessor lives: %v", err)
	}
	if _, err := l.ProposeControl(&Control{Kind: ControlRejoin, Seat: 2, Newcomer: reborn, PeerAddr: "n2:5325"}, c.wall); !errors.Is(err, ReasonSeatTaken) {
		t.Fatalf("with an empty marker: %v", err)
	}
	c.procs[1].down = true
	c.tick(60)
	first, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(); !errors.Is(err, ErrControlBusy) {
		t.Errorf("twice at once: %v", err)
	}
	c.drain(l)
	c.tick(2)
	again, err := ask()
	if err != nil || again.Index != 0 || again.Outcome.Result != ResultAdmissionAccepted || again.Outcome.Member.NodeID != 4 {
		t.Fatalf("asking again: %+v %v, first %+v", again, err, first)
	}
	reborn.NodeID = 4
	p := c.start(reborn, nil)
	c.until(200, "final", c.settled(2, reborn))
	c.tick(20)
	if !p.promotable() || !c.converged() {
		t.Errorf("%v", c.procs)
	}
	// Its learner dies before it is promoted: the next life replaces it at once, bound by the pace alone.
	p.down = true
	c.tick(60)
	second := Member{Incarnation: Incarnation{78}}
	marker := []Member{{Incarnation: testMember(2).Incarnation}, reborn}
	if _, err := l.ProposeControl(&Control{Kind: ControlRejoin, Seat: 2, Newcomer: second, PeerAddr: "n2:5325", Marker: marker}, c.wall); !errors.Is(err, ReasonTooSoon) {
		t.Errorf("a second rejoin within 10 s: %v", err)
	}
	c.tick(1000)
	if o := c.control(&Control{Kind: ControlRejoin, Seat: 2, Newcomer: second, PeerAddr: "n2:5325", Marker: marker}); o.Member.NodeID != 5 {
		t.Fatalf("second rejoin: %+v", o)
	}
	c.tick(2000)
	third := Member{Incarnation: Incarnation{79}}
	marker = append(marker, Member{NodeID: 5, Incarnation: second.Incarnation})
	o := c.control(&Control{Kind: ControlRejoin, Seat: 2, Newcomer: third, PeerAddr: "n2:5325", Marker: marker})
	if o.Member.NodeID != 6 || o.Retired.NodeID != 5 || l.registry.Replacement.Predecessor != reborn {
		t.Errorf("over the own learner: %+v, %+v", o, l.registry.Replacement)
	}
}

func TestMayStop(t *testing.T) {
	c, l := serving(t, 3)
	for id := 1; id <= 4; id++ {
		if err := l.MayStop(testMember(id)); err != nil {
			t.Errorf("member %d: %v", id, err)
		}
	}
	c.procs[2].down = true
	l.ReportConnectionLoss(testMember(3))
	var refusal StopRefusal
	if err := l.MayStop(testMember(2)); !errors.As(err, &refusal) {
		t.Errorf("right after the connection of 3 ended: %v", err)
	}
	c.tick(60)
	if err := l.MayStop(testMember(2)); !errors.As(err, &refusal) || refusal.Member != testMember(3) {
		t.Errorf("while 3 is down: %v", err)
	}
	if err := l.MayStop(testMember(3)); err != nil {
		t.Errorf("the one that is down: %v", err)
	}
	c.procs[2].down = false
	c.tick(60)
	c.control(&Control{Kind: ControlPrepare, Seat: 2, PeerAddr: "n4:5325", ExpiresMillis: c.wall + 60_000})
	if err := c.leader().MayStop(testMember(3)); !errors.As(err, &refusal) || refusal.Reason != ReasonUnderWay {
		t.Errorf("during a replacement: %v", err)
	}
	if err := c.procs[1].MayStop(testMember(3)); c.leader() != c.procs[1] && !errors.Is(err, ErrNotLeader) {
		t.Errorf("asked of a follower: %v", err)
	}
}

// Five nodes go on without two.
func TestMayStopOfFive(t *testing.T) {
	c, l := serving(t, 5)
	down := func(id int) {
		c.procs[id-1].down = true
		l.ReportConnectionLoss(testMember(id))
		c.tick(60)
	}
	down(5)
	if err := l.MayStop(testMember(4)); err != nil {
		t.Errorf("while 5 is down: %v", err)
	}
	down(4)
	var refusal StopRefusal
	if err := l.MayStop(testMember(3)); !errors.As(err, &refusal) || refusal.Reason != 0 {
		t.Errorf("while 4 and 5 are down: %v", err)
	}
}

func TestControlIsRefusedWithoutEffect(t *testing.T) {
	c, l := serving(t, 3)
	last := l.log.last
	for name, test := range map[string]struct {
		c    Control
		want error
	}{
		"unknown seat":       {Control{Kind: ControlPrepare, Seat: 9, PeerAddr: "x:1", ExpiresMillis: c.wall + 1}, ReasonUnknownSeat},
		"joint from outside": {Control{Kind: ControlJoint}, ReasonMalformed},
		"final from outside": {Control{Kind: ControlFinal}, ReasonMalformed},
		"open from outside":  {Control{Kind: ControlServiceOpen}, ReasonMalformed},
		"admit without one":  {Control{Kind: ControlAdmit, Seat: 2, Newcomer: testMember(4)}, ReasonNoReplacement},
	} {
		if _, err := l.ProposeControl(&test.c, c.wall); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.procs[1].ProposeControl(&Control{Kind: ControlAbort}, c.wall); !errors.Is(err, ErrNotLeader) {
		t.Errorf("asked of a follower: %v", err)
	}
	if l.log.last != last {
		t.Errorf("%d entries were appended", l.log.last-last)
	}
}

func TestUncommittedEntriesStayWithVoters(t *testing.T) {
	c, l := replacing(t)
	learner := testMember(4)
	c.drop = isolate(testMember(2), testMember(3))
	c.propose(l, "a", "b")
	for _, m := range c.queue {
		if m.To == learner && m.Index+uint64(len(m.Entries)) > l.commit {
			t.Errorf("the learner is sent entry %d, committed are %d", m.Index+uint64(len(m.Entries)), l.commit)
		}
	}
}

func TestPredecessorThatLeadsWhileJointHandsOver(t *testing.T) {
	_, p := lone(t)
	old := p.confs.current().conf.Voters
	joint := Control{Kind: ControlJoint, Configuration: Configuration{Voters: old, Next: replaced(old, p.self, testMember(4))}}
	p.registry.Open, p.registry.Bootstrapped, p.registry.Issued = true, true, 4
	p.registry.Replacement = &Replacement{Seat: 1, Predecessor: p.self, Newcomer: testMember(4), PeerAddr: "n4:1"}
	p.registry.insert(MemberInfo{Member: testMember(4), Seat: 1, Learner: true, PeerAddr: "n4:1"})
	p.term = 1
	p.appendEntry(1, EntryControl, AppendControl(nil, &joint))
	p.campaign(0)
	p.step(2, Message{Kind: MsgRequestVoteReply, Term: p.term})
	if p.role == RoleLeader {
		t.Fatal("elected without a majority of the new half")
	}
	p.step(3, Message{Kind: MsgRequestVoteReply, Term: p.term})
	last := p.log.last
	p.acknowledge(3, last-1)
	sent := append(p.acknowledge(2, last), p.acknowledge(3, last)...)
	p.Tick(testWall)
	sent = append(sent, p.take()...)
	if p.log.last != last {
		t.Fatal("a leader appended a configuration without itself")
	}
	for _, m := range sent {
		if m.Kind == MsgTimeoutNow && m.To != testMember(1) && joint.Configuration.IsVoter(m.To) {
			return
		}
	}
	t.Errorf("it does not hand over: %+v", sent)
}

// TestNewcomerIsSentTheJointEntryWithWhatIsUncommittedBefore: a newcomer is a voter in its own configuration only with
// the joint entry, so that no message may end between the commit index and that entry.
func TestNewcomerIsSentTheJointEntryWithWhatIsUncommittedBefore(t *testing.T) {
	for _, test := range []struct {
		before int // entries of 20 KiB, uncommitted
		want   int // entries in the first message
	}{{3, 5}, {30, 32}, {60, 0}} {
		_, p := lone(t)
		old := p.confs.current().conf.Voters
		joint := Control{Kind: ControlJoint, Configuration: Configuration{Voters: old, Next: replaced(old, testMember(2), testMember(4))}}
		p.term = 1
		for range test.before {
			p.appendEntry(1, EntryCommand, make([]byte, 20<<10))
		}
		p.appendEntry(1, EntryControl, AppendControl(nil, &joint))
		p.campaign(0)
		p.step(3, Message{Kind: MsgRequestVoteReply, Term: p.term})
		sent := p.step(4, Message{Kind: MsgAppendEntriesReply, Term: p.term, Reject: true, Index: uint64(test.before) + 1})
		got := 0
		for _, m := range sent {
			if m.To == testMember(4) {
				got += len(m.Entries)
			}
		}
		if got != test.want {
			t.Errorf("%d entries before the joint one: sent %d, expected %d", test.before, got, test.want)
		}
	}
}
