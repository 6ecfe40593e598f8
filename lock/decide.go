package lock

import "ticketing.internal/wire"

// proposal is a command that is undecided.
type proposal struct {
	kind      Kind
	unseen    bool    // Release of a token that was unknown here: nothing waits for it
	record    uint32  // pinned
	waiter    uint32  // Grant
	session   Session // Release: to be answered; 0 for one that takes a grant back
	lease     uint32  // Grant: ms
	owner     uint64  // Grant, Release
	token     uint64  // Release, Expire
	grantedAt int64   // Grant: unix ms
}

// proposals is a first-in, first-out queue of the undecided proposals, in a ring that is reused.
type proposals struct {
	ring   []proposal // its length is a power of two, or 0
	first  int
	length int
}

const minProposals = 64

func (q *proposals) push(p proposal) {
	if q.length == len(q.ring) {
		ring := make([]proposal, max(2*len(q.ring), minProposals))
		copy(ring[copy(ring, q.ring[q.first:]):], q.ring[:q.first])
		q.ring, q.first = ring, 0
	}
	q.ring[(q.first+q.length)&(len(q.ring)-1)] = p
	q.length++
}

func (q *proposals) pop() proposal {
	p := q.ring[q.first]
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.length--
	return p
}

// at returns the i-th, from 0, the oldest.
func (q *proposals) at(i int) *proposal { return &q.ring[(q.first+i)&(len(q.ring)-1)] }

// propose offers a command to the Log.
func (m *Manager) propose(now Time, k Kind, paced bool, key []byte, owner, token uint64, lease uint32) (Verdict, wire.Busy) {
	c := &m.command
	c.Kind, c.Paced, c.LeaseMillis, c.Owner, c.Token, c.Key = k, paced, lease, owner, token, key
	c.GrantedAt = 0
	if k == KindGrant {
		c.GrantedAt = now.Wall
	}
	return m.log.Propose(now, c)
}

// pend notes an undecided proposal. Its record stays until it is decided.
func (m *Manager) pend(p proposal) {
	m.records.at(p.record).pins++
	m.proposals.push(p)
}

// fate is what became of a proposal.
type fate uint8

const (
	applied fate = iota // committed: to be applied
	lost                // it will never take effect
	unknown
)

// Oldest returns the oldest undecided proposal. The command is scratch, valid until the next call of any method.
func (m *Manager) Oldest() (*Command, bool) {
	if m.proposals.length == 0 {
		return nil, false
	}
	p := m.proposals.at(0)
	m.command = Command{
		Kind: p.kind, LeaseMillis: p.lease, Owner: p.owner, Token: p.token, GrantedAt: p.grantedAt,
		Key: m.keyOf(m.records.at(p.record)),
	}
	return &m.command, true
}

// ApplyOldest applies the oldest undecided proposal, which is committed, and answers what waited for it.
func (m *Manager) ApplyOldest(now Time) Result { return m.decide(now, applied, 0) }

// Lost says that the oldest undecided proposal will never take effect: its client is told B code.
func (m *Manager) Lost(now Time, code wire.Busy) { m.decide(now, lost, code) }

// Unknown says that the fate of the oldest undecided proposal cannot be known here: its client is told E indeterminate.
func (m *Manager) Unknown(now Time) { m.decide(now, unknown, wire.BusyNotLeader) }

// decide ends the oldest undecided proposal. code is what is told to clients of whose request nothing will come.
func (m *Manager) decide(now Time, f fate, code wire.Busy) (res Result) {
	if m.proposals.length == 0 {
		return Result{}
	}
	p := m.proposals.pop()
	if p.kind == KindGrant {
		res = m.decideGrant(now, &p, f, code)
	} else {
		res = m.decideEnd(now, &p, f, code)
	}
	m.records.at(p.record).pins--
	m.settle(now, p.record)
	return res
}

func (m *Manager) decideGrant(now Time, p *proposal, f fate, code wire.Busy) Result {
	k := m.records.at(p.record)
	m.clearGrantProposed(k)
	w := m.waiters.at(p.waiter)
	w.proposed = false
	switch {
	case f == lost:
		m.endWaiter(p.waiter, wire.OpBusy, uint16(code))
	case f == unknown:
		m.endWaiter(p.waiter, wire.OpError, uint16(wire.Indeterminate))
	case k.flags&held != 0:
		m.requeue(now, p.waiter)
		return Result{Outcome: GrantRejected}
	default:
		m.grant(p.record, p.owner, p.lease, p.grantedAt)
		m.stats.Grants++
		token := k.token
		m.completeGrant(now, p.waiter, k)
		return Result{Outcome: Granted, Token: token}
	}
	return Result{}
}

// requeue puts a waiter whose Grant was rejected back in front of the queue, if it is still to be served.
func (m *Manager) requeue(now Time, w uint32) {
	p := m.waiters.at(w)
	switch {
	case p.session == 0 || p.withdrawals > 0 || m.waits.due(w) <= tickBefore(now.Mono):
		m.endWaiter(w, wire.OpTimeout, 0)
	case !m.leading:
		m.endWaiter(w, wire.OpBusy, uint16(wire.BusyNotLeader))
	case m.refuse == wire.BusyShuttingDown:
		m.endWaiter(w, wire.OpBusy, uint16(m.refuse))
	default:
		m.enqueue(now, w, true)
	}
}

