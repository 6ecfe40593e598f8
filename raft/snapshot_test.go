package raft

import (
	"fmt"
	"slices"
	"testing"
)

func small(cfg *Config) { cfg.LogBytes = 64 << 10; cfg.MaxMessageBytes = 40 << 10 }

// fill makes the leader apply count commands of 1 KiB.
func fill(c *testCluster, l *process, count int) {
	for i := range count {
		c.propose(l, fmt.Sprintf("%01024d", i))
		c.deliver()
	}
	c.tick(1)
}

// behind returns a cluster whose member 3 is cut off and needs a snapshot.
func behind(t *testing.T, options ...func(*Config)) (*testCluster, *process, *process) {
	t.Helper()
	c := newTestCluster(t, 3, append([]func(*Config){small}, options...)...)
	l := c.procs[0]
	c.elect(l)
	c.tick(20)
	c.drop = isolate(testMember(3))
	fill(c, l, 300)
	if l.log.base <= c.procs[2].log.last {
		t.Fatal("the log still reaches back to member 3")
	}
	return c, l, c.procs[2]
}

func count(p *process, kind EventKind) int {
	total := 0
	for _, e := range p.events {
		if e.Kind == kind {
			total++
		}
	}
	return total
}

func TestSnapshotBringsAFollowerUpToDate(t *testing.T) {
	for _, slow := range []int{0, 7} {
		c, l, f := behind(t)
		l.app.slow = slow
		c.drop = nil
		c.until(200, "member 3 is up to date", func() bool { return c.converged() })
		if count(f, EventSnapshotInstalled) != 1 || count(l, EventSnapshotStarted) != 1 {
			t.Errorf("%d installed, %d begun", count(f, EventSnapshotInstalled), count(l, EventSnapshotStarted))
		}
		fill(c, l, 10)
		c.tick(20)
		if !c.converged() {
			t.Error("entries after the snapshot do not arrive")
		}
	}
}

func TestSnapshotKeepsTheEntriesThatFollowIt(t *testing.T) {
	c, l, _ := behind(t)
	// The snapshot is on its way, one chunk at a time; meanwhile far more is written than the log's bound.
	c.drop = func(m *Message) bool { return m.Kind == MsgInstallSnapshotReply && m.Offset > 100_000 }
	c.tick(15)
	fill(c, l, 200)
	if l.log.bytes < 150<<10 {
		t.Fatalf("the log holds %d bytes while a snapshot is on its way", l.log.bytes)
	}
	c.drop = nil
	c.until(60, "member 3 is up to date", func() bool { return c.converged() })
	if got := count(l, EventSnapshotStarted); got != 1 {
		t.Errorf("%d snapshots", got)
	}
	c.tick(5)
	if l.log.bytes > 64<<10+2*maxSegmentBytes {
		t.Errorf("the log holds %d bytes afterwards", l.log.bytes)
	}
}

func TestSnapshotAttemptsAreBounded(t *testing.T) {
	c, l, _ := behind(t, func(cfg *Config) { cfg.RetainBytes = 256 << 10 })
	c.drop = func(m *Message) bool { return m.Kind == MsgInstallSnapshot }
	var at []uint64
	held := 0
	for range 12_000 {
		before := count(l, EventSnapshotStarted)
		c.tick(1)
		if count(l, EventSnapshotStarted) > before {
			at = append(at, l.now)
		}
		if l.state().HoldBack {
			held++
		}
	}
	// An attempt ends after 50 ticks without an acknowledgement; then it waits 1, 2, 4 ... 30 s.
	var gaps []uint64
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i]-at[i-1])
	}
	if want := []uint64{150, 250, 450, 850, 1650, 3050, 3050}; len(gaps) < 7 || !slices.Equal(gaps[:7], want) {
		t.Errorf("attempts %v ticks apart, expected %v", gaps, want)
	}
	// From the third on, while it lasts (50 ticks each).
	if want := 50 * (len(at) - 2); held < want-60 || held > want {
		t.Errorf("acquires were held back for %d ticks in %d attempts", held, len(at))
	}
}

func TestSnapshotEndsWhenTheLogGrowsPastItsBound(t *testing.T) {
	c, l, _ := behind(t, func(cfg *Config) { cfg.RetainBytes = 256 << 10 })
	c.drop = func(m *Message) bool { return m.Kind == MsgInstallSnapshotReply }
	c.tick(12)
	fill(c, l, 400)
	if l.log.bytes > 256<<10+2*maxSegmentBytes {
		t.Errorf("the log holds %d bytes", l.log.bytes)
	}
	if count(l, EventSnapshotEnded) != 1 {
		t.Errorf("%d attempts ended", count(l, EventSnapshotEnded))
	}
}

