package rafttest

import (
	"errors"
	"slices"
	"time"

	"ticketing.internal/raft"
)

// waitingControl is a control request whose entry is not decided yet.
type waitingControl struct {
	index, term uint64
	answer      func(raft.Outcome, error)
	asked       time.Duration // when it was appended
}

// controlPatience is how long a request waits for its entry's index to be decided: after a change of leader the log may not
// come that far for long.
const controlPatience = 10 * time.Second

// errUnknown says that a control request's fate is not known.
var errUnknown = errors.New("rafttest: the entry was decided elsewhere")

// control is a control request that reached p.
func (p *process) control(c raft.Control, answer func(raft.Outcome, error)) {
	if p.node == nil {
		answer(raft.Outcome{}, raft.ErrNotLeader)
		return
	}
	before := p.s.check.beforeControl(p)
	at, err := p.node.ProposeControl(&c, p.wall())
	p.s.check.afterControl(p, before, &c, err)
	if err == nil && at.Index > 0 {
		p.waiting = append(p.waiting, waitingControl{at.Index, at.Term, answer, p.s.now})
	}
	p.settle()
	switch {
	case err != nil:
		p.s.cover[CoverControlRefused]++
		answer(raft.Outcome{}, err)
	case at.Index == 0:
		answer(at.Outcome, nil)
	}
}

// giveUpControls answers the requests that have waited for too long.
func (p *process) giveUpControls() {
	for len(p.waiting) > 0 && p.s.now-p.waiting[0].asked > controlPatience {
		w := p.waiting[0]
		p.waiting = p.waiting[1:]
		w.answer(raft.Outcome{}, errUnknown)
	}
}

// answerControls answers the requests that the entry c decides, or has taken the place of.
func (p *process) answerControls(c *raft.Committed) {
	for len(p.waiting) > 0 && p.waiting[0].index <= c.Index {
		w := p.waiting[0]
		p.waiting = p.waiting[1:]
		switch {
		case w.index != c.Index || w.term != c.Term:
			w.answer(raft.Outcome{}, errUnknown)
		case c.Outcome.Result == raft.ResultControlRejected:
			w.answer(c.Outcome, c.Outcome.Reason)
		default:
			w.answer(c.Outcome, nil)
		}
	}
}

// request sends a control request from one machine to whatever runs on another, and brings the answer back. Both ways
// may fail, and then nobody hears of it.
func (s *sim) request(from, to *host, c raft.Control, answer func(raft.Outcome, error)) {
	trip := s.opt.latency + time.Duration(s.rng.operator.Int64N(int64(2*time.Millisecond)))
	s.after(trip, func() {
		p := to.running
		if p == nil || p.paused() || from != to && s.network.isCut(from, to) {
			return
		}
		p.control(c, func(o raft.Outcome, err error) {
			s.after(trip, func() {
				if from == to || !s.network.isCut(to, from) {
					answer(o, err)
				}
			})
		})
	})
}

// operatorPatience is how often a command asks again before it gives up.
const operatorPatience = 12

// command is an operator's request, which goes to whom it takes for the leader until it is answered with something that
// does not pass by itself.
func (s *sim) command(c raft.Control, tries int, done func(raft.Outcome)) {
	if tries == 0 {
		return
	}
	answered := false
	retry := func() {
		if !answered {
			answered = true
			s.command(c, tries-1, done)
		}
	}
	to := s.leader()
	if alive := s.alive(); to == nil && len(alive) > 0 {
		to = alive[s.rng.operator.IntN(len(alive))]
	}
	if to == nil {
		return
	}
	s.after(time.Second, retry)
	s.request(to.host, to.host, c, func(o raft.Outcome, err error) {
		var reason raft.Reason
		switch {
		case answered:
		case err == nil:
			answered = true
			done(o)
		case errors.As(err, &reason) && !reason.Retry():
			answered = true
		}
	})
}

