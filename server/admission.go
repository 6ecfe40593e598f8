package server

import (
	"net/netip"
	"sync"
	"time"
)

// Limits of a connection's life outside of a session.
const (
	handshakeLimit   = 5 * time.Second // from accept to the proof of the token, TLS included
	handshakeSlots   = 1024            // connections in their handshake at a time
	handshakeGrace   = time.Second     // a handshake older than this makes room when all slots are taken
	denialDelay      = 100 * time.Millisecond
	lingerLimit      = time.Second      // how long input is thrown away after the last reply
	legacyKeepAlive  = 10 * time.Second // silence after which a v0 client is sent a newline
	slowReaderLimit  = 10 * time.Second // without progress
	acceptRetryDelay = 100 * time.Millisecond
)

// admission counts what connections may take of the server as a whole: places, handshakes at a time, unsent bytes.
type admission struct {
	mu sync.Mutex

	// Guarded by mu.
	places      int // connections that there may be
	connections int
	accepted    uint64
	refused     uint64
	shaking     shakeList
	sources     map[netip.Addr]int // handshakes under way by address
	unsent      map[*conn]int      // bytes that the peers of connections do not take
	unsentBytes int
	unsentLimit int

	room chan struct{} // gets a value when a handshake slot is free again
}

// shakeList is the list of connections in their handshake, oldest first.
type shakeList struct {
	head, tail *conn
	count      int
}

// shakeEntry is a connection's place in the list.
type shakeEntry struct {
	in         bool
	prev, next *conn
	since      int64 // mono ns
}

func newAdmission(places, unsentLimit int) *admission {
	return &admission{
		places: places, unsentLimit: unsentLimit,
		sources: map[netip.Addr]int{}, unsent: map[*conn]int{}, room: make(chan struct{}, 1),
	}
}

// admit gives c a place and a handshake slot. It reports false when all places are taken.
func (a *admission) admit(c *conn, now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.connections >= a.places {
		a.refused++
		return false
	}
	a.connections++
	a.accepted++
	a.startShaking(c, now)
	return true
}

func (a *admission) startShaking(c *conn, now int64) {
	s := &a.shaking
	c.shaking = shakeEntry{in: true, prev: s.tail, since: now}
	if s.tail == nil {
		s.head = c
	} else {
		s.tail.shaking.next = c
	}
	s.tail = c
	s.count++
	a.sources[c.remote.Addr()]++
}

// proved frees the handshake slot of c.
func (a *admission) proved(c *conn) {
	a.mu.Lock()
	a.stopShaking(c)
	a.mu.Unlock()
}

func (a *admission) stopShaking(c *conn) {
	if !c.shaking.in {
		return
	}
	s := &a.shaking
	prev, next := c.shaking.prev, c.shaking.next
	if prev == nil {
		s.head = next
	} else {
		prev.shaking.next = next
	}
	if next == nil {
		s.tail = prev
	} else {
		next.shaking.prev = prev
	}
	c.shaking = shakeEntry{}
	s.count--
	source := c.remote.Addr()
	if a.sources[source]--; a.sources[source] == 0 {
		delete(a.sources, source)
	}
	select {
	case a.room <- struct{}{}:
	default:
	}
}

// left frees all that c had.
func (a *admission) left(c *conn) {
	a.mu.Lock()
	a.stopShaking(c)
	a.connections--
	a.unsentBytes -= a.unsent[c]
	delete(a.unsent, c)
	a.mu.Unlock()
}

// full reports whether every handshake slot is taken, and then which connection has to make room: of those that have been
// at it for longer than the grace, the oldest of the source with the most handshakes; nil when there is none yet.
func (a *admission) full(now int64) (victim *conn, full bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shaking.count < handshakeSlots {
		return nil, false
	}
	most := 0
	for c := a.shaking.head; c != nil && now-c.shaking.since > int64(handshakeGrace); c = c.shaking.next {
		if n := a.sources[c.remote.Addr()]; n > most {
			victim, most = c, n
		}
	}
	return victim, true
}

// hold notes how many bytes c's peer does not take. When all connections together have too many, the one with the most is
// returned, to be closed.
func (a *admission) hold(c *conn, unsent int) (victim *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsentBytes += unsent - a.unsent[c]
	a.unsent[c] = unsent
	if unsent == 0 {
		delete(a.unsent, c)
	}
	if a.unsentBytes <= a.unsentLimit {
		return nil
	}
	most := -1
	for other, n := range a.unsent {
		if n > most {
			victim, most = other, n
		}
	}
	return victim
}

// load returns how many connections there are, were ever admitted, and were refused.
func (a *admission) load() (connections int, accepted, refused uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.connections, a.accepted, a.refused
}
