package lock

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// chooser is what a run is made from: numbers below n, while ok.
type chooser interface {
	pick(n int) int
	ok() bool
}

type seeded struct {
	rnd  *rand.Rand
	left int
}

func (s *seeded) pick(n int) int { return s.rnd.IntN(n) }
func (s *seeded) ok() bool       { s.left--; return s.left >= 0 }

// script is a chooser for fuzzing.
type script []byte

func (s *script) pick(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}
func (s *script) ok() bool { return len(*s) > 0 }

// chosenLog lets the run choose its verdicts.
type chosenLog struct {
	scriptedLog
	run *modelRun
}

func (l *chosenLog) Propose(now Time, c *Command) (Verdict, wire.Busy) {
	l.verdict = l.run.verdict()
	m := l.run.m
	if id := m.table.find(m.table.hash(c.Key), c.Key); l.verdict == ApplyNow && id != 0 && m.records.at(id).pins > 0 {
		l.verdict = Pending
	}
	v, code := l.scriptedLog.Propose(now, c)
	if v == ApplyNow {
		l.run.replicate(now, c)
	}
	return v, code
}

// modelRun puts a manager, the model, and a replica that is told the commands alone through the same.
type modelRun struct {
	t       testing.TB
	c       chooser
	odds    [3]int // of Refused, Pending, ApplyNow
	m       *Manager
	log     *chosenLog
	sink    *recorder
	model   *model
	replica *Manager
	now     Time
	grants  []Reply // told lately

	snapshot      []byte // under construction
	taking        bool
	snapshotHash  uint64
	snapshotLocks []string
	trail         []string
}

func newModelRun(t testing.TB, c chooser, odds [3]int) *modelRun {
	limits := Limits{Keys: 3, Waiters: 8, WaitersPerKey: 5, InFlight: 4}
	r := &modelRun{
		t: t, c: c, odds: odds, sink: &recorder{}, model: newModel(t, limits), replica: newFollower(),
		now: Time{Mono: int64(time.Hour), Wall: 1_800_000_000_000},
	}
	r.log = &chosenLog{run: r}
	r.log.code = wire.BusyOverloaded
	r.model.code = r.log.code
	r.replica.RaiseToken(tokenBase)
	r.m = NewManager(Config{Limits: limits, Seed: maphash.MakeSeed(), TokenBase: tokenBase, Log: r.log, Sink: r.sink})
	return r
}

func (r *modelRun) verdict() Verdict {
	n := r.c.pick(r.odds[0] + r.odds[1] + r.odds[2])
	switch {
	case n < r.odds[0]:
		return Refused
	case n < r.odds[0]+r.odds[1]:
		return Pending
	}
	return ApplyNow
}

// replicate applies a command on the replica, before the manager does, which may propose more as it applies.
func (r *modelRun) replicate(now Time, c *Command) Result {
	res := r.replica.Apply(now, c, false)
	r.replica.EndBatch(now)
	return res
}

func (r *modelRun) session() Session {
	var open []Session
	for s := Session(1); s < 20; s++ {
		if r.model.sessions[s] {
			open = append(open, s)
		}
	}
	if len(open) == 0 || len(open) < 4 && r.c.pick(20) == 0 {
		s := r.m.OpenSession(Client{Addr: fmt.Sprintf("10.0.0.%d:1", r.c.pick(2))})
		for _, k := range r.model.keys {
			if k.holder != nil && k.holder.session == s {
				r.t.Fatalf("session %d is used again, and holds a key", s)
			}
		}
		if r.model.sessions[s] {
			r.t.Fatalf("session %d is opened twice", s)
		}
		r.model.sessions[s] = true
		return s
	}
	return open[r.c.pick(len(open))]
}

var modelKeys = []string{"a", "bb", strings.Repeat("c", 20), strings.Repeat("d", 21), strings.Repeat("e", 128)}

// request makes an acquire, a release or a withdrawal that has a chance to be right.
func (r *modelRun) request() *wire.Request {
	q := &wire.Request{
		Owner: uint64(1 + r.c.pick(6)), Key: []byte(modelKeys[r.c.pick(len(modelKeys))]),
		Wait: []uint32{0, 1, 20, 3000, wire.MaxWaitMillis}[r.c.pick(5)], Lease: []uint32{1000, 1001, 5000, 250_000, 10}[r.c.pick(5)],
	}
	switch r.c.pick(8) {
	case 0:
		q.Token = tokenBase + uint64(r.c.pick(4)) // mostly old
	case 1:
		q.Token = r.model.counter + uint64(r.c.pick(3)) // mostly unseen
	case 2:
		q.Owner = uint64(r.c.pick(2)) * 7
	default:
		if len(r.grants) > 0 {
			g := r.grants[len(r.grants)-1-r.c.pick(min(len(r.grants), 5))]
			q.Owner, q.Token, q.Key = g.Owner, g.Token, g.Key
		}
	}
	return q
}

