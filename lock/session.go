package lock

import (
	"strings"

	"ticketing.internal/wire"
)

// Session is one authenticated connection. Numbers start at 1, are dense, and are used again: a number is free once its
// connection has closed and no key granted to it is held any more. 0 is no session.
type Session uint32

// Client says who is behind a session, for people who look at who holds what.
type Client struct {
	Name string // as the client gave it; may be empty
	Addr string // host:port
}

// host returns the address without the port.
func (c *Client) host() string { return c.Addr[:max(strings.LastIndexByte(c.Addr, ':'), 0)] }

// Reply is what the manager decided about one request.
type Reply struct {
	Op          wire.Op
	Code        uint16 // B: a wire.Busy; E: a wire.Failure; else 0
	Millis      uint32 // A: ms from the reading of the request to the proposing of the Grant, rounded down; else 0
	LeaseMillis uint32 // A: the lease in ms, which starts at the EndBatch to come; else 0
	Ref         uint32 // A: names the grant in TakeBack; else 0
	Owner       uint64 // of the request that is answered
	Token       uint64 // A: the grant's; R, N: the one that the release named; else 0
	Key         []byte // of the request; valid during the call
}

// Sink takes what leaves the manager. Its methods are called from within the manager's and must not call it back.
type Sink interface {
	// Reply answers a request of s, which is open. r is the manager's scratch: copy what is kept.
	Reply(s Session, r *Reply)

	// ForeignRelease tells that s, which is open, gives back a key that was granted to a client at another host: a line for
	// the audit. key is valid during the call.
	ForeignRelease(s Session, key []byte, owner, token uint64, grantedTo Client)
}

// session is what the manager knows of a connection. It outlives the connection as long as a key or a release refers to it.
type session struct {
	client   Client
	open     bool
	waiters  uint32 // first of its unanswered acquires
	inFlight uint32 // number of its unanswered acquires
	held     uint32 // keys held that were granted to it
	pending  uint32 // its undecided and waiting releases
}

// OpenSession starts a session for a connection.
func (m *Manager) OpenSession(c Client) Session {
	id, grown := m.sessionIDs.alloc()
	if grown {
		m.sessions.add(int(id >> chunkBits))
	}
	*m.sessions.at(id) = session{client: c, open: true}
	return Session(id)
}

// CloseSession ends s. Its waiters leave their queues; a grant that is under way to one of them is given back once it is
// applied. What the session holds stays held.
func (m *Manager) CloseSession(now Time, s Session) {
	ss := m.sessions.at(uint32(s))
	for ss.waiters != 0 {
		w := ss.waiters
		if m.waiters.at(w).proposed {
			m.leaveSession(w)
			continue
		}
		m.settleQueue(now, m.leaveQueue(w).record)
	}
	ss.open = false
	m.heldByOpen -= int(ss.held)
	m.forgetSession(s, ss)
}

// forgetSession frees the number of s once nothing refers to it.
func (m *Manager) forgetSession(s Session, ss *session) {
	if ss.open || ss.held != 0 || ss.pending != 0 {
		return
	}
	*ss = session{}
	m.sessionIDs.free(uint32(s))
}

// HeldByOpenSessions counts the held keys whose granting session is still open.
func (m *Manager) HeldByOpenSessions() int { return m.heldByOpen }

// hold counts a grant for the session that it went to; unhold counts it off when it has ended.
func (m *Manager) hold(r *record, s Session) {
	r.session = s
	if s == 0 {
		return
	}
	ss := m.sessions.at(uint32(s))
	ss.held++
	if ss.open {
		m.heldByOpen++
	}
}

func (m *Manager) unhold(r *record) {
	s := r.session
	if s == 0 {
		return
	}
	ss := m.sessions.at(uint32(s))
	ss.held--
	if ss.open {
		m.heldByOpen--
		return
	}
	m.forgetSession(s, ss)
}
