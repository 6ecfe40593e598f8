package lock

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// scriptedLog gives the verdict that it is set to, and keeps what was proposed since commands was last emptied.
type scriptedLog struct {
	verdict  Verdict
	code     wire.Busy
	verdicts []Verdict // given first, one each
	commands []Command
	answers  []Verdict // one for each of commands
}

func (l *scriptedLog) Propose(_ Time, c *Command) (Verdict, wire.Busy) {
	v := l.verdict
	if len(l.verdicts) > 0 {
		v, l.verdicts = l.verdicts[0], l.verdicts[1:]
	}
	k := *c
	k.Key = bytes.Clone(c.Key)
	l.commands = append(l.commands, k)
	l.answers = append(l.answers, v)
	if v == Refused {
		return v, l.code
	}
	return v, 0
}

// recorder keeps the replies as lines: session, op, owner, and what the op has.
type recorder struct {
	lines   []string
	replies []Reply // as they were given, with keys of their own
	foreign []string
}

func (r *recorder) Reply(s Session, p *Reply) {
	r.lines = append(r.lines, replyLine(s, p))
	k := *p
	k.Key = bytes.Clone(p.Key)
	r.replies = append(r.replies, k)
}

func replyLine(s Session, p *Reply) string {
	line := fmt.Sprintf("%d %v owner=%d", s, p.Op, p.Owner)
	switch p.Op {
	case wire.OpGranted:
		line += fmt.Sprintf(" token=%d", p.Token)
		if p.Millis > 0 {
			line += fmt.Sprintf(" after=%d", p.Millis)
		}
	case wire.OpReleased, wire.OpNotHeld:
		line += fmt.Sprintf(" token=%d", p.Token)
	case wire.OpBusy:
		line += " " + wire.Busy(p.Code).String()
	case wire.OpError:
		line += " " + wire.Failure(p.Code).String()
	}
	return line
}

func (r *recorder) ForeignRelease(s Session, key []byte, owner, token uint64, to Client) {
	r.foreign = append(r.foreign, fmt.Sprintf("%d %s owner=%d token=%d %s %s", s, key, owner, token, to.Name, to.Addr))
}

// fixture is a manager whose invariants are checked after every call.
type fixture struct {
	t    testing.TB
	m    *Manager
	log  *scriptedLog
	sink *recorder
	now  Time
}

// tokenBase is the counter that fixtures start with.
const tokenBase = 100

var roomy = Limits{Keys: 1000, Waiters: 1000, WaitersPerKey: 1000, InFlight: 1000}

func newFixture(t testing.TB, limits Limits) *fixture {
	f := &fixture{
		t: t, log: &scriptedLog{verdict: ApplyNow}, sink: &recorder{},
		now: Time{Mono: int64(time.Hour), Wall: 1_800_000_000_000},
	}
	f.m = NewManager(Config{Limits: limits, Seed: maphash.MakeSeed(), TokenBase: tokenBase, Log: f.log, Sink: f.sink})
	return f
}

// newPending returns a fixture whose log decides nothing by itself.
func newPending(t testing.TB) *fixture {
	f := newFixture(t, roomy)
	f.log.verdict = Pending
	return f
}

// check ends the batch and walks over everything.
func (f *fixture) check() {
	f.t.Helper()
	f.m.EndBatch(f.now)
	if err := f.m.CheckInvariants(); err != nil {
		f.t.Fatalf("invariants: %v", err)
	}
}

func (f *fixture) open(addr string) Session {
	f.t.Helper()
	s := f.m.OpenSession(Client{Name: "client-" + addr, Addr: addr})
	f.check()
	return s
}

func (f *fixture) close(s Session) {
	f.t.Helper()
	f.m.CloseSession(f.now, s)
	f.check()
}

const (
	testWait  = 10_000 // ms
	testLease = 30_000 // ms
)

func (f *fixture) acquire(s Session, owner uint64, key string) {
	f.t.Helper()
	f.acquireFor(s, owner, key, testWait, testLease)
}

func (f *fixture) try(s Session, owner uint64, key string) {
	f.t.Helper()
	f.acquireFor(s, owner, key, 0, testLease)
}

func (f *fixture) acquireFor(s Session, owner uint64, key string, wait, lease uint32) {
	f.t.Helper()
	f.m.Acquire(f.now, s, &wire.Request{Op: wire.OpAcquire, Wait: wait, Lease: lease, Owner: owner, Key: []byte(key)})
	f.check()
}

func (f *fixture) release(s Session, owner, token uint64, key string) {
	f.t.Helper()
	f.m.Release(f.now, s, &wire.Request{Op: wire.OpRelease, Owner: owner, Token: token, Key: []byte(key)})
	f.check()
}

func (f *fixture) withdraw(s Session, owner uint64, key string) {
	f.t.Helper()
	f.release(s, owner, 0, key)
}

// pass lets time pass and ticks.
func (f *fixture) pass(d time.Duration) {
	f.t.Helper()
	f.now.Mono += int64(d)
	f.now.Wall += d.Milliseconds()
	f.m.Tick(f.now, 1<<30)
	f.check()
}

// apply decides so many proposals, oldest first.
func (f *fixture) apply(n int) {
	f.t.Helper()
	for range n {
		if _, ok := f.m.Oldest(); !ok {
			f.t.Fatal("nothing is undecided")
		}
		f.m.ApplyOldest(f.now)
		f.check()
	}
}

func (f *fixture) lose(code wire.Busy) {
	f.t.Helper()
	f.m.Lost(f.now, code)
	f.check()
}

func (f *fixture) forget() {
	f.t.Helper()
	f.m.Unknown(f.now)
	f.check()
}

func (f *fixture) stepDown() {
	f.t.Helper()
	f.m.StepDown(f.now)
	f.check()
}

// want checks the replies since the last call, in order.
func (f *fixture) want(lines ...string) {
	f.t.Helper()
	if !slices.Equal(f.sink.lines, lines) {
		f.t.Fatalf("replies:\n  %s\nwant:\n  %s", strings.Join(f.sink.lines, "\n  "), strings.Join(lines, "\n  "))
	}
	f.sink.lines = f.sink.lines[:0]
}

// wantProposed checks the commands since the last call, in order: kind, key, and token or owner.
func (f *fixture) wantProposed(lines ...string) {
	f.t.Helper()
	var got []string
	for i := range f.log.commands {
		got = append(got, commandLine(&f.log.commands[i]))
	}
	if !slices.Equal(got, lines) {
		f.t.Fatalf("proposed:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
	f.log.commands, f.log.answers = f.log.commands[:0], f.log.answers[:0]
}

func commandLine(c *Command) string {
	switch c.Kind {
	case KindGrant:
		return fmt.Sprintf("Grant %s owner=%d", c.Key, c.Owner)
	case KindRelease:
		return fmt.Sprintf("Release %s owner=%d token=%d", c.Key, c.Owner, c.Token)
	}
	return fmt.Sprintf("Expire %s token=%d", c.Key, c.Token)
}