// step does one thing to both and compares.
func (r *modelRun) step() {
	r.log.commands, r.log.answers = nil, nil
	r.sink.lines, r.sink.replies = nil, nil
	ordered := true
	var play func() // on the model
	now := r.now
	switch n := r.c.pick(40); {
	case n < 12:
		s, q := r.session(), r.request()
		r.note("acquire %d %d %s wait %d lease %d", s, q.Owner, q.Key, q.Wait, q.Lease)
		r.m.Acquire(now, s, q)
		play = func() { r.model.acquire(now, s, q) }
	case n < 20:
		s, q := r.session(), r.request()
		r.note("release %d %d %s token %d", s, q.Owner, q.Key, q.Token)
		r.m.Release(now, s, q)
		play = func() { r.model.release(now, s, q) }
	case n < 22:
		s, q := r.session(), r.request()
		q.Token = 0
		if len(r.model.waiters) > 0 {
			w := r.model.waiters[r.c.pick(len(r.model.waiters))]
			q.Owner, q.Key = w.owner, []byte(w.key)
			if w.session != 0 {
				s = w.session
			}
		}
		r.note("withdraw %d %d %s", s, q.Owner, q.Key)
		r.m.Release(now, s, q)
		play = func() { r.model.release(now, s, q) }
	case n < 26:
		millis := []int{0, 1, 5, 100, 1500, 300_000}[r.c.pick(6)]
		r.now.Mono += int64(millis)*1_000_000 + int64(r.c.pick(250))*10_000
		r.now.Wall += int64(millis)
		now = r.now
		r.note("tick at %d", now.Mono)
		r.m.Tick(now, 1<<30)
		r.replica.Tick(now, 1<<30)
		ordered = false
		play = func() { r.model.tick(now) }
	case n < 27:
		s := r.session()
		r.note("close %d", s)
		r.m.CloseSession(now, s)
		play = func() { r.model.close(now, s) }
	case n < 29 && len(r.grants) > 0:
		g := r.grants[r.c.pick(len(r.grants))]
		r.note("take back %s token %d", g.Key, g.Token)
		r.m.TakeBack(now, g.Ref, g.Token)
		play = func() { r.model.takeBack(now, string(g.Key), g.Token) }
	case n < 31:
		ordered = false
		play = r.changeMode(now)
	case n < 33 && !r.model.leading:
		q := r.request()
		c := Command{Kind: Kind(1 + r.c.pick(3)), Key: q.Key, Owner: q.Owner, Token: q.Token, LeaseMillis: 3000, GrantedAt: now.Wall}
		r.note("apply %s", commandLine(&c))
		replicated := r.replicate(now, &c)
		res := r.m.Apply(now, &c, false)
		play = func() {
			if want := r.model.apply(now, c); res != want || replicated != want {
				r.t.Fatalf("result %+v, the replica's %+v, want %+v", res, replicated, want)
			}
		}
	case n < 35:
		play = r.snap(now)
	default:
		play = r.decide(now)
	}
	r.m.EndBatch(now)
	r.model.commands, r.model.answers = r.log.commands, r.log.answers
	r.model.replies = nil
	play()
	r.model.endBatch(now)
	r.compare(ordered)
}

func (r *modelRun) note(format string, args ...any) {
	r.trail = append(r.trail, fmt.Sprintf(format, args...))
	if len(r.trail) > 40 {
		r.trail = r.trail[1:]
	}
}

// decide decides the oldest proposal, mostly to its good.
func (r *modelRun) decide(now Time) (play func()) {
	c, ok := r.m.Oldest()
	if ok != (len(r.model.pending) > 0) {
		r.t.Fatalf("oldest: %v, want %d", ok, len(r.model.pending))
	}
	if !ok {
		return func() {}
	}
	if !sameCommand(c, &r.model.pending[0].c) {
		r.t.Fatalf("the oldest is %+v, want %+v", c, r.model.pending[0].c)
	}
	k := *c
	k.Key = slices.Clone(c.Key)
	f := [10]fate{8: lost, 9: unknown}[r.c.pick(10)]
	r.note("decide %d %s", f, commandLine(&k))
	var res, replicated Result
	switch f {
	case lost:
		r.m.Lost(now, wire.BusyNoLeader)
	case unknown:
		r.m.Unknown(now)
	default:
		replicated = r.replicate(now, &k)
		res = r.m.Apply(now, &k, true)
	}
	return func() {
		code := wire.BusyNoLeader
		if f == unknown {
			code = wire.BusyNotLeader
		}
		if want := r.model.decide(now, f, code); res != want || replicated != want {
			r.t.Fatalf("result %+v, the replica's %+v, want %+v", res, replicated, want)
		}
	}
}

func (r *modelRun) changeMode(now Time) (play func()) {
	n := r.c.pick(8)
	switch {
	case n == 0 && r.odds[1] > 0 && r.model.leading:
		r.note("step down")
		r.m.StepDown(now)
		return func() { r.model.stepDown(now) }
	case n == 1:
		r.note("drain")
		r.m.Drain(now)
		return func() {
			r.model.refuse = wire.BusyShuttingDown
			r.model.refuseQueued(now, wire.BusyShuttingDown)
		}
	case n == 2:
		r.note("recovering")
		r.m.Refuse(wire.BusyRecovering)
		return func() { r.model.refuse = wire.BusyRecovering }
	case n < 6:
		r.note("serve")
		r.m.Refuse(0)
		return func() { r.model.refuse = 0 }
	case !r.model.leading && len(r.model.pending) == 0:
		r.note("lead")
		r.m.Lead(now)
		return func() { r.model.leading, r.model.retryAt = true, now.Mono }
	}
	return func() {}
}

