package main

import (
	"syscall"
	"testing"
	"time"

	"ticketing.internal/raft"
)

// A new leader may not know yet that an entry in its log was committed, and its client told so, in the reign before. It serves nobody
// before it knows: T for a lock that was given back would be untrue.
func TestChaosLeaderBeforeItsNoop(t *testing.T) {
	c := startGatedCluster(t, 3)
	l, leader := c.load(), c.leader()
	heir, third := c.others(leader)[0], c.others(leader)[1]
	l.progress()
	conn, err := dialFrames(nil, leader.client, c.history.now)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a := newAuditor(c.history, "reign", testTime)
	for range 2 {
		a.mustRound(t, conn, moveAcquire)
		a.mustRound(t, conn, moveRelease)
	}
	a.mustRound(t, conn, moveAcquire)

	// The leader and its heir alone record what comes now, and the heir is not told that both have.
	told := uint64(0)
	leaderID, heirID, thirdID := leader.firstID(), heir.firstID(), third.firstID()
	c.gates.set(func(l *letter) bool {
		m := l.message
		if m.Kind == raft.MsgAppendEntries && l.to == heirID {
			if told == 0 {
				told = m.Commit
			}
			m.Commit, l.edited = min(m.Commit, told), true
		}
		return l.to != thirdID || m.Kind != raft.MsgAppendEntries || len(m.Entries) == 0
	})
	l.progress()
	a.mustRound(t, conn, moveRelease)
	for i := range a.ledgers {
		if a.ledgers[i].grant != nil {
			t.Fatalf("%s was not given back", a.ledgers[i].key)
		}
	}

	// Then nobody hears of the leader any more, and the heir is elected, and hears of nobody that has its Noop.
	c.gates.set(func(l *letter) bool {
		m := l.message
		vote := m.Kind == raft.MsgPreVote || m.Kind == raft.MsgRequestVote
		return l.from != leaderID && l.to != leaderID && !(m.Kind == raft.MsgAppendEntriesReply && l.to == heirID) && !(vote && l.to == heirID)
	})
	leads := func() bool {
		v, ok := c.view(heir)
		if ok && v.Role == "leader" && v.Ready {
			t.Fatal("the heir serves before its Noop is committed")
		}
		return ok && v.Role == "leader"
	}
	eventually(t, "the heir to lead", leads)
	for until := c.history.now() + time.Second; c.history.now() < until; pause(20 * time.Millisecond) {
		leads()
		early, err := dialFrames(nil, heir.client, c.history.now)
		if err != nil {
			continue // it does not serve
		}
		a.round(early, func(*ledger) move { return moveAcquire })
		early.Close()
	}
	c.gates.set(nil)
	l.progress()
	c.audit(a)
	c.finish()
}

// mustRound makes the same move with each key and expects that it succeeds.
func (a *auditor) mustRound(t *testing.T, conn *frameConn, m move) {
	t.Helper()
	elsewhere, err := a.round(conn, func(*ledger) move { return m })
	if elsewhere || err != nil {
		t.Fatalf("a leader that serves does not answer: %v", err)
	}
}

// A leader that stood still does not know of the locks that others granted meanwhile, and must not deny them.
func TestChaosUnknownToken(t *testing.T) {
	c := startChaosCluster(t, 3)
	leader := c.leader()
	var old []*frameConn
	for range 8 {
		conn, err := dialFrames(nil, leader.client, c.history.now)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		old = append(old, conn)
	}
	leader.freeze()
	all := c.nodes
	c.nodes = c.others(leader)
	present, err := dialFrames(nil, c.leader().client, c.history.now)
	if err != nil {
		t.Fatal(err)
	}
	defer present.Close()
	var auditors []*auditor
	var late [][]*asked
	for _, conn := range old {
		a := newAuditor(c.history, "unknown", testTime)
		a.mustRound(t, present, moveAcquire)
		var list []*asked
		for i := range a.ledgers {
			list = append(list, a.requests(&a.ledgers[i], moveRelease)...)
		}
		if err := conn.send(list); err != nil {
			t.Fatal(err)
		}
		auditors, late = append(auditors, a), append(late, list)
	}
	leader.process.signal(syscall.SIGCONT)
	for n, a := range auditors {
		if err := old[n].await(late[n], testTime); err != nil {
			t.Fatal(err)
		}
		for i := range a.ledgers {
			a.judge(&a.ledgers[i], moveRelease, late[n][i:i+1])
		}
	}
	c.nodes = all
	c.awaitReady(c.nodes...)
	for _, a := range auditors {
		c.audit(a)
	}
	c.finish()
}
