package lock

import (
	"bytes"

	"ticketing.internal/wire"
)

// Release takes up a release that was read at now, or a withdrawal if its token is 0.
func (m *Manager) Release(now Time, s Session, r *wire.Request) {
	if r.Token == 0 {
		m.withdraw(now, s, r)
		return
	}
	m.stats.Releases++
	if f, ok := m.checkRelease(s, r); !ok {
		m.failed(s, f, r.Owner, r.Key)
		return
	}
	if !m.leading {
		code := wire.BusyNotLeader
		if m.refuse == wire.BusyNoLeader {
			code = m.refuse
		}
		m.busy(s, code, r.Owner, r.Key)
		return
	}
	hash := m.table.hash(r.Key)
	m.judgeRelease(now, s, m.table.find(hash, r.Key), hash, r.Key, r.Owner, r.Token)
}

func (m *Manager) checkRelease(s Session, r *wire.Request) (f wire.Failure, ok bool) {
	if m.sessions.at(uint32(s)).inFlight > 0 && m.line.find(s, r.Owner) != 0 {
		return wire.InvalidOwner, false
	}
	return wire.CheckRelease(r)
}

// withdraw takes a waiter out of its queue. One whose Grant is undecided cannot leave: the withdrawal waits for the
// decision. It is answered R or N only.
func (m *Manager) withdraw(now Time, s Session, r *wire.Request) {
	m.stats.Withdrawals++
	var w uint32
	if m.sessions.at(uint32(s)).inFlight > 0 {
		w = m.line.find(s, r.Owner)
	}
	if w == 0 || !bytes.Equal(m.keyOf(m.records.at(m.waiters.at(w).record)), r.Key) {
		m.released(s, false, r.Owner, 0, r.Key)
		return
	}
	p := m.waiters.at(w)
	if p.proposed {
		p.withdrawals++
		return
	}
	record := m.leaveQueue(w).record
	m.timedOut(s, r.Owner, r.Key)
	m.released(s, true, r.Owner, 0, r.Key)
	m.settleQueue(now, record)
}

// judgeRelease decides or proposes a release of a key whose record is id, if it has one.
func (m *Manager) judgeRelease(now Time, s Session, id, hash uint32, key []byte, owner, token uint64) {
	if id != 0 {
		k := m.records.at(id)
		switch {
		case !k.heldBy(owner, token):
		case k.flags&endProposed == 0:
			m.proposeRelease(now, s, id)
			return
		case m.awaitEnd(s, id, owner, token):
			return
		default:
			m.busy(s, wire.BusyOverloaded, owner, key)
			return
		}
	}
	if token > m.counter {
		m.proposeUnseen(now, s, id, hash, key, owner, token)
		return
	}
	m.released(s, false, owner, token, key)
}

// heldBy reports whether the key is held by exactly this owner and token.
func (r *record) heldBy(owner, token uint64) bool {
	return r.flags&held != 0 && r.token == token && r.owner == owner
}

// proposeRelease proposes the Release of the present grant of a record, for s, or 0 to take it back. The Grant of the first
// waiter goes with it.
func (m *Manager) proposeRelease(now Time, s Session, id uint32) {
	k := m.records.at(id)
	key := m.keyOf(k)
	verdict, code := m.propose(now, KindRelease, s == 0, key, k.owner, k.token, 0)
	if verdict == Refused {
		if s == 0 {
			m.postpone(now, id)
			return
		}
		m.busy(s, code, k.owner, key)
		return
	}
	if s != k.session && s != 0 && k.session != 0 {
		m.auditRelease(s, k, key)
	}
	if verdict == Pending {
		m.pendEnd(now, proposal{kind: KindRelease, record: id, session: s, owner: k.owner, token: k.token})
		return
	}
	owner, token := k.owner, k.token
	m.applyEnd(id, KindRelease, true)
	m.released(s, true, owner, token, key)
	m.settle(now, id)
}

// auditRelease tells the Sink about a release that comes from another host than its grant went to.
func (m *Manager) auditRelease(s Session, k *record, key []byte) {
	by, to := m.sessions.at(uint32(s)), &m.sessions.at(uint32(k.session)).client
	if by.open && by.client.host() != to.host() {
		m.sink.ForeignRelease(s, key, k.owner, k.token, *to)
	}
}

