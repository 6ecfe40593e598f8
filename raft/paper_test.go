package raft

import (
	"fmt"
	"slices"
	"testing"
)

// One test for each rule of the Raft paper ("In Search of an Understandable Consensus Algorithm", extended version) and
// of the dissertation ("Consensus: Bridging Theory and Practice") that this package uses. The section is in the name.

// lone returns member 1 of a cluster whose other members are played by the test.
func lone(t *testing.T) (*testCluster, *process) {
	c := newTestCluster(t, 3)
	return c, c.procs[0]
}

// logOf gives p entries of the terms named, and the last as its term.
func logOf(p *process, terms ...uint64) {
	for _, term := range terms {
		p.appendEntry(term, EntryCommand, []byte(fmt.Sprint(p.log.last+1)))
		p.term = max(p.term, term)
	}
}

func terms(p *process) []uint64 {
	var ts []uint64
	for i := p.log.base + 1; i <= p.log.last; i++ {
		term, _ := p.log.term(i)
		ts = append(ts, term)
	}
	return ts
}

// step delivers m from member id, and returns what that makes p send.
func (p *process) step(id int, m Message) []Message {
	m.From, m.To = testMember(id), p.self
	p.Step(&m)
	return p.take()
}

// take works off every Ready and returns its messages.
func (p *process) take() []Message {
	var sent []Message
	for p.HasReady() {
		for _, m := range p.Ready().Messages {
			m.Entries = slices.Clone(m.Entries)
			sent = append(sent, m)
		}
		p.Advance()
	}
	return sent
}

// lead makes p the leader of the next term by the vote of member 2.
func lead(t *testing.T, p *process) []Message {
	t.Helper()
	p.campaign(0)
	p.take()
	sent := p.step(2, Message{Kind: MsgRequestVoteReply, Term: p.term})
	if p.role != RoleLeader {
		t.Fatalf("not elected: %v", p)
	}
	return sent
}

// acknowledge plays member id's reply to everything up to index.
func (p *process) acknowledge(id int, index uint64) []Message {
	return p.step(id, Message{Kind: MsgAppendEntriesReply, Term: p.term, Index: index})
}

func TestPaper5_1_StaleTermIsRejectedWithTheOwnTerm(t *testing.T) {
	_, p := lone(t)
	p.term = 7
	for _, kind := range []MessageKind{MsgPreVote, MsgRequestVote, MsgAppendEntries, MsgInstallSnapshot} {
		sent := p.step(2, Message{Kind: kind, Term: 3})
		if len(sent) != 1 || !sent[0].Reject || sent[0].Term != 7 || p.term != 7 {
			t.Errorf("%v: answered %+v", kind, sent)
		}
	}
}

func TestPaper5_1_LaterTermMakesAFollower(t *testing.T) {
	for _, role := range []string{"follower", "pre-candidate", "candidate", "leader"} {
		p := nodeInRole(t, role)
		p.step(2, Message{Kind: MsgAppendEntries, Term: 9})
		if p.role != RoleFollower || p.term != 9 || p.leader != testMember(2) {
			t.Errorf("%s became %v", role, p)
		}
	}
}

func TestPaper5_2_OneVoteInATerm(t *testing.T) {
	_, p := lone(t)
	first := p.step(2, Message{Kind: MsgRequestVote, Term: 1})
	second := p.step(3, Message{Kind: MsgRequestVote, Term: 1})
	again := p.step(2, Message{Kind: MsgRequestVote, Term: 1})
	if first[0].Reject || !second[0].Reject || again[0].Reject {
		t.Errorf("votes: first %v, second %v, repeated %v", !first[0].Reject, !second[0].Reject, !again[0].Reject)
	}
}

func TestPaper5_2_CandidateVotesForItselfAndNeedsAMajority(t *testing.T) {
	for _, test := range []struct {
		voters, grants int
		wins           bool
	}{{3, 0, false}, {3, 1, true}, {5, 1, false}, {5, 2, true}} {
		c := newTestCluster(t, test.voters)
		p := c.procs[0]
		p.campaign(0)
		for id := 2; id < 2+test.grants; id++ {
			p.step(id, Message{Kind: MsgRequestVoteReply, Term: p.term})
			p.step(id, Message{Kind: MsgRequestVoteReply, Term: p.term}) // a duplicate counts once
		}
		if got := p.role == RoleLeader; got != test.wins || p.vote != p.self {
			t.Errorf("%d of %d votes: leader %v", test.grants+1, test.voters, got)
		}
	}
}

func TestPaper5_2_VotesOfStrangersDoNotCount(t *testing.T) {
	_, p := lone(t)
	p.campaign(0)
	for id := 4; id < 9; id++ {
		p.step(id, Message{Kind: MsgRequestVoteReply, Term: p.term})
	}
	other := Message{Kind: MsgRequestVoteReply, Term: p.term, From: Member{NodeID: 2, Incarnation: Incarnation{9}}, To: p.self}
	p.Step(&other)
	if p.role == RoleLeader {
		t.Error("elected by members that are no voters")
	}
}

