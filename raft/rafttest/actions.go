package rafttest

import (
	"fmt"
	"time"

	"ticketing.internal/raft"
)

// triggered notes that a step happened to p, and schedules the actions that waited for it.
func (s *sim) triggered(t trigger, p *process) {
	s.occurred[t]++
	if s.calmed {
		return
	}
	for i := range s.schedule {
		a := &s.schedule[i]
		if a.on == t && a.nth == s.occurred[t] {
			s.after(a.delay, func() { s.act(a, p) })
		}
	}
}

// resolve returns the live process that w means now, or nil.
func (s *sim) resolve(w who, subjectOf *process) *process {
	var p *process
	switch w.part {
	case leader:
		p = s.leader()
	case follower:
		p = s.follower(w.number)
	case voter:
		p = s.byIncarnation[s.check.model.voterOf(raft.Seat(w.number)).Incarnation]
	case newcomer:
		p = s.byIncarnation[s.check.model.newcomer().Incarnation]
	case predecessor:
		p = s.byIncarnation[s.check.model.predecessor().Incarnation]
	case subject:
		p = subjectOf
	case live:
		if alive := s.alive(); len(alive) > 0 {
			p = alive[w.number%len(alive)]
		}
	case machine:
		p = s.hosts[w.number].running
	}
	if p == nil || !p.alive {
		return nil
	}
	return p
}

// leader returns the live process that leads in the highest term, or nil.
func (s *sim) leader() *process {
	var best *process
	for _, p := range s.procs {
		if p.alive && p.state.Role == raft.RoleLeader && (best == nil || p.state.Term > best.state.Term) {
			best = p
		}
	}
	return best
}

// follower returns the n-th live node that does not lead, counted round.
func (s *sim) follower(n int) *process {
	var followers []*process
	for _, p := range s.procs {
		if p.alive && p.node != nil && p.state.Role != raft.RoleLeader {
			followers = append(followers, p)
		}
	}
	if len(followers) == 0 {
		return nil
	}
	return followers[n%len(followers)]
}

func (s *sim) alive() []*process {
	var alive []*process
	for _, p := range s.procs {
		if p.alive {
			alive = append(alive, p)
		}
	}
	return alive
}

// serving returns the processes that would answer clients: more than one, if a leader was deposed without knowing it.
func (s *sim) serving() []*process {
	var serving []*process
	for _, p := range s.procs {
		if p.alive && p.leading && !p.paused() {
			serving = append(serving, p)
		}
	}
	return serving
}

// act does what a says. An action whose process does not exist now does nothing.
func (s *sim) act(a *action, subjectOf *process) {
	if s.calmed {
		return
	}
	p, q := s.resolve(a.who, subjectOf), s.resolve(a.other, subjectOf)
	s.logf("action: %v: %v %v", a, p, q)
	switch {
	case s.actOnNetwork(a, p, q):
	case a.op == opReplaceTwice:
		s.replaceSeatOf(a, p)
		s.replaceSeatOf(a, q)
	case a.op == opPrepare:
		s.replace(s.seatOf(p), false)
	case a.op == opAbort:
		s.command(raft.Control{Kind: raft.ControlAbort, Cause: raft.AbortOperator}, operatorPatience, func(raft.Outcome) {})
	case a.op == opCrashAll:
		s.loseDomain()
	case a.op == opTransfer:
		s.transfer(p)
	case a.op == opRolling:
		s.roll(1, 0, 0, a.n == 1)
	case a.op == opRestart:
		if h := s.hosts[a.who.number]; h.running == nil && h.marker.present {
			s.cover[CoverRestart]++
			h.down = false
			s.start(h)
		}
	case a.op == opReplace && p == nil && a.who.part == voter:
		s.cover[CoverReplaceAsked]++
		s.replace(raft.Seat(a.who.number), true)
	case p != nil:
		s.actOn(a, p)
	}
}

// actOn does the actions that need a process.
func (s *sim) actOn(a *action, p *process) {
	switch a.op {
	case opCrash:
		p.crash(a.n&1 != 0, a.n&2 != 0)
		if a.n&4 != 0 {
			p.host.marker = marker{}
		}
		if a.span > 0 {
			p.restartLater(a.span)
		}
	case opPause:
		p.pause(a.span)
	case opClock:
		p.setClock(a.n)
		s.check.fastest = max(s.check.fastest, a.n)
		s.after(a.span, func() { p.setClock(p.host.clockPPM) })
	case opReset:
		p.dropConnections(false)
	case opReplace:
		s.replaceSeatOf(a, p)
	case opRequests:
		for i := 0; i < a.n && p.leading && !p.paused(); i++ {
			p.acquire(fmt.Sprint("burst", i), i%clients)
		}
		if p.node != nil && !p.paused() {
			p.settle()
		}
	case opFill:
		if p.leading && !p.paused() {
			p.fill(a.n)
		}
	case opDropOwnTerm:
		p.dropOwnUntil = s.now + a.span
	case opCloseSessions:
		for i := range p.sessions {
			p.reconnect(i)
			p.settle()
		}
	}
}

