package rafttest

import (
	"time"

	"ticketing.internal/raft"
)

// conn is what a process knows of the connection on which another one sends to it.
type conn struct {
	open    bool
	shown   uint64        // the highest term that the sender's pair has shown here
	retryAt time.Duration // no handshake before: the sender was refused and backs off
}

// backoff is how long a refused sender waits.
const backoff = 500 * time.Millisecond

// conn returns the state of the connection from another process.
func (p *process) conn(from *process) *conn {
	for len(p.conns) <= from.id {
		p.conns = append(p.conns, conn{})
	}
	return &p.conns[from.id]
}

// admits reports whether a message from that process, meant for target, gets through to p: on the open connection, or
// after the handshake of a new one.
func (p *process) admits(from *process, target raft.Member) bool {
	if p.node == nil || target != p.member {
		return false
	}
	c := p.conn(from)
	if c.open {
		return true
	}
	if !from.alive || p.s.now < c.retryAt {
		return false
	}
	in := raft.Introduction{
		Domain: from.domain, Sender: from.member, Receiver: target, Term: from.state.Term, ShownTerm: c.shown,
	}
	refusal := raft.CheckPeer(p.node.Registry(), p.domain, p.member, in, &p.s.faults.Faults)
	p.s.check.introduced(p, from, refusal)
	if refusal == raft.RefuseNone {
		c.open = true
		return true
	}
	c.retryAt = p.s.now + backoff
	p.s.cover[CoverRefused]++
	if refusal == raft.RefuseRetired {
		p.s.network.say(p, from.host, func(to *process) {
			if to == from {
				to.retired()
			}
		})
	}
	return false
}

// closeRefused closes the connections of those whom an installed snapshot knows as retired.
func (p *process) closeRefused() {
	for id := range p.conns {
		in := raft.Introduction{Domain: p.domain, Sender: p.s.procs[id].member, Receiver: p.member}
		if p.conns[id].open && raft.CheckPeer(p.node.Registry(), p.domain, p.member, in, &p.s.faults.Faults) != raft.RefuseNone {
			p.conns[id].open = false
		}
	}
}

// receive steps one message.
func (p *process) receive(from *process, kind raft.MessageKind, body []byte) {
	m := &p.s.scratch
	if err := raft.DecodeMessage(kind, body, m); err != nil {
		p.s.fail("codec", "%v: %v that was encoded does not decode: %v", p, kind, err)
	}
	m.Kind, m.From, m.To = kind, from.member, p.member
	c := p.conn(from)
	c.shown = max(c.shown, from.state.Term)
	p.s.check.received(p, from, m)
	if p.s.log != nil {
		p.s.logf("%v <- %v %v", p, from, describe(m))
	}
	if m.Kind == raft.MsgAppendEntriesReply && m.Term < p.state.Term && p.state.Role == raft.RoleLeader {
		before := p.peerStatus(from.member)
		p.node.Step(m)
		p.s.check.staleAck(p, from, before)
	} else {
		p.node.Step(m)
	}
	p.settle()
}

// peerStatus is a leader's view of m.
func (p *process) peerStatus(m raft.Member) raft.PeerStatus {
	for _, s := range p.node.Status().Peers {
		if s.Member == m {
			return s
		}
	}
	return raft.PeerStatus{}
}

// dropConnections closes what others send to and hear from p. Each that hears of it (after a moment) has lost its
// connection from p; with silent, nobody does.
func (p *process) dropConnections(silent bool) {
	for _, other := range p.s.procs {
		if other == p || !other.alive {
			continue
		}
		if len(p.conns) > other.id {
			p.conns[other.id].open = false
		}
		if len(other.conns) <= p.id || !other.conns[p.id].open {
			continue
		}
		other.conns[p.id].open = false
		if silent || p.s.network.isCut(p.host, other.host) {
			continue
		}
		p.s.after(p.s.opt.latency, func() { other.lost(p) })
	}
}

// lost tells the node that the connection from another process has ended.
func (p *process) lost(from *process) {
	if !p.alive || p.node == nil || p.paused() || p.conn(from).open {
		return
	}
	p.s.cover[CoverHint]++
	p.node.ReportConnectionLoss(from.member)
	p.settle()
}