func TestSnapshotChunksOfTwoAttemptsDoNotMix(t *testing.T) {
	_, p := lone(t)
	state := sampleState()
	state.Registry.Domain = testDomain
	chunk := func(attempt uint32, offset uint64, data string, last bool) Message {
		m := Message{
			Kind: MsgInstallSnapshot, Term: 7, Index: state.Index, LogTerm: state.Term,
			Attempt: attempt, Offset: offset, Data: []byte(data), Last: last,
		}
		if offset == 0 {
			m.Raft = AppendSnapshotState(nil, state)
		}
		return m
	}
	if r := p.step(2, chunk(1, 0, "\x00\x04ab", false)); r[0].Reject || r[0].Offset != 4 {
		t.Fatalf("first chunk: %+v", r)
	}
	if r := p.step(2, chunk(2, 4, "cd", true)); !r[0].Reject {
		t.Errorf("the middle of another attempt: %+v", r)
	}
	if r := p.step(2, chunk(1, 4, "cd", true)); !r[0].Reject {
		t.Errorf("the rest of an attempt that was given up: %+v", r)
	}
	p.step(2, chunk(3, 0, "\x00\x04ab", false))
	if r := p.step(2, chunk(3, 0, "\x00\x04ab", false)); r[0].Reject || r[0].Offset != 4 {
		t.Errorf("a duplicate chunk: %+v", r)
	}
	if r := p.step(2, chunk(3, 4, "cd", true)); !r[0].Last || p.applied != state.Index {
		t.Errorf("the last chunk: %+v, %v", r, p)
	}
	if string(p.app.commands[0]) != "abcd" || !p.confs.current().conf.Equal(state.Configuration) {
		t.Errorf("installed %q in %+v", p.app.commands, p.confs.current())
	}
	if r := p.step(2, chunk(4, 0, "", true)); !r[0].Last || count(p, EventSnapshotInstalled) != 1 {
		t.Errorf("a snapshot of what is there: %+v", r)
	}
}

func TestSnapshotOfAnotherDomainIsRefused(t *testing.T) {
	_, p := lone(t)
	state := sampleState()
	state.Registry.Domain = Domain{'x'}
	r := p.step(2, Message{Kind: MsgInstallSnapshot, Term: 7, Index: state.Index, LogTerm: state.Term, Raft: AppendSnapshotState(nil, state), Last: true})
	if !r[0].Reject || p.applied != 0 {
		t.Errorf("answered %+v", r)
	}
}

func TestSnapshotKeepsALogThatAgrees(t *testing.T) {
	_, p := lone(t)
	long := slices.Repeat([]uint64{6}, 45)
	logOf(p, long...)
	state := sampleState() // of index 40, term 6
	r := p.step(2, Message{Kind: MsgInstallSnapshot, Term: 7, Index: 40, LogTerm: 6, Raft: AppendSnapshotState(nil, state), Last: true})
	if !r[0].Last || p.log.last != 45 || p.commit != 40 || p.applied != 40 {
		t.Errorf("%+v, %v", r, p)
	}
	_, q := lone(t)
	logOf(q, slices.Repeat([]uint64{5}, 45)...)
	q.step(2, Message{Kind: MsgInstallSnapshot, Term: 7, Index: 40, LogTerm: 6, Raft: AppendSnapshotState(nil, state), Last: true})
	if q.log.last != 40 || q.applied != 40 {
		t.Errorf("a log that differs was kept: %v", q)
	}
}

func TestLearnerWithoutStateAcceptsNothingButASnapshot(t *testing.T) {
	c := newTestCluster(t, 3)
	p := c.start(testMember(4), nil)
	r := p.step(1, Message{Kind: MsgAppendEntries, Term: 1, Commit: 9, Entries: []Entry{{Index: 1, Term: 1}}})
	if !r[0].Reject || !r[0].NeedSnapshot || p.log.last != 0 || p.commit != 0 {
		t.Errorf("answered %+v, %v", r, p)
	}
}

// TestSnapshotWhileJoint: member 3 was cut off, and is sent a snapshot whose configuration is joint.
func TestSnapshotWhileJoint(t *testing.T) {
	c, l, f := behind(t)
	c.tick(60) // member 3 counts as dead
	newcomer := testMember(4)
	c.control(&Control{Kind: ControlPrepare, Seat: 2, PeerAddr: "n4:5325", ExpiresMillis: c.wall + 60_000})
	c.start(newcomer, nil)
	final := func(m *Message) bool {
		for _, e := range m.Entries {
			if e.Kind == EntryControl && ControlKind(e.Data[0]) == ControlFinal {
				return true
			}
		}
		return false
	}
	// Nobody gets the final entry, so that it is not committed.
	c.drop = func(m *Message) bool { return isolate(f.self)(m) || final(m) }
	c.control(&Control{Kind: ControlAdmit, Seat: 2, Newcomer: newcomer, Credential: CredentialID{'j'}, PeerAddr: "n4:5325"})
	c.until(100, "joint is applied, final appended", func() bool {
		return l.registry.Replacement != nil && l.registry.Replacement.Joint && !l.confs.current().conf.Joint()
	})
	c.drop = final
	c.until(200, "member 3 has a snapshot", func() bool { return count(f, EventSnapshotInstalled) == 1 })
	if at := f.confs.current(); !at.conf.Joint() || !at.conf.IsVoter(newcomer) || !at.conf.IsVoter(testMember(2)) || !f.registry.Replacement.Joint {
		t.Fatalf("in force after the snapshot: %+v", at)
	}
	c.drop = nil
	c.until(100, "final", c.settled(2, newcomer))
	c.tick(20)
	if at := f.confs.current(); at.conf.Joint() || at.conf.IsVoter(testMember(2)) || f.registry.Replacement != nil {
		t.Errorf("in force after the final entry: %+v", at)
	}
}