// actOnNetwork does the actions of the network and reports whether a was one.
func (s *sim) actOnNetwork(a *action, p, q *process) bool {
	var cut func(from, to *host) bool
	on := func(p *process, h *host) bool { return p != nil && p.host == h }
	switch a.op {
	case opHeal:
		s.network.heal()
		return true
	case opClog:
		if p != nil {
			s.cover[CoverClogged]++
			s.network.clog(p.host, a.span)
		}
		return true
	case opIsolate:
		cut = func(from, to *host) bool { return on(p, from) || on(p, to) }
	case opIsolatePair:
		in := func(h *host) bool { return on(p, h) || on(q, h) }
		cut = func(from, to *host) bool { return in(from) != in(to) }
	case opDeafen:
		cut = func(_, to *host) bool { return on(p, to) }
	case opMute:
		cut = func(from, _ *host) bool { return on(p, from) }
	case opCutLink:
		cut = func(from, to *host) bool { return on(p, from) && on(q, to) }
	case opCutPair:
		cut = func(from, to *host) bool { return on(p, from) && on(q, to) || on(q, from) && on(p, to) }
	case opSplit:
		cut = func(from, to *host) bool { return a.n>>from.index&1 != a.n>>to.index&1 }
	default:
		return false
	}
	s.network.cut(a.span, cut)
	return true
}

// seatOf returns the seat of p, or some seat where there is no process.
func (s *sim) seatOf(p *process) raft.Seat {
	if p == nil || p.seat == 0 {
		return 1
	}
	return p.seat
}

// replaceSeatOf replaces p. With n&1 it is killed before; else it is believed dead at most.
func (s *sim) replaceSeatOf(a *action, p *process) {
	if p == nil {
		return
	}
	if a.n&1 != 0 {
		p.crash(false, false)
		p.host.down = true
	}
	s.cover[CoverReplaceAsked]++
	s.replace(p.seat, true)
}

// roll restarts the voter of each seat in turn, the next as soon as the one before is ready again, or (askFirst) as soon as
// the leader says that it may stop (ticketing cluster can-stop). A domain survives either.
func (s *sim) roll(seat raft.Seat, before raft.Seat, pause time.Duration, askFirst bool) {
	s.after(pause, func() {
		pause := 200 * time.Millisecond
		l, p := s.leader(), s.voterProcess(seat)
		switch {
		case s.calmed:
			return
		case l == nil || !l.leading || p == nil:
		case askFirst && l.node.MayStop(p.member) != nil:
		case !askFirst && before != 0 && !s.ready(before):
		default:
			s.cover[CoverRolled]++
			silent := chance(s.rng.operator, 200)
			p.crash(silent, false)
			if pause = 50 * time.Millisecond; silent {
				pause = time.Second // what no kernel tells takes a while to be noticed
			}
			p.restartLater(time.Duration(s.rng.operator.Int64N(int64(2 * time.Second))))
			seat, before = 1+seat%raft.Seat(s.opt.size), seat
		}
		s.roll(seat, before, pause, askFirst)
	})
}

// voterProcess returns the live process of the seat's voter, or nil.
func (s *sim) voterProcess(seat raft.Seat) *process {
	if p := s.byIncarnation[s.check.model.voterOf(seat).Incarnation]; p != nil && p.alive {
		return p
	}
	return nil
}

// ready is /readyz of a seat's process: it is a voter, and has applied that it is.
func (s *sim) ready(seat raft.Seat) bool {
	p := s.voterProcess(seat)
	if s.faults.ReadyEarly {
		return s.hosts[seat-1].running != nil
	}
	if p == nil || p.node == nil {
		return false
	}
	row := p.node.Registry().Member(p.member)
	return p.state.Voter && row != nil && !row.Learner
}

// transfer asks the leader to hand over, to p if there is one.
func (s *sim) transfer(p *process) {
	l := s.leader()
	if l == nil || l.paused() {
		return
	}
	var to raft.Member
	if p != nil && p != l {
		to = p.member
	}
	if l.node.TransferLeadership(to) == nil {
		s.cover[CoverTransferAsked]++
	}
	l.settle()
}

// loseDomain kills everybody at once; if the run is about that, a new domain is made a moment later.
func (s *sim) loseDomain() {
	s.domain.lost = true
	for _, p := range s.alive() {
		p.crash(false, false)
	}
	if !s.opt.afterLoss {
		return
	}
	s.after(2*time.Second, func() {
		s.network.heal()
		s.newDomain(chance(s.rng.operator, 500))
		for _, h := range s.hosts[:s.opt.size] {
			h.join, h.down = nil, false
			if h.running == nil {
				s.start(h)
			}
		}
	})
}