// snap begins, continues or finishes a snapshot.
func (r *modelRun) snap(now Time) (play func()) {
	r.note("snapshot")
	if !r.taking {
		r.m.BeginSnapshot(now)
		r.snapshot, r.taking = nil, true
		r.snapshotHash, r.snapshotLocks = r.m.StateHash(), locks(r.m)
	}
	r.snapshot, r.taking = r.m.AppendSnapshot(r.snapshot, 1)
	if !r.taking {
		g := newFollower()
		if err := g.RestoreSnapshot(now, r.snapshot); err != nil {
			r.t.Fatal(err)
		}
		if g.StateHash() != r.snapshotHash || !slices.Equal(locks(g), r.snapshotLocks) {
			r.t.Fatalf("restored %q, want %q", locks(g), r.snapshotLocks)
		}
	}
	return func() {}
}

func (r *modelRun) compare(ordered bool) {
	got, want := r.sink.lines, r.model.replies
	if !ordered {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("replies:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	if len(r.model.commands) > 0 {
		r.t.Fatalf("proposed %s", commandLine(&r.model.commands[0]))
	}
	keys, _ := r.m.Keys(r.now, nil, &KeysQuery{})
	var lines []string
	for _, k := range keys {
		s := Session(0)
		if k.Here {
			s = r.m.records.at(r.m.table.find(r.m.table.hash([]byte(k.Key)), []byte(k.Key))).session
		}
		lines = append(lines, fmt.Sprintf("%s owner=%d token=%d at=%d session=%d due=%d waiters=%d",
			k.Key, k.Owner, k.Token, k.GrantedAt, s, uint64(k.LeaseEnd)>>tickShift, k.Waiters))
	}
	slices.Sort(lines)
	if want := r.model.describe(); !slices.Equal(lines, want) {
		r.t.Fatalf("held:\n  %s\nwant:\n  %s", strings.Join(lines, "\n  "), strings.Join(want, "\n  "))
	}
	stats := r.m.Stats()
	if stats.LastToken != r.model.counter || stats.Pending != len(r.model.pending) {
		r.t.Fatalf("last token %d, %d pending, want %d and %d", stats.LastToken, stats.Pending, r.model.counter, len(r.model.pending))
	}
	if r.replica.StateHash() != r.m.StateHash() {
		r.t.Fatalf("the replica holds %q, not %q", locks(r.replica), locks(r.m))
	}
	deadline := int64(1<<63 - 1)
	if tick, _, _ := r.model.next(); tick < 1<<40 {
		deadline = int64(tick << tickShift)
	}
	if r.model.leading && len(r.model.postponed()) > 0 {
		deadline = min(deadline, r.model.retryAt)
	}
	if got := r.m.NextDeadline(); got > max(deadline, r.now.Mono) || deadline == 1<<63-1 && got != deadline {
		r.t.Fatalf("the next deadline is %d, want %d", got, deadline)
	}
	for _, p := range r.sink.replies {
		if p.Op == wire.OpGranted {
			r.grants = append(r.grants, p)
		}
	}
	if n := len(r.grants); n > 10 {
		r.grants = r.grants[n-10:]
	}
}

func (r *modelRun) check() {
	if err := r.m.CheckInvariants(); err != nil {
		r.t.Fatal(err)
	}
}

// run takes steps until the chooser ends it, and checks the invariants after each so many.
func (r *modelRun) run(each int) {
	defer func() {
		if r.t.Failed() {
			r.t.Logf("the last steps:\n  %s", strings.Join(r.trail, "\n  "))
		}
	}()
	for n := 1; r.c.ok(); n++ {
		r.step()
		if n%each == 0 {
			r.check()
		}
	}
	r.check()
	if err := r.replica.CheckInvariants(); err != nil {
		r.t.Fatalf("the replica: %v", err)
	}
}

// TestManagerAgainstNaiveModel runs random operations through both. A failing seed prints itself, and fails again.
func TestManagerAgainstNaiveModel(t *testing.T) {
	for name, odds := range map[string][3]int{
		"applied at once": {0, 0, 1}, "decided later": {0, 1, 0}, "decided later or refused": {1, 4, 0}, "mixed": {1, 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					newModelRun(t, &seeded{rand.New(rand.NewPCG(seed, 0)), 1000}, odds).run(1)
				})
			}
		})
	}
}

// FuzzOperations is the same with operations that the fuzzer chooses.
func FuzzOperations(f *testing.F) {
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		f.Add(byte(seed), b)
	}
	f.Fuzz(func(t *testing.T, mode byte, b []byte) {
		if len(b) > 2000 {
			return
		}
		odds := [][3]int{{0, 0, 1}, {0, 1, 0}, {1, 4, 0}, {1, 4, 4}}[mode%4]
		newModelRun(t, (*script)(&b), odds).run(20)
	})
}
