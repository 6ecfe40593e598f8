package raft

import (
	"fmt"
	"slices"
	"testing"
)

// One test for each rule of the Raft paper ("In Search of an Understandable Consensus Algorithm", extended version). The
// section is in the name.

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
