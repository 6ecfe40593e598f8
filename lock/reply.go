package lock

import "ticketing.internal/wire"

// prepare fills the scratch reply with what all replies have.
func (m *Manager) prepare(op wire.Op, code uint16, owner, token uint64, key []byte) *Reply {
	r := &m.reply
	r.Op, r.Code, r.Millis, r.LeaseMillis, r.Ref = op, code, 0, 0, 0
	r.Owner, r.Token, r.Key = owner, token, key
	return r
}

// granted answers the acquire that the present grant of a record belongs to.
func (m *Manager) granted(s Session, id uint32, r *record, key []byte, waitedMillis uint32) {
	m.stats.Replies.Granted++
	p := m.prepare(wire.OpGranted, 0, r.owner, r.token, key)
	p.Millis, p.LeaseMillis, p.Ref = waitedMillis, r.leaseMillis, id
	m.sink.Reply(s, p)
}

// released answers a release: R if it found its grant, else N. Nobody is told who has gone.
func (m *Manager) released(s Session, found bool, owner, token uint64, key []byte) {
	if s == 0 || !m.sessions.at(uint32(s)).open {
		return
	}
	op := wire.OpNotHeld
	if found {
		m.stats.Replies.Released++
		op = wire.OpReleased
	} else {
		m.stats.Replies.NotHeld++
	}
	m.sink.Reply(s, m.prepare(op, 0, owner, token, key))
}

func (m *Manager) timedOut(s Session, owner uint64, key []byte) {
	m.stats.Replies.TimedOut++
	m.sink.Reply(s, m.prepare(wire.OpTimeout, 0, owner, 0, key))
}

func (m *Manager) busy(s Session, code wire.Busy, owner uint64, key []byte) {
	if s == 0 || !m.sessions.at(uint32(s)).open {
		return
	}
	m.stats.Replies.Busy[min(int(code), len(m.stats.Replies.Busy)-1)]++
	m.sink.Reply(s, m.prepare(wire.OpBusy, uint16(code), owner, 0, key))
}

func (m *Manager) failed(s Session, code wire.Failure, owner uint64, key []byte) {
	if s == 0 || !m.sessions.at(uint32(s)).open {
		return
	}
	m.stats.Replies.Failed[min(int(code), len(m.stats.Replies.Failed)-1)]++
	m.sink.Reply(s, m.prepare(wire.OpError, uint16(code), owner, 0, key))
}
