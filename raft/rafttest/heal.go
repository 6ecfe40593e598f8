package rafttest

import (
	"fmt"
	"slices"
	"time"

	"ticketing.internal/raft"
)

// heal begins the second phase: faults end, what is left of a quorum is healed and must make progress.
func (s *sim) heal() {
	s.logf("-- heal")
	s.calmed, s.network.calm = true, true
	s.network.heal()
	for _, p := range s.procs {
		p.dropOwnUntil = 0
		if p.alive {
			p.setClock(p.host.clockPPM)
			p.resume()
		}
	}
	core := s.chooseCore()
	if core == nil && s.opt.profile == profileRolling && s.check.model.open {
		s.fail("rolling restart", "the majority is lost, though the leader let each process stop")
	}
	if core == nil {
		s.cover[CoverMajorityLost]++
		s.after(3*time.Second, func() { s.done = true })
		return
	}
	s.cover[CoverHealed]++
	d := &demand{s: s, core: core, term: s.highestTerm(), from: s.now}
	s.after(pollEvery, d.poll)
}

// chooseCore returns the processes that shall make progress, or nil if too few are left. Sometimes no more than a quorum
// are kept: the others stay cut off, or deaf.
func (s *sim) chooseCore() []*process {
	core := slices.DeleteFunc(s.alive(), func(p *process) bool { return p.node == nil || p.domain != s.domain.id })
	if !s.canDecide(core) {
		return nil
	}
	if s.opt.restartAll && s.rng.operator.IntN(2) == 0 {
		s.restartAll()
		return core
	}
	if !s.opt.bareQuorum || !s.check.model.open {
		return core
	}
	s.cover[CoverBareQuorum]++
	r := s.rng.operator
	all := slices.Clone(core)
	for _, i := range r.Perm(len(all)) {
		if without := slices.DeleteFunc(slices.Clone(core), func(p *process) bool { return p == all[i] }); s.canDecide(without) {
			core = without
		}
	}
	deaf := r.IntN(2) == 0 // the others hear nothing, and are heard
	s.network.cut(0, func(from, to *host) bool {
		return s.inCore(core, from) != s.inCore(core, to) && (!deaf || s.inCore(core, from))
	})
	return core
}

func (s *sim) inCore(core []*process, h *host) bool {
	return slices.ContainsFunc(core, func(p *process) bool { return p.host == h })
}

// restartAll starts a process on every machine where one crashed.
func (s *sim) restartAll() {
	for _, h := range s.hosts {
		if h.running == nil && !h.down && h.marker.present && h.marker.domain == s.domain.id {
			s.cover[CoverRestart]++
			s.start(h)
		}
	}
}

// canDecide reports whether core holds the majorities of every configuration that is in force at one of its nodes, and of
// the committed one; and of the joint one to come, if a newcomer is admitted: a leader may be about to append it. Then
// nothing excuses it from progress.
func (s *sim) canDecide(core []*process) bool {
	in := func(m raft.Member) bool {
		return slices.ContainsFunc(core, func(p *process) bool { return p.member == m })
	}
	configs := []raft.Configuration{s.check.committedConfiguration()}
	if r := s.check.model.replacement; r != nil && r.newcomer.Incarnation != (raft.Incarnation{}) {
		configs = append(configs, raft.Configuration{Voters: replaced(configs[0].Voters, r.predecessor, r.newcomer)})
	}
	for _, p := range core {
		if c, _ := p.node.Configuration(); len(c.Voters) > 0 {
			configs = append(configs, c)
		}
	}
	for _, c := range configs {
		if !majority(c.Voters, in) || c.Joint() && !majority(c.Next, in) {
			return false
		}
	}
	return true
}

// replaced returns voters with newcomer in the place of old.
func replaced(voters []raft.Member, old, newcomer raft.Member) []raft.Member {
	next := slices.Clone(voters)
	for i := range next {
		if next[i] == old {
			next[i] = newcomer
		}
	}
	return next
}

// majority reports whether in holds for more than half of voters.
func majority(voters []raft.Member, in func(raft.Member) bool) bool {
	n := 0
	for _, m := range voters {
		if in(m) {
			n++
		}
	}
	return n > len(voters)/2
}

func (s *sim) highestTerm() uint64 {
	term := uint64(0)
	for _, p := range s.procs {
		if p.alive {
			term = max(term, p.state.Term)
		}
	}
	return term
}

// demand is what the healed core owes, and since when.
type demand struct {
	s        *sim
	core     []*process
	term     uint64 // the highest when it was healed
	from     time.Duration
	probe    *acquire    // an acquire of a key that is always free
	newcomer raft.NodeID // of the replacement that was under way at the last look
	probes   int
}

const pollEvery = 200 * time.Millisecond

