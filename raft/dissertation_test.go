package raft

import (
	"testing"
)

// One test for each rule of the Raft dissertation ("Consensus: Bridging Theory and Practice") that this package uses
// beside those of the paper. The section is in the name.

func TestDissertation3_10_Transfer(t *testing.T) {
	c := newTestCluster(t, 3)
	l := c.procs[0]
	c.elect(l)
	c.tick(15)
	target := testMember(3)
	if err := l.TransferLeadership(target); err != nil {
		t.Fatal(err)
	}
	c.propose(l, "while it is handed over") // waits
	if l.log.last != l.applied {
		t.Error("a proposal was appended during the transfer")
	}
	c.drain(l)
	c.deliver()
	c.until(10, "the target leads", func() bool { return c.leader() == c.proc(target) })
	c.tick(20)
	if l.lost != 1 || l.proposals.undecided() != 0 {
		t.Errorf("%d proposals lost, %d undecided", l.lost, l.proposals.undecided())
	}
	if l.term != 2 {
		t.Errorf("term %d after one transfer", l.term)
	}
}

func TestDissertation3_10_TransferEndsAfterAnElectionTimeout(t *testing.T) {
	c := newTestCluster(t, 3)
	l := c.procs[0]
	c.elect(l)
	c.tick(15)
	c.drop = func(m *Message) bool { return m.Kind == MsgTimeoutNow }
	if err := l.TransferLeadership(Member{}); err != nil {
		t.Fatal(err)
	}
	c.propose(l, "waits")
	if err := l.TransferLeadership(testMember(2)); err != ErrTransferBusy {
		t.Errorf("a second transfer: %v", err)
	}
	c.tick(int(l.electionTicks) + 5)
	if l.role != RoleLeader || l.own != 1 || l.reign.transfer.active {
		t.Errorf("after the timeout: %v, %d own applied", l, l.own)
	}
	if err := l.TransferLeadership(testMember(2)); err != ErrTransferBusy {
		t.Errorf("right after one that failed: %v", err)
	}
	c.tick(int(l.electionTicks))
	if err := l.TransferLeadership(testMember(2)); err != nil {
		t.Errorf("an election timeout later: %v", err)
	}
}

func TestDissertation3_10_TimeoutNowIsForOneTermAndTarget(t *testing.T) {
	for _, test := range []struct {
		name string
		m    Message
		role Role
	}{
		{"of this term", Message{Term: 5, Target: testMember(1)}, RoleCandidate},
		{"of an earlier one", Message{Term: 4, Target: testMember(1)}, RoleFollower},
		{"for another", Message{Term: 5, Target: testMember(3)}, RoleFollower},
		{"for an earlier incarnation", Message{Term: 5, Target: Member{NodeID: 1, Incarnation: Incarnation{8}}}, RoleFollower},
	} {
		p := nodeInRole(t, "follower")
		test.m.Kind = MsgTimeoutNow
		sent := p.step(2, test.m)
		if p.role != test.role {
			t.Errorf("%s: %v", test.name, p)
		}
		if p.role == RoleCandidate && (sent[0].TransferTerm != 5 || sent[0].Target != p.self || sent[0].Kind != MsgRequestVote) {
			t.Errorf("%s: asked with %+v", test.name, sent[0])
		}
	}
}

func TestDissertation3_10_TargetMustHaveTheWholeLog(t *testing.T) {
	c := newTestCluster(t, 3)
	l := c.procs[0]
	c.elect(l)
	c.tick(15)
	c.drop = isolate(testMember(2))
	c.propose(l, "a")
	c.deliver()
	if err := l.TransferLeadership(testMember(2)); err != nil {
		t.Fatal(err)
	}
	for _, m := range l.msgs {
		if m.Kind == MsgTimeoutNow {
			t.Error("asked to stand before it had the whole log")
		}
	}
}

func TestDissertation4_2_1_LearnerIsNotCounted(t *testing.T) {
	c, p := replacing(t)
	before := p.commit
	c.drop = isolate(testMember(2), testMember(3))
	c.propose(p, "x")
	c.tick(10)
	if p.commit != before {
		t.Errorf("committed %d with the learner alone", p.commit)
	}
}

func TestDissertation4_2_1_LearnerVotesButDoesNotStand(t *testing.T) {
	c, l := replacing(t)
	learner := c.proc(testMember(4))
	c.drop = func(m *Message) bool { return m.From == learner.self && m.Kind == MsgInstallSnapshotReply } // never promoted
	c.tick(5)
	if learner.blank {
		t.Fatal("the learner has no state")
	}
	c.drop = isolate(learner.self)
	c.tick(500)
	if learner.role != RoleFollower || learner.term > l.term {
		t.Fatalf("a learner alone became %v", learner)
	}
	sent := learner.step(3, Message{Kind: MsgRequestVote, Term: learner.term + 1, Index: 1000, LogTerm: learner.term})
	if len(sent) != 1 || sent[0].Reject {
		t.Errorf("a learner asked for its vote answered %+v", sent)
	}
}