func TestPaper5_2_CandidateReturnsToTheLeaderOfItsTerm(t *testing.T) {
	p := nodeInRole(t, "candidate")
	p.step(3, Message{Kind: MsgAppendEntries, Term: p.term})
	if p.role != RoleFollower || p.leader != testMember(3) {
		t.Errorf("became %v", p)
	}
}

func TestPaper5_2_TimeoutsAreRandomAndFresh(t *testing.T) {
	_, p := lone(t)
	seen := make(map[uint64]int)
	for range 2000 {
		p.resetElectionTimer()
		d := p.electionAt - p.now
		if d < p.electionTicks || d >= 2*p.electionTicks {
			t.Fatalf("timeout of %d ticks, allowed are %d..%d", d, p.electionTicks, 2*p.electionTicks-1)
		}
		seen[d]++
	}
	if len(seen) != int(p.electionTicks) {
		t.Errorf("%d different timeouts of %d", len(seen), p.electionTicks)
	}
}

func TestPaper5_2_SplitVoteEndsInAnotherRound(t *testing.T) {
	c := newTestCluster(t, 5)
	c.procs[0].down = true
	for _, i := range []int{2, 4} {
		c.procs[i].campaign(0)
		c.drain(c.procs[i])
	}
	// Members 2 and 4 vote for one candidate each: 2 of 5.
	c.drop = func(m *Message) bool {
		return m.Kind == MsgRequestVote && (m.From == testMember(3)) != (m.To == testMember(2))
	}
	c.deliver()
	if c.leader() != nil {
		t.Fatal("a leader with 2 of 5 votes")
	}
	c.drop = nil
	c.until(400, "a leader", func() bool { return c.leader() != nil && c.leader().term > 1 })
}

func TestPaper5_2_NoMajorityNoLeader(t *testing.T) {
	c := newTestCluster(t, 5)
	for i := range 3 {
		c.procs[i].down = true
	}
	c.tick(1000)
	if c.leader() != nil {
		t.Error("a leader with 2 of 5 alive")
	}
	for _, p := range c.procs[3:] {
		if p.term > 1 {
			t.Errorf("terms grow without a majority: %v", p)
		}
	}
}

