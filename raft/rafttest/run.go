package rafttest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
)

// Failure is a broken invariant.
type Failure struct {
	Rule string // which
	Text string
	At   time.Duration
}

func (f *Failure) Error() string { return fmt.Sprintf("%s at %v: %s", f.Rule, f.At, f.Text) }

// Result is the outcome of a run.
type Result struct {
	Seed    uint64
	Failure *Failure // nil: everything held
	Cover   Cover
	Events  int
	Hash    uint64 // of everything that the checker saw: equal runs have equal hashes
}

// RunConfig says how a seed is run.
type RunConfig struct {
	Faults Faults
	Only   []int     // indices of the schedule's actions to keep; nil: all
	Log    io.Writer // gets a line for each step
	// OutcomesOnly lets pass what breaks a rule but does no visible harm: it shows whether the schedules reach the harm
	// that a rule prevents, and not only the rule.
	OutcomesOnly bool
}

// sim is one run.
type sim struct {
	seed     uint64
	opt      options
	faults   Faults
	schedule []action
	rng      struct{ workload, operator, identity *rand.Rand }
	log      io.Writer
	outcomes bool // see RunConfig.OutcomesOnly

	now           time.Duration
	queue         queue
	hosts         []*host
	procs         []*process // every process that ever was, by id
	byIncarnation map[raft.Incarnation]*process
	network       *network
	healed        int // how often all cuts ended
	domain        domain
	acquires      []*acquire
	occurred      [triggers]int
	calmed        bool // the second phase
	done          bool
	check         *checker
	cover         Cover
	events        int

	scratch  raft.Message // the message being received
	applying lock.Command // the command being applied
	buffer   []byte       // the proposal being encoded
}

// maxEvents ends a run that does not come to rest.
const maxEvents = 3_000_000

// Run runs one seed.
func Run(seed uint64, c RunConfig) Result {
	s := newSim(seed, c)
	failure := s.runGuarded()
	return Result{Seed: seed, Failure: failure, Cover: s.cover, Events: s.events, Hash: s.check.hash}
}

func newSim(seed uint64, c RunConfig) *sim {
	opt := drawOptions(seed)
	s := &sim{seed: seed, opt: opt, faults: c.Faults, log: c.Log, outcomes: c.OutcomesOnly, schedule: drawSchedule(seed, opt), byIncarnation: map[raft.Incarnation]*process{}}
	if c.Only != nil {
		kept := make([]action, len(c.Only))
		for i, index := range c.Only {
			kept[i] = s.schedule[index]
		}
		s.schedule = kept
	}
	s.rng.workload, s.rng.operator, s.rng.identity = stream(seed, "workload"), stream(seed, "operator"), stream(seed, "identity")
	s.check = newChecker(s)
	machines := stream(seed, "machines")
	for i := range opt.size + opt.spares {
		h := &host{index: i, addr: fmt.Sprintf("m%d:5325", i)}
		if opt.wallSkew > 0 {
			h.wallSkew = time.Duration(machines.Int64N(int64(2*opt.wallSkew))) - opt.wallSkew
		}
		if opt.clockPPM > 0 {
			h.clockPPM = machines.IntN(2*opt.clockPPM) - opt.clockPPM
		}
		s.hosts = append(s.hosts, h)
	}
	s.network = newNetwork(s, len(s.hosts))
	return s
}

// runGuarded runs to the end and turns a broken invariant, or a panic of what is tested, into a Failure.
func (s *sim) runGuarded() (failure *Failure) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Failure:
			failure = e
		default:
			failure = &Failure{Rule: "panic", Text: fmt.Sprintf("%v\n%s", e, debug.Stack()), At: s.now}
		}
	}()
	s.begin()
	s.loop()
	return nil
}

// begin starts the first domain and lays out what will happen at fixed times.
func (s *sim) begin() {
	s.newDomain(false)
	for _, h := range s.hosts[:s.opt.size] {
		s.after(time.Duration(s.rng.operator.Int64N(int64(time.Second))), func() {
			if h.running == nil {
				s.start(h)
			}
		})
	}
	for i := range s.schedule {
		if a := &s.schedule[i]; a.on == whenTime {
			s.after(a.delay, func() { s.act(a, nil) })
		}
	}
	s.after(3*time.Second, s.work)
	s.after(s.opt.chaos, s.heal)
}

func (s *sim) loop() {
	for !s.done {
		e, ok := s.queue.pop()
		if !ok {
			return
		}
		s.now = e.at
		switch {
		case e.packet != nil:
			s.network.arrive(e.packet)
		case e.tick != nil:
			if e.tick.alive {
				e.tick.scheduleTick()
				e.tick.tick()
			}
		default:
			e.do()
		}
		if s.events++; s.events == maxEvents {
			s.fail("comes to rest", "%d events and no end", s.events)
		}
	}
}

// after lets f happen when span has passed.
func (s *sim) after(span time.Duration, f func()) { s.queue.push(event{at: s.now + span, do: f}) }

// startMillis is the wall clock when a run begins, epochMillis that of token base 0 (docs/semantics.md, Tokens over restarts).
const startMillis, epochMillis = 1_790_000_000_000, 1_767_225_600_000

// wallAt is the wall clock of a machine in Unix milliseconds.
func (s *sim) wallAt(h *host) int64 { return startMillis + (s.now + h.wallSkew).Milliseconds() }

// fail ends the run: the rule is broken.
func (s *sim) fail(rule, format string, args ...any) {
	if s.outcomes && !isOutcome(rule) {
		return
	}
	panic(&Failure{Rule: rule, Text: fmt.Sprintf(format, args...), At: s.now})
}

// isOutcome reports whether to break the rule is a harm of itself, as seen by clients or operators.
func isOutcome(rule string) bool {
	switch rule {
	case "election safety", "leader completeness", "log matching", "state machine safety", "committed stays", "mutual exclusion",
		"tokens grow", "answers are final", "granted means committed", "lock table", "progress", "no election storm",
		"rolling restart", "proposals", "codec", "one answer", "memory bound", "comes to rest":
		return true
	}
	return false
}

// logf writes a line, if anybody reads it.
func (s *sim) logf(format string, args ...any) {
	if s.log != nil {
		fmt.Fprintf(s.log, "%11.6f  %s\n", s.now.Seconds(), fmt.Sprintf(format, args...))
	}
}
