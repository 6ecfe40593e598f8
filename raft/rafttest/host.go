package rafttest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
)

// host is a machine: what outlives its processes.
type host struct {
	index    int
	addr     string
	marker   marker
	join     *joinCredential // in the environment of the next process
	running  *process
	wallSkew time.Duration
	clockPPM int
	reserved bool // for a process that an operator will start here
	down     bool // its process has ended with exit 78, or was replaced: no supervisor starts it again
}

// marker is the file in the state directory.
type marker struct {
	present      bool
	domain       raft.Domain
	seat         raft.Seat
	incarnations []raft.Member // NodeID 0 while unknown
	tokenMark    uint64
	seenOpen     bool
}

// note adds m, or its NodeID.
func (k *marker) note(m raft.Member) {
	for i := range k.incarnations {
		if k.incarnations[i].Incarnation == m.Incarnation {
			k.incarnations[i] = m
			return
		}
	}
	k.incarnations = append(k.incarnations, m)
}

// joinCredential is what `ticketing cluster replace` prints.
type joinCredential struct {
	domain  raft.Domain
	seat    raft.Seat
	nodeID  raft.NodeID
	addr    string
	expires int64
}

// id is the identity that the credential's MAC would give.
func (c *joinCredential) id() (id raft.CredentialID) {
	h := hashString(fmt.Sprint(c.domain, c.seat, c.nodeID, c.addr, c.expires))
	binary.BigEndian.PutUint64(id[:], h)
	binary.BigEndian.PutUint64(id[8:], mix(h))
	return id
}

// process is one life of a member's process. All but its host's marker ends with it.
type process struct {
	s      *sim
	id     int
	host   *host
	domain raft.Domain
	seat   raft.Seat
	member raft.Member // NodeID 0 while unknown
	alive  bool
	conns  []conn
	unsent time.Duration // what was sent from then on was lost with the process

	resumeAt time.Duration // paused until then; 0: running
	inbox    []*packet     // what the kernel keeps meanwhile

	// Clock: local time is localBase + rate * (now - trueBase).
	trueBase, localBase time.Duration
	ppm                 int

	boot *raft.Bootstrap // while the domain is being born, and after, to tell others
	driver
}

func (p *process) String() string {
	return fmt.Sprintf("%d/%x@%d", p.member.NodeID, p.member.Incarnation[:2], p.host.index)
}

func (p *process) paused() bool { return p.resumeAt > 0 }

// local is the process's monotonic clock.
func (p *process) local() time.Duration {
	elapsed := p.s.now - p.trueBase
	return p.localBase + elapsed + elapsed/1_000_000*time.Duration(p.ppm)
}

func (p *process) setClock(ppm int) {
	p.localBase, p.trueBase, p.ppm = p.local(), p.s.now, max(ppm, -900_000)
}

// wall is the machine's wall clock in Unix milliseconds.
func (p *process) wall() int64 { return p.s.wallAt(p.host) }

func (p *process) clock() lock.Time { return lock.Time{Mono: int64(p.local()), Wall: p.wall()} }

// start runs a new process on h with what its marker and environment say (server: startFacts.decide).
func (s *sim) start(h *host) *process {
	p := &process{s: s, id: len(s.procs), host: h, domain: s.domain.id, alive: true, trueBase: s.now, ppm: h.clockPPM}
	p.localBase = time.Duration(mix(s.seed+uint64(p.id))%1000) * time.Hour // no two processes' clocks compare
	draw := s.rng.identity
	binary.BigEndian.PutUint64(p.member.Incarnation[:], draw.Uint64())
	binary.BigEndian.PutUint64(p.member.Incarnation[8:], draw.Uint64())
	s.procs = append(s.procs, p)
	s.byIncarnation[p.member.Incarnation] = p
	h.running = p
	known := h.marker.present && h.marker.domain == s.domain.id
	switch {
	case known && s.faults.OldIdentity && s.takeOldIdentity(p):
	case h.join != nil && h.join.domain == s.domain.id:
		p.beginJoin(*h.join)
	case known:
		p.beginRejoin()
	default:
		p.beginBootstrap()
	}
	p.scheduleTick()
	return p
}

// takeOldIdentity is the fault OldIdentity: the new process goes on as the member that the marker names last.
func (s *sim) takeOldIdentity(p *process) bool {
	own := p.host.marker.incarnations
	last := own[len(own)-1]
	old := s.byIncarnation[last.Incarnation]
	if old == nil || old.node == nil {
		return false
	}
	delete(s.byIncarnation, p.member.Incarnation)
	p.member, p.seat = last, p.host.marker.seat
	s.byIncarnation[last.Incarnation] = p
	p.startRaft(old.start)
	return true
}

// crash ends p and all that it knows. silent: no kernel is left to close its connections. unsent: what it sent at this
// moment did not get out.
func (p *process) crash(silent, unsent bool) {
	if !p.alive {
		return
	}
	p.s.cover[CoverCrash]++
	p.s.logf("%v crashes", p)
	if unsent {
		p.unsent = p.s.now
	}
	p.end(silent)
}

// exit78 ends p for good: an operator has to act.
func (p *process) exit78(why string) {
	p.s.logf("%v ends: %s", p, why)
	p.host.down = true
	p.end(false)
}

func (p *process) end(silent bool) {
	p.alive = false
	p.host.running = nil
	p.dropInbox()
	p.dropConnections(silent)
	p.s.check.ended(p)
	for _, other := range p.s.procs {
		if other.alive && other.boot != nil {
			other.boot.PeerGone(p.member)
		}
	}
}

// retired is told to a process that peers know as retired.
func (p *process) retired() {
	if !p.alive || p.node == nil {
		return
	}
	p.s.cover[CoverRetired]++
	if own := p.s.check.model.voterOf(p.seat); own != p.member && slices.ContainsFunc(p.host.marker.incarnations, func(m raft.Member) bool { return m.Incarnation == own.Incarnation }) {
		p.crash(false, false) // exit 1: its own learner was aborted, so the next process asks again
		p.restartLater(time.Second)
		return
	}
	p.exit78("retired")
}

// restartLater starts the machine's next process after span, unless one runs by then.
func (p *process) restartLater(span time.Duration) {
	h, domain := p.host, p.domain
	p.s.after(span, func() {
		if h.running == nil && !h.down && p.s.domain.id == domain {
			p.s.cover[CoverRestart]++
			p.s.start(h)
		}
	})
}

// pause stops p for span; its memory and what arrives is kept.
func (p *process) pause(span time.Duration) {
	if !p.alive || p.paused() {
		return
	}
	p.s.cover[CoverPause]++
	p.resumeAt = p.s.now + span
	p.s.after(span, p.resume)
}

// resume goes on: it first reads what has arrived, then judges time (docs/semantics.md, promise 12).
func (p *process) resume() {
	if !p.paused() {
		return
	}
	p.resumeAt = 0
	inbox := p.inbox
	p.inbox = nil
	for _, k := range inbox {
		if p.alive && p.admits(k.from, k.target) {
			p.receive(k.from, k.kind, k.body)
		}
		p.s.network.release(k)
	}
	if p.alive {
		p.tick()
	}
}

// keep holds a packet that arrives while p is paused: a bounded socket buffer.
func (p *process) keep(k *packet) {
	if len(p.inbox) >= 200 {
		return
	}
	kept := p.s.network.alloc()
	body := append(kept.body[:0], k.body...)
	*kept = *k
	kept.body = body
	p.inbox = append(p.inbox, kept)
}

func (p *process) dropInbox() {
	for _, k := range p.inbox {
		p.s.network.release(k)
	}
	p.inbox = nil
}