// endWaiter answers a waiter that is in no queue and gets no grant, and its withdrawals.
func (m *Manager) endWaiter(w uint32, op wire.Op, code uint16) {
	p := *m.waiters.at(w)
	key := m.keyOf(m.records.at(p.record))
	m.dropWaiter(w)
	if p.session == 0 {
		return
	}
	switch op {
	case wire.OpTimeout:
		m.timedOut(p.session, p.owner, key)
	case wire.OpBusy:
		m.busy(p.session, wire.Busy(code), p.owner, key)
	default:
		m.failed(p.session, wire.Failure(code), p.owner, key)
	}
	m.answerWithdrawals(&p, op == wire.OpTimeout)
}

// decideEnd ends a proposed Release or Expire.
func (m *Manager) decideEnd(now Time, p *proposal, f fate, code wire.Busy) (res Result) {
	k := m.records.at(p.record)
	key := m.keyOf(k)
	if !p.unseen {
		k.flags &^= endProposed
	}
	found := false
	switch f {
	case applied:
		owner := p.owner
		if p.kind == KindExpire {
			owner = k.owner
		}
		found = k.heldBy(owner, p.token)
		res = m.applyEnd(p.record, p.kind, found)
		m.released(p.session, found, p.owner, p.token, key)
	case lost:
		m.busy(p.session, code, p.owner, key)
	default:
		m.failed(p.session, wire.Indeterminate, p.owner, key)
	}
	if p.session != 0 {
		m.unpend(p.session)
	}
	if !p.unseen {
		m.decideWaiting(now, p.record, f, found, code)
	}
	return res
}

// applyEnd applies a Release or Expire whose grant was found to be the present one, or not.
func (m *Manager) applyEnd(id uint32, kind Kind, found bool) Result {
	switch {
	case found && kind == KindRelease:
		m.end(id)
		m.stats.Released++
		return Result{Outcome: Released}
	case found:
		m.end(id)
		m.stats.Expirations++
		return Result{Outcome: Expired}
	case kind == KindRelease:
		return Result{Outcome: NotFound}
	}
	return Result{Outcome: NotExpired}
}

// unpend counts that a release of s is no longer undecided or waiting.
func (m *Manager) unpend(s Session) {
	ss := m.sessions.at(uint32(s))
	ss.pending--
	m.forgetSession(s, ss)
}

// decideWaiting answers the releases that waited behind a Release or Expire of the present grant. If that has ended the grant they
// come too late; if it found no grant they are judged anew.
func (m *Manager) decideWaiting(now Time, id uint32, f fate, found bool, code wire.Busy) {
	for next := m.takeEnds(id); next != 0; {
		var e waitingEnd
		e, next = m.popEnd(next)
		key := m.keyOf(m.records.at(id))
		switch {
		case f != applied:
			m.busy(e.session, code, e.owner, key)
		case found:
			m.released(e.session, false, e.owner, e.token, key)
		default:
			m.judgeRelease(now, e.session, id, m.index.nodes.at(id).hash, key, e.owner, e.token)
		}
		m.unpend(e.session)
	}
}

// Apply applies a committed command. own says that it is the oldest undecided proposal: see ApplyOldest.
func (m *Manager) Apply(now Time, c *Command, own bool) (res Result) {
	if own {
		return m.ApplyOldest(now)
	}
	hash := m.table.hash(c.Key)
	id := m.table.find(hash, c.Key)
	if c.Kind != KindGrant {
		if id == 0 {
			return m.applyEnd(0, c.Kind, false)
		}
		k := m.records.at(id)
		owner := c.Owner
		if c.Kind == KindExpire {
			owner = k.owner
		}
		res = m.applyEnd(id, c.Kind, k.heldBy(owner, c.Token))
		m.settle(now, id)
		return res
	}
	if id == 0 {
		id = m.add(hash, c.Key)
	} else if m.records.at(id).flags&held != 0 {
		return Result{Outcome: GrantRejected}
	}
	k := m.grant(id, c.Owner, c.LeaseMillis, c.GrantedAt)
	k.session = 0
	m.stats.Grants++
	return Result{Outcome: Granted, Token: k.token}
}

// Lead makes the manager propose, and judge leases. The Log must hold no undecided proposal of an earlier reign.
func (m *Manager) Lead(now Time) { m.leading, m.retryAt = true, now.Mono }

// StepDown ends the reign: what only waits is told B not_leader, and nothing is proposed until Lead. Withdrawals wait for
// their acquires.
func (m *Manager) StepDown(now Time) {
	m.leading = false
	m.refuseQueued(now, wire.BusyNotLeader)
	for i := range m.proposals.length {
		if p := m.proposals.at(i); p.kind != KindGrant && !p.unseen {
			m.decideWaiting(now, p.record, lost, false, wire.BusyNotLeader)
		}
	}
}