func TestPaper5_3_AppendNeedsTheEntryBefore(t *testing.T) {
	for _, test := range []struct {
		name          string
		index, term   uint64
		reject        bool
		hint, hintTrm uint64
	}{
		{"the same", 3, 2, false, 0, 0},
		{"another term there", 3, 3, true, 3, 2},
		{"nothing there", 5, 2, true, 3, 2},
		{"an older term there", 3, 1, true, 2, 1},
		{"the beginning", 0, 0, false, 0, 0},
	} {
		_, p := lone(t)
		logOf(p, 1, 1, 2)
		p.term = 4
		sent := p.step(2, Message{Kind: MsgAppendEntries, Term: 4, Index: test.index, LogTerm: test.term})
		r := sent[0]
		if r.Reject != test.reject || r.Index != test.index || r.Hint != test.hint || r.LogTerm != test.hintTrm {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}

func TestPaper5_3_ConflictingEntriesAreReplacedAndOthersKept(t *testing.T) {
	for _, test := range []struct {
		name    string
		index   uint64
		entries []uint64
		want    []uint64
	}{
		{"a conflict", 1, []uint64{3}, []uint64{1, 3}},
		{"an old message is no reason to shorten the log", 1, []uint64{2}, []uint64{1, 2, 2}},
		{"new entries", 3, []uint64{3, 3}, []uint64{1, 2, 2, 3, 3}},
		{"a heartbeat", 1, nil, []uint64{1, 2, 2}},
	} {
		_, p := lone(t)
		logOf(p, 1, 2, 2)
		p.term = 3
		before, _ := p.log.term(test.index)
		m := Message{Kind: MsgAppendEntries, Term: 3, Index: test.index, LogTerm: before}
		for i, term := range test.entries {
			m.Entries = append(m.Entries, Entry{Index: test.index + 1 + uint64(i), Term: term, Kind: EntryCommand})
		}
		p.step(2, m)
		if !slices.Equal(terms(p), test.want) {
			t.Errorf("%s: %v, expected %v", test.name, terms(p), test.want)
		}
	}
}

func TestPaper5_3_CommitFollowsTheLeaderButNotPastWhatItSent(t *testing.T) {
	_, p := lone(t)
	logOf(p, 1, 1, 1)
	p.step(2, Message{Kind: MsgAppendEntries, Term: 1, Index: 2, LogTerm: 1, Commit: 9})
	if p.commit != 2 {
		t.Errorf("committed %d, known to match are 2", p.commit)
	}
	p.step(2, Message{Kind: MsgAppendEntries, Term: 1, Index: 3, LogTerm: 1, Commit: 1})
	if p.commit != 2 {
		t.Errorf("the commit index fell to %d", p.commit)
	}
}

func TestPaper5_3_LeaderBringsEveryLogInLine(t *testing.T) {
	// The followers (a) to (f) of figure 7, with the leader's log for term 8.
	leader := []uint64{1, 1, 1, 4, 4, 5, 5, 6, 6, 6}
	for _, follower := range [][]uint64{
		{1, 1, 1, 4, 4, 5, 5, 6, 6},
		{1, 1, 1, 4},
		{1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6},
		{1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7},
		{1, 1, 1, 4, 4, 4, 4},
		{1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3},
	} {
		c := newTestCluster(t, 3)
		logOf(c.procs[0], leader...)
		logOf(c.procs[1], follower...)
		logOf(c.procs[2], leader[:4]...)
		c.procs[0].term = 7
		c.procs[0].campaign(0)
		c.procs[0].step(3, Message{Kind: MsgRequestVoteReply, Term: 8})
		c.tick(30)
		// The leader adds its Noop and Bootstrap and ServiceOpen.
		if want := append(slices.Clone(leader), 8, 8, 8); !slices.Equal(terms(c.procs[1]), want) || c.procs[0].role != RoleLeader {
			t.Errorf("follower with %v ended with %v", follower, terms(c.procs[1]))
		}
	}
}

func TestPaper5_3_ConflictIsFoundInOneStepForATerm(t *testing.T) {
	_, p := lone(t)
	long := make([]uint64, 0, 300)
	for range 100 {
		long = append(long, 1)
	}
	logOf(p, long...)
	logOf(p, 5, 5, 5)
	lead(t, p)
	sent := p.step(3, Message{Kind: MsgAppendEntriesReply, Term: p.term, Reject: true, Index: 103, Hint: 90, LogTerm: 1})
	if len(sent) != 1 || sent[0].Index != 90 {
		t.Errorf("probed %+v", sent)
	}
}

func TestPaper5_4_1_VoteNeedsALogThatIsAsUpToDate(t *testing.T) {
	for _, test := range []struct {
		index, term uint64
		grant       bool
	}{
		{3, 2, true}, {4, 2, true}, {1, 3, true},
		{2, 2, false}, {9, 1, false}, {0, 0, false},
	} {
		for _, kind := range []MessageKind{MsgPreVote, MsgRequestVote} {
			_, p := lone(t)
			logOf(p, 1, 2, 2)
			p.term = 4
			sent := p.step(2, Message{Kind: kind, Term: 5, Index: test.index, LogTerm: test.term})
			if sent[0].Reject == test.grant {
				t.Errorf("%v with (%d, %d): granted %v", kind, test.index, test.term, !sent[0].Reject)
			}
		}
	}
}

func TestPaper5_4_2_OldTermIsNotCommittedByCounting(t *testing.T) {
	// Figure 8: an entry of term 2 on a majority may still be replaced; it is committed by one of the leader's term.
	_, p := lone(t)
	logOf(p, 1, 2)
	p.term = 3
	lead(t, p)
	p.acknowledge(2, 2)
	if p.commit != 0 {
		t.Fatalf("committed %d by counting an entry of term 2 in term %d", p.commit, p.term)
	}
	p.acknowledge(2, 3)
	if p.commit != 3 {
		t.Errorf("committed %d, expected 3", p.commit)
	}
}

func TestPaper8_NewLeaderBeginsWithANoop(t *testing.T) {
	_, p := lone(t)
	logOf(p, 1)
	sent := lead(t, p)
	last, _ := p.EntryAt(p.log.last)
	if last.Kind != EntryNoop || last.Term != p.term {
		t.Errorf("the last entry is %+v", last)
	}
	if len(sent) != 2 || len(sent[0].Entries) != 1 {
		t.Errorf("sent %+v", sent)
	}
	if p.serving() || p.Propose([]byte("x")) != ErrNotServing {
		t.Error("serves before its first entry is applied")
	}
}

func TestPaper_AcknowledgementsOfOtherTermsDoNotCount(t *testing.T) {
	_, p := lone(t)
	logOf(p, 1)
	lead(t, p)
	p.step(2, Message{Kind: MsgAppendEntriesReply, Term: p.term - 1, Index: p.log.last})
	if p.commit != 0 || p.peer(testMember(2)).heard {
		t.Error("an acknowledgement of an earlier term was counted")
	}
	p.acknowledge(2, p.log.last+5)
	if p.commit != 0 || p.peer(testMember(2)).match != 0 {
		t.Error("an acknowledgement of an entry that does not exist was counted")
	}
}

func TestPaper5_5_RepeatedMessagesChangeNothing(t *testing.T) {
	_, p := lone(t)
	m := Message{Kind: MsgAppendEntries, Term: 1, Entries: []Entry{{Index: 1, Term: 1, Kind: EntryCommand, Data: []byte("a")}}, Commit: 1}
	p.step(2, m)
	p.step(2, m)
	if p.log.last != 1 || p.commit != 1 || p.applied != 1 {
		t.Errorf("after a duplicate: %v", p)
	}
}

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

func TestInputDuringDrainPanics(t *testing.T) {
	_, p := lone(t)
	p.Tick(testWall)
	p.Ready()
	for name, input := range map[string]func(){
		"Tick":    func() { p.Tick(testWall) },
		"Step":    func() { p.Step(&Message{Kind: MsgPreVote, From: testMember(2), To: p.self}) },
		"Propose": func() { _ = p.Propose(nil) },
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
