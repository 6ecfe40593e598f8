package raft

import (
	"math/rand/v2"
	"testing"
)

func TestWindowAgainstList(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var w window
	var list []inflight
	last := uint64(0)
	for range 20_000 {
		switch rng.IntN(10) {
		case 0:
			w.clear()
			list = nil
		case 1, 2, 3, 4:
			match := last - min(last, rng.Uint64N(20))
			w.acknowledge(match)
			for len(list) > 0 && list[0].last <= match {
				list = list[1:]
			}
		default:
			last += 1 + rng.Uint64N(3)
			m := inflight{last: last, bytes: rng.IntN(100)}
			w.add(m.last, m.bytes)
			list = append(list, m)
		}
		sum := 0
		for _, m := range list {
			sum += m.bytes
		}
		if w.count != len(list) || w.bytes != sum || w.full(3, 200) != (len(list) >= 3 || sum >= 200) {
			t.Fatalf("window has %d messages and %d bytes, the list %d and %d", w.count, w.bytes, len(list), sum)
		}
	}
}

// pipelining returns a leader whose member 2 is in stateReplicate and acknowledges nothing from now on.
func pipelining(t *testing.T, options ...func(*Config)) (*testCluster, *process) {
	t.Helper()
	c, l := serving(t, 3, options...)
	if l.peer(testMember(2)).state != stateReplicate {
		t.Fatal("member 2 is not fed ahead")
	}
	c.drop = isolate(testMember(2))
	return c, l
}

func sentTo(c *testCluster, m Member, entries bool) int {
	total := 0
	for i := range c.queue {
		if c.queue[i].To == m && c.queue[i].Kind == MsgAppendEntries && (len(c.queue[i].Entries) > 0) == entries {
			total++
		}
	}
	return total
}

func TestEntriesAreSentAheadOfTheirAcknowledgement(t *testing.T) {
	c, l := pipelining(t)
	for range 10 {
		c.propose(l, "x")
	}
	if got := sentTo(c, testMember(2), true); got != 10 {
		t.Errorf("%d messages on their way, expected 10", got)
	}
}

func TestBatchIsWhatIsQueued(t *testing.T) {
	c, l := pipelining(t)
	for range 500 {
		if err := l.Propose([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	c.drain(l)
	if got := sentTo(c, testMember(2), true); got != 1 {
		t.Errorf("500 proposals of one batch took %d messages", got)
	}
}

func TestWindowBoundsWhatIsOnItsWay(t *testing.T) {
	for name, test := range map[string]struct {
		option func(*Config)
		want   int
	}{
		"messages": {func(cfg *Config) { cfg.WindowMessages = 5 }, 5},
		"bytes":    {func(cfg *Config) { cfg.WindowBytes = 4 * (100 + entryOverhead) }, 4},
	} {
		c, l := pipelining(t, test.option)
		for range 20 {
			c.propose(l, string(make([]byte, 100)))
		}
		if got := sentTo(c, testMember(2), true); got != test.want {
			t.Errorf("%s: %d messages on their way, allowed are %d", name, got, test.want)
		}
		// A full window does not stop heartbeats, and what was lost is found by them.
		c.queue = nil
		c.tick(10)
		c.drop = nil
		c.until(60, "member 2 is up to date", func() bool { return c.converged() })
	}
}

func TestLostMessageIsSentAgain(t *testing.T) {
	c, l := serving(t, 3)
	lost := 0
	c.drop = func(m *Message) bool {
		if m.To == testMember(2) && len(m.Entries) > 0 && lost < 3 {
			lost++
			return true
		}
		return false
	}
	for range 10 {
		c.propose(l, "x")
		c.deliver()
	}
	c.until(30, "member 2 is up to date", func() bool { return lost == 3 && c.converged() })
}

func TestSilentMemberIsNotSentTheSameEntriesAgainAndAgain(t *testing.T) {
	c, l := pipelining(t)
	l.becomeFollower(l.term, Member{})
	l.campaign(0)
	l.step(3, Message{Kind: MsgRequestVoteReply, Term: l.term})
	c.queue = nil
	for range 100 {
		l.Tick(c.wall)
		l.step(3, Message{Kind: MsgAppendEntriesReply, Term: l.term, Index: l.log.last})
		c.drain(l)
	}
	if got := sentTo(c, testMember(2), true); got > 1 {
		t.Errorf("a member that does not answer was sent entries %d times", got)
	}
}

func TestRegressedAcknowledgementLowersNothing(t *testing.T) {
	c, l := serving(t, 3)
	c.propose(l, "x")
	c.deliver()
	p := l.peer(testMember(2))
	match := p.match
	l.step(2, Message{Kind: MsgAppendEntriesReply, Term: l.term, Index: 1})
	l.step(2, Message{Kind: MsgAppendEntriesReply, Term: l.term, Index: 2, Reject: true})
	if p.match != match || p.next <= match {
		t.Errorf("match %d, was %d; next %d", p.match, match, p.next)
	}
}