// termsAllowed bounds the elections that a healed core may need.
const termsAllowed = 25

// poll looks whether all is done, and complains if it is late.
func (d *demand) poll() {
	s := d.s
	if newcomer := s.newcomerUnderWay(); newcomer != d.newcomer {
		d.newcomer, d.from = newcomer, s.now // what comes now has its own budget
	}
	missing := d.missing()
	if missing == "" {
		s.check.end()
		s.done = true
		return
	}
	if s.highestTerm() > d.term+termsAllowed {
		s.fail("no election storm", "%d terms since the core was healed", s.highestTerm()-d.term)
	}
	if late := s.now - d.from; late > d.budget() {
		s.fail("progress", "%v after the core was healed: %s", late, missing)
	}
	s.after(pollEvery, d.poll)
}

// newcomerUnderWay is the NodeId of the replacement under way, 0 if there is none. One can follow the other at once.
func (s *sim) newcomerUnderWay() raft.NodeID {
	if r := s.check.model.replacement; r != nil {
		return r.newcomer.NodeID
	}
	return 0
}

// budget is how long the core may take: ten times the longest election timeout, and what a lease, a silent learner or the
// pause after a loss add.
func (d *demand) budget() time.Duration {
	b := 20*d.s.opt.election + d.s.opt.maxLease + d.s.opt.maxWait + 5*time.Second
	b += b * time.Duration(d.s.opt.clockPPM) / 500_000
	if d.s.check.model.replacement != nil {
		b += 80 * time.Second
	}
	if d.s.cover[CoverDomain] > 1 {
		b += afterLossPause + 10*time.Second
	}
	return b
}

// missing says what the core owes still, or "".
func (d *demand) missing() string {
	s := d.s
	l := s.leader()
	if l == nil {
		return "nobody leads"
	}
	if !s.check.model.open {
		return d.missingUnopened(l)
	}
	if !l.leading {
		return fmt.Sprintf("%v leads and does not serve", l)
	}
	if text := d.missingProbe(l); text != "" {
		return text
	}
	if text := s.missingAnswers(d.core); text != "" {
		return text
	}
	if r := s.check.model.replacement; r != nil && r.newcomer.Incarnation != (raft.Incarnation{}) {
		return fmt.Sprintf("the replacement of %v by %v goes on", r.predecessor, r.newcomer)
	}
	return s.missingStates(l, d.core)
}

// missingUnopened speaks of a domain that is not open: it opens if every initial voter is there in time, and is burned else.
func (d *demand) missingUnopened(l *process) string {
	s := d.s
	if s.check.model.burned || s.now-d.from > 15*time.Second {
		return ""
	}
	all := len(d.core) == s.opt.size && l.wall()+2000 < s.domain.notAfter
	if !all && s.now-d.from > 2*time.Second && l.wall() < s.domain.notAfter {
		return ""
	}
	return "the domain is neither open nor burned"
}

// missingProbe asks the leader for a free key, once a second, until it is granted.
func (d *demand) missingProbe(l *process) string {
	if d.probe != nil && d.probe.state == granted {
		return ""
	}
	if d.probe == nil || d.s.now-d.probe.asked > time.Second {
		d.probes++
		l.acquire(fmt.Sprint("probe", d.probes), 0)
		d.probe = d.s.acquires[len(d.s.acquires)-1]
		l.settle()
	}
	return "a free key is not granted"
}

// missingAnswers speaks of requests and proposals of the core without an answer.
func (s *sim) missingAnswers(core []*process) string {
	for _, p := range core {
		if p.alive && len(p.proposals) > 0 {
			return fmt.Sprintf("%v has %d proposals undecided", p, len(p.proposals))
		}
		if p.alive && len(p.waiting) > 0 {
			return fmt.Sprintf("%v has %d control requests undecided", p, len(p.waiting))
		}
	}
	for i, a := range s.acquires {
		if a.state == asked && a.at.alive && slices.Contains(core, a.at) {
			return fmt.Sprintf("acquire %d of %q at %v (asked at %v, wait %v) has no answer", i+1, a.key, a.at, a.asked, a.wait)
		}
	}
	return ""
}

// missingStates speaks of members of the core whose state is not the leader's.
func (s *sim) missingStates(l *process, core []*process) string {
	at := s.check.records[l.member].applied
	for _, p := range core {
		if !p.alive || p == l || !s.check.model.isMember(p.member) {
			continue
		}
		if applied := s.check.records[p.member].applied; applied != at {
			return fmt.Sprintf("%v has applied %d, the leader %v %d", p, applied, l, at)
		}
		if p.locks.StateHash() != l.locks.StateHash() {
			s.fail("state machine safety", "%v and %v differ at index %d", p, l, at)
		}
	}
	return ""
}
