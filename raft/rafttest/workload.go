package rafttest

import (
	"fmt"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// clients is how many connections each process has from clients.
const clients = 3

func client(i int) lock.Client {
	return lock.Client{Name: fmt.Sprint("client", i), Addr: fmt.Sprintf("10.0.0.%d:1000", i+1)}
}

// acquire is one request of a client, from beginning to end. Its owner is its place in sim.acquires, plus 1.
type acquire struct {
	key    string
	at     *process
	client int
	state  acquireState
	token  uint64
	ref    uint32
	asked  time.Duration
	wait   time.Duration

	grantedAt, lease time.Duration // of the committed Grant
}

type acquireState uint8

const (
	asked acquireState = iota
	granted
	denied  // T or B: definite
	unknown // E indeterminate, or the process ended
)

// reply is one that left the manager, kept until the manager's call is over.
type reply struct {
	op    wire.Op
	owner uint64
	token uint64
	ref   uint32
	key   string
}

// sink is the manager's Sink.
type sink struct{ p *process }

// Reply implements lock.Sink.
func (s sink) Reply(_ lock.Session, r *lock.Reply) {
	s.p.replies = append(s.p.replies, reply{r.Op, r.Owner, r.Token, r.Ref, string(r.Key)})
}

// ForeignRelease implements lock.Sink.
func (s sink) ForeignRelease(lock.Session, []byte, uint64, uint64, lock.Client) {}

// work is one client event: a new acquire most of the time.
func (s *sim) work() {
	r := s.rng.workload
	s.after(time.Duration(r.Int64N(int64(2*s.opt.clientEvery)))+1, s.work)
	serving := s.serving()
	if len(serving) == 0 || s.calmed {
		return
	}
	p := serving[r.IntN(len(serving))]
	switch {
	case chance(r, s.opt.session):
		p.reconnect(r.IntN(clients))
	case chance(r, s.opt.stray):
		p.strayCommand()
	default:
		p.acquire(fmt.Sprint("key", r.IntN(s.opt.keys)), r.IntN(clients))
	}
	p.settle()
}

// acquire sends one acquire to p.
func (p *process) acquire(key string, client int) {
	s, r := p.s, p.s.rng.workload
	a := &acquire{key: key, at: p, client: client, asked: s.now}
	if s.opt.maxWait > 0 {
		a.wait = time.Duration(r.Int64N(int64(s.opt.maxWait))).Truncate(time.Millisecond)
	}
	s.acquires = append(s.acquires, a)
	lease := 1000 + r.Int64N(int64((s.opt.maxLease-time.Second)/time.Millisecond)+1)
	p.locks.Acquire(p.clock(), p.sessions[client], &wire.Request{
		Op: wire.OpAcquire, Owner: uint64(len(s.acquires)), Key: []byte(key), Lease: uint32(lease), Wait: uint32(a.wait / time.Millisecond),
	})
	s.cover[CoverAcquire]++
}

// reconnect closes one client connection of p, whose waiters leave, and opens another.
func (p *process) reconnect(number int) {
	p.locks.CloseSession(p.clock(), p.sessions[number])
	for _, a := range p.s.acquires {
		if a.at == p && a.client == number && a.state == asked {
			a.state = unknown
		}
	}
	p.sessions[number] = p.locks.OpenSession(client(number))
}

// strayCommand proposes an Expire or a Release of a token that is long gone, as a leader may that is behind.
func (p *process) strayCommand() {
	r := p.s.rng.workload
	if len(p.s.acquires) == 0 {
		return
	}
	a := p.s.acquires[r.IntN(len(p.s.acquires))]
	if a.token == 0 || p.s.check.model.holds(a.key, a.token) {
		return
	}
	c := lock.Command{Kind: pick(r, lock.KindExpire, lock.KindRelease), Key: []byte(a.key), Token: a.token, Owner: 1}
	p.propose(lock.AppendCommand([]byte{tagCommand}, &c), false, false)
}

// fill proposes count commands of 24 KiB that change nothing.
func (p *process) fill(count int) {
	data := make([]byte, 24<<10)
	data[0] = tagFiller
	for i := range count {
		data[1] = byte(i)
		if p.propose(data, false, false) != nil {
			return
		}
		p.settle()
	}
}

// readReplies gives the replies of the manager's last call to the checker and to the clients.
func (p *process) readReplies() {
	for len(p.replies) > 0 {
		replies := p.replies
		p.replies = nil
		for i := range replies {
			p.readReply(&replies[i])
		}
	}
}

func (p *process) readReply(r *reply) {
	s := p.s
	if r.op == wire.OpReleased || r.op == wire.OpNotHeld {
		s.check.releaseAnswered(p, r)
		return
	}
	if r.owner == 0 || r.owner > uint64(len(s.acquires)) {
		s.fail("replies", "%v: %v answers an owner %d that never asked", p, r.op, r.owner)
	}
	a := s.acquires[r.owner-1]
	if a.state == granted && (r.op == wire.OpBusy || r.op == wire.OpError) {
		return // of its release
	}
	s.check.acquireAnswered(p, a, r)
	switch r.op {
	case wire.OpGranted:
		a.state, a.token, a.ref = granted, r.token, r.ref
		s.cover[CoverGranted]++
		p.holdAndRelease(a, r.owner)
	case wire.OpTimeout, wire.OpBusy:
		a.state = denied
	default:
		a.state = unknown
		s.cover[CoverIndeterminate]++
	}
}

// holdAndRelease lets the client hold its lock for a while and give it back, or forget it, or never have received it.
func (p *process) holdAndRelease(a *acquire, owner uint64) {
	s, r := p.s, p.s.rng.workload
	if chance(r, s.opt.takeBack) {
		s.after(0, func() {
			if p.alive && !p.paused() {
				p.locks.TakeBack(p.clock(), a.ref, a.token)
				p.settle()
			}
		})
		return
	}
	if chance(r, 300) {
		return // the lease ends it
	}
	s.after(time.Duration(r.Int64N(int64(1500*time.Millisecond))), func() { s.release(a, owner) })
}

// release sends the release to anybody who serves; the connection need not be the acquire's.
func (s *sim) release(a *acquire, owner uint64) {
	serving := s.serving()
	if len(serving) == 0 {
		return
	}
	r := s.rng.workload
	p := serving[r.IntN(len(serving))]
	p.locks.Release(p.clock(), p.sessions[r.IntN(clients)], &wire.Request{Op: wire.OpRelease, Owner: owner, Token: a.token, Key: []byte(a.key)})
	p.settle()
}