// replace is `ticketing cluster replace` for a seat, and the start of the new process where it sends it. Without start,
// nobody uses the credential.
func (s *sim) replace(seat raft.Seat, start bool) {
	h := s.spareHost()
	if h == nil || s.domain.lost {
		return
	}
	domain := s.domain.id
	expires := s.wallAt(h) + pick[int64](s.rng.operator, 8_000, 60_000, 900_000)
	c := raft.Control{Kind: raft.ControlPrepare, Seat: seat, PeerAddr: h.addr, ExpiresMillis: expires}
	s.command(c, operatorPatience, func(o raft.Outcome) {
		if !start || h.running != nil || s.domain.id != domain {
			return
		}
		h.join = &joinCredential{domain: domain, seat: o.Seat, nodeID: o.Member.NodeID, addr: h.addr, expires: o.ExpiresMillis}
		h.down = false
		s.start(h)
	})
}

// spareHost returns a machine without a process, or nil.
func (s *sim) spareHost() *host {
	var free []*host
	for _, h := range s.hosts {
		if h.running == nil && !h.reserved {
			free = append(free, h)
		}
	}
	if len(free) == 0 {
		return nil
	}
	h := free[len(free)-1]
	h.reserved = true
	s.after(20*time.Second, func() { h.reserved = false })
	return h
}

// beginJoin asks for admission with a credential until it is given or can no longer be.
func (p *process) beginJoin(cred joinCredential) {
	p.seat, p.member.NodeID = cred.seat, cred.nodeID
	p.mark(p.member)
	p.ask(func() raft.Control {
		return raft.Control{
			Kind: raft.ControlAdmit, Seat: cred.seat, Newcomer: p.member, Credential: cred.id(),
			PeerAddr: cred.addr, ClientAddr: cred.addr + "c", ExpiresMillis: cred.expires,
		}
	}, func(raft.Reason) {
		p.host.join = nil
		p.crash(false, false) // exit 1: the next process finds a marker without a usable credential
		p.restartLater(time.Second)
	})
}

// beginRejoin asks to be the replacement of the marker's own last life.
func (p *process) beginRejoin() {
	p.seat = p.host.marker.seat
	past := slices.Clone(p.host.marker.incarnations)
	p.mark(p.member)
	p.s.cover[CoverRejoinAsked]++
	p.ask(func() raft.Control {
		return raft.Control{
			Kind: raft.ControlRejoin, Seat: p.seat, Newcomer: raft.Member{Incarnation: p.member.Incarnation},
			PeerAddr: p.host.addr, ClientAddr: p.host.addr + "c", Marker: past,
		}
	}, func(reason raft.Reason) { p.exit78(reason.Error()) })
}

// mark writes m into the marker.
func (p *process) mark(m raft.Member) {
	k := &p.host.marker
	if k.domain != p.domain {
		*k = marker{domain: p.domain, tokenMark: k.tokenMark}
	}
	k.present, k.seat = true, p.seat
	k.note(m)
}

// ask sends the request to one machine after another, each second, until p is admitted or told why it never will be.
func (p *process) ask(request func() raft.Control, refused func(raft.Reason)) {
	targets := p.s.opt.size + p.s.opt.spares
	var again func()
	again = func() {
		if !p.alive || p.node != nil {
			return
		}
		p.s.after(700*time.Millisecond, again)
		if p.paused() {
			return
		}
		to := p.s.hosts[p.s.rng.operator.IntN(targets)]
		if l := p.s.leader(); l != nil && p.s.rng.operator.IntN(4) > 0 {
			to = l.host
		}
		p.s.request(p.host, to, request(), func(o raft.Outcome, err error) {
			var reason raft.Reason
			switch {
			case !p.alive || p.node != nil:
			case err == nil:
				p.admitted(o)
			case errors.As(err, &reason) && !reason.Retry() && reason != raft.ReasonReplacedMeanwhile:
				refused(reason)
			}
		})
	}
	again()
}

// admitted starts the node of a learner.
func (p *process) admitted(o raft.Outcome) {
	if o.Member.Incarnation != p.member.Incarnation {
		return
	}
	p.member, p.seat = o.Member, o.Seat
	p.mark(p.member)
	p.startRaft(raft.Start{})
}
