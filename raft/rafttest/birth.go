package rafttest

import (
	"encoding/binary"
	"time"

	"ticketing.internal/raft"
)

// domain is one life of the cluster.
type domain struct {
	id         raft.Domain
	credential raft.CredentialID
	seats      []raft.SeatAddr
	base       uint64 // of tokens
	notAfter   int64  // Unix milliseconds
	afterLoss  bool
	lost       bool // everybody was killed
}

// newDomain is `ticketing cluster init`, at the desk of an operator whose clock may be wrong.
func (s *sim) newDomain(afterLoss bool) {
	d := &s.domain
	*d = domain{afterLoss: afterLoss}
	binary.BigEndian.PutUint64(d.id[:], s.rng.identity.Uint64())
	binary.BigEndian.PutUint64(d.credential[:], s.rng.identity.Uint64())
	for i := range s.opt.size {
		d.seats = append(d.seats, raft.SeatAddr{Seat: raft.Seat(i + 1), PeerAddr: s.hosts[i].addr})
	}
	wall := s.wallAt(s.hosts[s.rng.operator.IntN(len(s.hosts))])
	d.base = uint64(wall-epochMillis) << 14
	d.notAfter = s.wallAt(s.hosts[0]) + s.opt.bootstrapEnd.Milliseconds()
	s.check.begin(d.id)
}

// shoutEvery is how often a process tells the others what it knows of the birth of the domain.
const shoutEvery = 250 * time.Millisecond

// beginBootstrap takes part in the birth of the domain.
func (p *process) beginBootstrap() {
	d, h := &p.s.domain, p.host
	if h.index >= p.s.opt.size {
		p.exit78("no credential")
		return
	}
	p.seat = raft.Seat(h.index + 1)
	p.member.NodeID = raft.NodeID(p.seat)
	boot, err := raft.NewBootstrap(raft.BootstrapConfig{
		Domain: d.id, Seats: d.seats, TokenBase: d.base, NotAfterMillis: d.notAfter, Credential: d.credential, AfterLoss: d.afterLoss,
		Self: p.info(), OtherDomain: h.marker.present, TokenMark: h.marker.tokenMark, Faults: &p.s.faults.Faults,
	})
	if err != nil {
		p.s.fail("start", "%v: %v", p, err)
	}
	p.boot = boot
	p.s.after(time.Duration(p.s.rng.operator.Int64N(int64(shoutEvery))), p.shout)
	p.s.after(p.s.opt.bootstrapEnd+time.Minute, p.giveUp)
}

func (p *process) info() raft.MemberInfo {
	return raft.MemberInfo{Member: p.member, Seat: p.seat, PeerAddr: p.host.addr, ClientAddr: p.host.addr + "c"}
}

// shout says to all seats who this is, and what it knows; it ends when the domain is open.
func (p *process) shout() {
	if !p.alive || p.host.marker.seenOpen && p.host.marker.domain == p.domain {
		return
	}
	p.s.after(shoutEvery, p.shout)
	if p.paused() {
		return
	}
	c := p.boot.Propose()
	if c != nil && p.boot.AcceptedConfig() == nil {
		p.acceptInitial(c)
	}
	info, known := p.info(), p.boot.Known()
	for i := range p.s.opt.size {
		to := p.s.hosts[i]
		if to == p.host {
			continue
		}
		p.s.network.say(p, to, func(q *process) { q.hear(p.domain, info, c, known) })
	}
	p.maybeStart()
}

// hear takes what another process shouted.
func (p *process) hear(from raft.Domain, info raft.MemberInfo, c *raft.InitialConfig, known []raft.Accepted) {
	if p.boot == nil || from != p.domain {
		return
	}
	p.boot.PeerShown(info)
	if c != nil {
		p.acceptInitial(c)
	}
	for _, a := range known {
		p.boot.Record(a)
	}
	p.maybeStart()
}

// acceptInitial writes the marker and accepts c, if it may.
func (p *process) acceptInitial(c *raft.InitialConfig) {
	if p.boot.Check(c) != nil {
		return
	}
	p.mark(p.member)
	p.s.check.accepts(p, c)
	p.boot.Accept(c)
}

// maybeStart starts Raft when all have accepted.
func (p *process) maybeStart() {
	if p.node != nil {
		return
	}
	if start, ok := p.boot.Start(); ok {
		p.startRaft(start)
	}
}

// giveUp ends a node that the domain was born without: it has not acknowledged Bootstrap 60 s after the credential's end.
func (p *process) giveUp() {
	if p.alive && (p.node == nil || !p.node.Status().BootstrapHeld && !p.node.Registry().Open) {
		p.s.cover[CoverLeftOut]++
		p.exit78("the domain was born without this node")
	}
}