// replacing returns a cluster whose leader, member 1, has a learner, member 4, for seat 2, that stays one.
func replacing(t *testing.T) (*testCluster, *process) {
	t.Helper()
	c := newTestCluster(t, 3)
	l := c.procs[0]
	c.elect(l)
	c.control(&Control{Kind: ControlPrepare, Seat: 2, PeerAddr: "n4:5325", ExpiresMillis: c.wall + 60_000})
	c.start(testMember(4), nil)
	c.control(&Control{Kind: ControlAdmit, Seat: 2, Newcomer: testMember(4), Credential: CredentialID{'j'}, PeerAddr: "n4:5325"})
	if l.confs.current().conf.Joint() {
		t.Fatal("promoted already")
	}
	return c, l
}

func TestDissertation4_3_JointNeedsBothMajorities(t *testing.T) {
	for _, test := range []struct {
		acks   []int
		commit bool
	}{
		{[]int{3}, true},    // {1,3} of {1,2,3} and of {1,3,4}
		{[]int{2}, false},   // no majority of the new half
		{[]int{4}, false},   // no majority of the old half
		{[]int{2, 4}, true}, // {1,2} and {1,4}
	} {
		c, p := jointLeader(t)
		_ = c
		index := p.log.last
		for _, id := range test.acks {
			p.acknowledge(id, index)
		}
		if got := p.commit >= index; got != test.commit {
			t.Errorf("acknowledged by 1 and %v: committed %v", test.acks, got)
		}
	}
}

// jointLeader returns member 1 leading in the joint configuration {1,2,3} and {1,3,4}, nothing acknowledged.
func jointLeader(t *testing.T) (*testCluster, *process) {
	t.Helper()
	c, p := lone(t)
	old := p.confs.current().conf.Voters
	joint := Control{Kind: ControlJoint, Configuration: Configuration{Voters: old, Next: replaced(old, testMember(2), testMember(4))}}
	p.registry.Open, p.registry.Bootstrapped = true, true
	p.registry.Issued = 4
	p.registry.Replacement = &Replacement{Seat: 2, Predecessor: testMember(2), Newcomer: testMember(4), PeerAddr: "n4:1"}
	p.registry.insert(MemberInfo{Member: testMember(4), Seat: 2, Learner: true, PeerAddr: "n4:1"})
	logOf(p, 1)
	p.term = 1
	p.appendEntry(1, EntryControl, AppendControl(nil, &joint))
	p.campaign(0)
	p.step(3, Message{Kind: MsgRequestVoteReply, Term: p.term})
	if p.role != RoleLeader {
		t.Fatal("not elected under both majorities")
	}
	return c, p
}

func TestDissertation4_3_JointElectionNeedsBothMajorities(t *testing.T) {
	_, p := jointLeader(t)
	p.becomeFollower(p.term+1, Member{})
	p.campaign(0)
	p.take()
	p.step(2, Message{Kind: MsgRequestVoteReply, Term: p.term})
	if p.role == RoleLeader {
		t.Fatal("elected by the old majority alone")
	}
	p.step(4, Message{Kind: MsgRequestVoteReply, Term: p.term})
	if p.role != RoleLeader {
		t.Fatal("not elected by both majorities")
	}
}

func TestDissertation4_3_FinalOnlyAfterAnEntryOfTheOwnTerm(t *testing.T) {
	// The leader found the joint entry (index 2) in its log; its Noop is entry 3.
	_, p := jointLeader(t)
	p.acknowledge(3, 2)
	if p.log.last != 3 || p.commit != 0 {
		t.Fatalf("with the joint entry on a majority: %v", p)
	}
	p.acknowledge(3, 3)
	p.Tick(testWall)
	final, _ := p.EntryAt(p.log.last)
	conf, ok := configurationOf(final.Kind, final.Data)
	if !ok || conf.Joint() || !(conf.IsVoter(testMember(4)) && !conf.IsVoter(testMember(2))) {
		t.Errorf("no final configuration after both conditions: %+v", final)
	}
}

func TestDissertation4_1_ConfigurationIsRolledBackWithItsEntry(t *testing.T) {
	_, p := jointLeader(t)
	p.step(3, Message{Kind: MsgAppendEntries, Term: p.term + 1, Index: 1, LogTerm: 1, Entries: []Entry{{Index: 2, Term: p.term + 1}}})
	if conf := p.confs.current(); conf.conf.Joint() || conf.index != 0 {
		t.Errorf("in force: %+v", conf)
	}
}

func TestDissertation6_2_CheckQuorum(t *testing.T) {
	c := newTestCluster(t, 3)
	l := c.procs[0]
	c.elect(l)
	c.drop = isolate(l.self)
	at := l.now
	c.until(200, "step-down", func() bool { return l.role != RoleLeader })
	if took := l.now - at; took > l.electionTicks+l.heartbeatTicks {
		t.Errorf("a leader without a quorum led on for %d ticks", took)
	}
	if l.Propose([]byte("x")) != ErrNotLeader {
		t.Error("accepts proposals")
	}
}