// proposeUnseen proposes the Release of a token that this node has not seen granted. Answering N from this node's own state could
// deny a grant that another leader has made. Nothing waits for such a Release.
func (m *Manager) proposeUnseen(now Time, s Session, id, hash uint32, key []byte, owner, token uint64) {
	verdict, code := m.propose(now, KindRelease, false, key, owner, token, 0)
	switch verdict {
	case ApplyNow:
		m.released(s, false, owner, token, key)
	case Pending:
		if id == 0 {
			id = m.add(hash, key)
		}
		m.sessions.at(uint32(s)).pending++
		m.pend(proposal{kind: KindRelease, unseen: true, record: id, session: s, owner: owner, token: token})
	default:
		m.busy(s, code, owner, key)
	}
}

// proposeExpire proposes the Expire of the present grant of a record. The Grant of the first waiter goes with it.
func (m *Manager) proposeExpire(now Time, id uint32) {
	k := m.records.at(id)
	verdict, _ := m.propose(now, KindExpire, true, m.keyOf(k), 0, k.token, 0)
	switch verdict {
	case ApplyNow:
		m.applyEnd(id, KindExpire, true)
		m.settle(now, id)
	case Pending:
		m.pendEnd(now, proposal{kind: KindExpire, record: id, token: k.token})
	default:
		m.postpone(now, id)
	}
}

// pendEnd notes that the Release or Expire of the present grant is undecided. Its lease is not judged meanwhile.
func (m *Manager) pendEnd(now Time, p proposal) {
	m.records.at(p.record).flags |= endProposed
	m.leases.clear(p.record)
	if p.session != 0 {
		m.sessions.at(uint32(p.session)).pending++
	}
	m.pend(p)
	m.handOff(now, p.record)
}

// end makes a held key free.
func (m *Manager) end(id uint32) {
	m.remove(id)
	m.unhold(m.records.at(id))
}

// TakeBack gives back the grant that a Reply with this Ref and Token told of, because it could not be delivered.
// It does nothing if the grant is gone.
func (m *Manager) TakeBack(now Time, ref uint32, token uint64) {
	if !m.table.ids.inUse(ref) {
		return
	}
	k := m.records.at(ref)
	if k.flags&held == 0 || k.token != token {
		return
	}
	k.flags |= takenBack
	switch {
	case k.flags&endProposed != 0:
		// The undecided Release or Expire ends the grant, or else settle comes back to it.
	case m.mayOffer(now):
		m.proposeRelease(now, 0, ref)
	default:
		m.makeLate(ref)
	}
}

// mayOffer reports whether the manager may propose something of its own accord: it leads, and the Log has not refused just
// now.
func (m *Manager) mayOffer(now Time) bool { return m.leading && now.Mono >= m.retryAt }

// postpone makes the manager try again later what the Log has just refused: to end the present grant of a record, or to
// hand it off if it is free.
func (m *Manager) postpone(now Time, id uint32) {
	m.retryAt = now.Mono + retryPause
	m.makeLate(id)
}

// makeLate puts a record among the late, for retry. It does nothing while the end of the grant is undecided or its lease has not
// started: then the record will be looked at anyway.
func (m *Manager) makeLate(id uint32) {
	if m.records.at(id).flags&(endProposed|fresh) == 0 {
		m.leases.clear(id)
		m.leases.setLate(id)
	}
}

// settle restores the invariants of a record after something about it was decided: a held key has a timer, a free one goes to the
// next waiter, and a record that nothing needs is dropped.
func (m *Manager) settle(now Time, id uint32) {
	k := m.records.at(id)
	if k.flags&held != 0 {
		switch {
		case k.flags&(endProposed|fresh) != 0 || m.leases.linked(id):
		case k.flags&takenBack != 0:
			m.leases.setLate(id)
		default:
			t := tickBefore(now.Mono)
			m.leases.set(id, max(m.leases.due(id), t), t)
		}
		return
	}
	if m.leading && k.queue != 0 {
		m.handOff(now, id)
	}
	switch {
	case k.flags&(held|grantProposed) != 0 || k.queue != 0:
	case k.pins != 0:
		m.leases.clear(id)
	default:
		m.drop(id)
	}
}

// settleQueue settles a record whose queue somebody has left, if that was the last one. A queue that goes on has had its
// hand-off, or will have it from retry.
func (m *Manager) settleQueue(now Time, id uint32) {
	if m.records.at(id).queue == 0 {
		m.settle(now, id)
	}
}
