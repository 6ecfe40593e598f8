package lock

import "ticketing.internal/wire"

// Acquire takes up an acquire that was read at now. Every outcome goes to Sink.Reply, possibly before it returns.
func (m *Manager) Acquire(now Time, s Session, r *wire.Request) {
	m.stats.Acquires++
	ss := m.sessions.at(uint32(s))
	if f, ok := m.checkAcquire(s, ss, r); !ok {
		m.failed(s, f, r.Owner, r.Key)
		return
	}
	if code := m.refusal(); code != 0 {
		m.busy(s, code, r.Owner, r.Key)
		return
	}
	if int(ss.inFlight) >= m.limits.InFlight {
		m.busy(s, wire.BusyTooManyInFlight, r.Owner, r.Key)
		return
	}
	hash := m.table.hash(r.Key)
	id := m.table.find(hash, r.Key)
	if id == 0 || m.free(m.records.at(id)) {
		m.acquireFree(now, s, ss, r, id, hash)
	} else {
		m.acquireHeld(now, s, ss, r, id)
	}
}

// checkAcquire checks the fields in the protocol's order.
func (m *Manager) checkAcquire(s Session, ss *session, r *wire.Request) (f wire.Failure, ok bool) {
	if ss.inFlight > 0 && m.line.find(s, r.Owner) != 0 {
		return wire.InvalidOwner, false
	}
	return wire.CheckAcquire(r)
}

// refusal returns what a new acquire is told because of the manager's own state, or 0.
func (m *Manager) refusal() wire.Busy {
	if m.leading || m.refuse != 0 {
		return m.refuse
	}
	return wire.BusyNotLeader
}

// free reports whether a new acquire may have the key at once: nobody holds it, is about to, or waits for it.
func (m *Manager) free(r *record) bool {
	return r.flags&(held|grantProposed) == 0 && m.queueLen(r) == 0
}

// acquireFree proposes the Grant of a free key, whose record is id if it has one.
func (m *Manager) acquireFree(now Time, s Session, ss *session, r *wire.Request, id, hash uint32) {
	if m.occupied >= m.limits.Keys {
		m.busy(s, wire.BusyTooManyKeys, r.Owner, r.Key)
		return
	}
	verdict, code := m.propose(now, KindGrant, false, r.Key, r.Owner, 0, r.Lease)
	if verdict == Refused {
		m.busy(s, code, r.Owner, r.Key)
		return
	}
	if id == 0 {
		id = m.add(hash, r.Key)
	}
	if verdict == ApplyNow {
		g := m.grant(id, r.Owner, r.Lease, now.Wall)
		m.stats.Grants++
		m.hold(g, s)
		m.granted(s, id, g, r.Key, 0)
		return
	}
	w := m.addWaiter(now, s, ss, id, r)
	m.pendGrant(now, w)
}

// acquireHeld queues an acquire of a key that is not free. With nobody before it, and the end of the present grant
// undecided, its Grant is proposed at once.
func (m *Manager) acquireHeld(now Time, s Session, ss *session, r *wire.Request, id uint32) {
	k := m.records.at(id)
	switch {
	case r.Wait == 0:
		m.timedOut(s, r.Owner, r.Key)
		return
	case m.line.queued >= m.limits.Waiters || m.queueLen(k) >= m.limits.WaitersPerKey:
		m.busy(s, wire.BusyTooManyWaiters, r.Owner, r.Key)
		return
	}
	m.enqueue(now, m.addWaiter(now, s, ss, id, r), false)
	if k.flags&endProposed != 0 {
		m.handOff(now, id)
	}
}

// handOff proposes the Grant of the first waiter of a key, if there is one and no Grant is undecided already. If the Log refuses
// it, it is offered again: when the end of the present grant is decided, or by retry once the key is free.
func (m *Manager) handOff(now Time, id uint32) {
	k := m.records.at(id)
	if k.flags&grantProposed != 0 || m.queueLen(k) == 0 {
		return
	}
	if !m.mayOffer(now) {
		m.makeLate(id)
		return
	}
	w := m.queues.at(k.queue).first
	p := m.waiters.at(w)
	verdict, _ := m.propose(now, KindGrant, true, m.keyOf(k), p.owner, 0, p.lease)
	switch verdict {
	case ApplyNow:
		m.dequeue(w)
		p.waitedMillis = waited(p.readAt, now)
		m.grant(id, p.owner, p.lease, now.Wall)
		m.stats.Grants++
		m.completeGrant(now, w, k)
	case Pending:
		m.dequeue(w)
		m.leases.clear(id)
		m.pendGrant(now, w)
	default:
		m.postpone(now, id)
	}
}

// pendGrant notes that the Grant of a waiter, which is in no queue, is undecided.
func (m *Manager) pendGrant(now Time, w uint32) {
	p := m.waiters.at(w)
	p.waitedMillis = waited(p.readAt, now)
	p.proposed = true
	m.setGrantProposed(m.records.at(p.record))
	m.pend(proposal{
		kind: KindGrant, record: p.record, waiter: w, owner: p.owner, lease: p.lease, grantedAt: now.Wall,
	})
}

// waited returns the whole ms from readAt to now.
func waited(readAt int64, now Time) uint32 {
	return uint32(max(now.Mono-readAt, 0) / nanosPerMilli)
}

// completeGrant gives a waiter, which is in no queue, the grant that its record holds now.
func (m *Manager) completeGrant(now Time, w uint32, k *record) {
	p := *m.waiters.at(w)
	if p.queued {
		m.stats.Handoffs++
	}
	m.dropWaiter(w)
	m.hold(k, p.session)
	if p.session == 0 {
		m.TakeBack(now, p.record, k.token)
		return
	}
	m.granted(p.session, p.record, k, m.keyOf(k), p.waitedMillis)
	m.answerWithdrawals(&p, false)
}

// answerWithdrawals answers the releases with token 0 that waited for the fate of a waiter. left says that the waiter went without
// a grant: then the first of them is answered R, and the others N.
func (m *Manager) answerWithdrawals(p *waiter, left bool) {
	key := m.keyOf(m.records.at(p.record))
	for i := range p.withdrawals {
		m.released(p.session, left && i == 0, p.owner, 0, key)
	}
}