func TestDissertation6_4_2_StickyVotersRefuse(t *testing.T) {
	c := newTestCluster(t, 3)
	c.elect(c.procs[0])
	f, term := c.procs[1], c.procs[1].term
	for _, kind := range []MessageKind{MsgPreVote, MsgRequestVote} {
		sent := f.step(3, Message{Kind: kind, Term: term + 1, Index: 1000, LogTerm: term})
		if len(sent) != 1 || !sent[0].Reject || f.term != term {
			t.Errorf("%v while the leader is heard: %+v", kind, sent)
		}
	}
	f.ReportConnectionLoss(testMember(3)) // not the leader
	if sent := f.step(3, Message{Kind: MsgPreVote, Term: term + 1, Index: 1000, LogTerm: term}); !sent[0].Reject {
		t.Error("another member's lost connection ended stickiness")
	}
	f.ReportConnectionLoss(testMember(1))
	if sent := f.step(3, Message{Kind: MsgPreVote, Term: term + 1, Index: 1000, LogTerm: term}); sent[0].Reject {
		t.Error("sticky after the leader's connection ended")
	}
	f.step(1, Message{Kind: MsgAppendEntries, Term: term, Index: f.log.last, LogTerm: term})
	if sent := f.step(3, Message{Kind: MsgPreVote, Term: term + 1, Index: 1000, LogTerm: term}); !sent[0].Reject {
		t.Error("not sticky after the leader was heard again")
	}
}

func TestDissertation9_6_PreVoteDisturbsNobody(t *testing.T) {
	c := newTestCluster(t, 3)
	c.elect(c.procs[0])
	term := c.procs[0].term
	for range 5 {
		c.drop = isolate(testMember(3))
		c.tick(600)
		if c.procs[2].term != term {
			t.Fatalf("cut off, member 3 went to term %d", c.procs[2].term)
		}
		c.drop = nil
		c.tick(50)
	}
	if l := c.leader(); l != c.procs[0] || l.term != term {
		t.Errorf("after the partitions %v leads", l)
	}
}

func TestDissertation9_6_PreCandidateAdoptsALaterTerm(t *testing.T) {
	// The longer log is at the lower term: without the term in the rejection neither could ever win.
	p := nodeInRole(t, "pre-candidate")
	p.step(2, Message{Kind: MsgPreVoteReply, Term: 9, Reject: true})
	if p.term != 9 || p.role != RoleFollower {
		t.Errorf("became %v", p)
	}
}

func TestConnectionLossElectsAtOnce(t *testing.T) {
	for _, voters := range []int{3, 5} {
		c := newTestCluster(t, voters)
		c.elect(c.procs[0])
		c.procs[0].down = true
		for _, p := range c.procs[1:] {
			p.ReportConnectionLoss(testMember(1))
		}
		at := c.procs[1].now
		c.until(20, "the next leader", func() bool { return c.leader() != nil && c.leader().serving() })
		if l := c.leader(); l != c.procs[1] || l.term != 2 {
			t.Errorf("%v leads, expected the first by rank in term 2", l)
		}
		t.Logf("%d voters: %d ticks", voters, c.procs[1].now-at)
	}
}

// TestProposalDuringDrainWaits: what an application proposes as it applies comes after everything proposed before.
func TestProposalDuringDrainWaits(t *testing.T) {
	c, l := serving(t, 3)
	c.propose(l, "a")
	c.deliver()
	if err := l.Propose([]byte("b")); err != nil {
		t.Fatal(err)
	}
	last := l.log.last
	rd := l.Ready()
	if err := l.Propose([]byte("c")); err != nil {
		t.Fatal(err)
	}
	for i := range rd.Messages {
		c.post(&rd.Messages[i])
	}
	if l.log.last != last {
		t.Error("appended while the log is being read")
	}
	l.Advance()
	if l.log.last != last+1 || l.proposals.undecided() != 2 {
		t.Errorf("last %d, was %d; %d undecided", l.log.last, last, l.proposals.undecided())
	}
	c.drain(l)
	c.deliver()
	c.tick(15)
	if l.own != 3 || string(l.app.commands[2]) != "c" || !c.converged() {
		t.Errorf("%d own, %q", l.own, l.app.commands)
	}
}

func TestInputDuringDrainPanics(t *testing.T) {
	_, p := lone(t)
	p.Tick(testWall)
	p.Ready()
	for name, input := range map[string]func(){
		"Tick":    func() { p.Tick(testWall) },
		"Step":    func() { p.Step(&Message{Kind: MsgPreVote, From: testMember(2), To: p.self}) },
		"Control": func() { _, _ = p.ProposeControl(&Control{Kind: ControlAbort}, testWall) },
		"Ready":   func() { p.Ready() },
		"hint":    func() { p.ReportConnectionLoss(testMember(2)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s between Ready and Advance does not panic", name)
				}
			}()
			input()
		}()
	}
	p.Advance()
	p.Tick(testWall)
}
