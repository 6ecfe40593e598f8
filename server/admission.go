package server

import (
	"net/netip"
	"sync"
	"time"
)

// Time limits and bounds of a connection before its session opens, after it ends, and while its peer does not read.
const (
	handshakeLimit   = 5 * time.Second // from accept to the proof of the token, TLS included
	handshakeSlots   = 1024            // connections in their handshake at a time
	handshakeGrace   = time.Second     // a handshake older than this makes room when all slots are taken
	denialDelay      = 100 * time.Millisecond
	lingerLimit      = time.Second      // how long input is discarded after the last reply
	legacyKeepAlive  = 10 * time.Second // silence after which a v0 client is sent a newline
	slowReaderLimit  = 10 * time.Second // without progress
	acceptRetryDelay = 100 * time.Millisecond
)

// admission keeps the budgets that all client connections share: connections, handshakes under way, and unsent bytes.
type admission struct {
	mu sync.Mutex

	// Guarded by mu.
	places      int // most connections at a time
	connections int
	accepted    uint64
	refused     uint64
	handshakes  handshakeList
	sources     map[netip.Addr]int // handshakes under way by address
	unsent      map[*conn]int      // bytes of replies that the connection's peer has not taken
	unsentBytes int
	unsentLimit int

	room chan struct{} // gets a value when a handshake slot is free again
}

// handshakeList lists the connections whose handshake is under way, oldest first.
type handshakeList struct {
	head, tail *conn
	count      int
}

// handshakeEntry is a connection's place in the list.
type handshakeEntry struct {
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
	a.startHandshake(c, now)
	return true
}

func (a *admission) startHandshake(c *conn, now int64) {
	s := &a.handshakes
	c.handshakeEntry = handshakeEntry{in: true, prev: s.tail, since: now}
	if s.tail == nil {
		s.head = c
	} else {
		s.tail.handshakeEntry.next = c
	}
	s.tail = c
	s.count++
	a.sources[c.remote.Addr()]++
}

// proved frees the handshake slot of c.
func (a *admission) proved(c *conn) {
	a.mu.Lock()
	a.endHandshake(c)
	a.mu.Unlock()
}

func (a *admission) endHandshake(c *conn) {
	if !c.handshakeEntry.in {
		return
	}
	s := &a.handshakes
	prev, next := c.handshakeEntry.prev, c.handshakeEntry.next
	if prev == nil {
		s.head = next
	} else {
		prev.handshakeEntry.next = next
	}
	if next == nil {
		s.tail = prev
	} else {
		next.handshakeEntry.prev = prev
	}
	c.handshakeEntry = handshakeEntry{}
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

// remove gives back everything that c has here.
func (a *admission) remove(c *conn) {
	a.mu.Lock()
	a.endHandshake(c)
	a.connections--
	a.unsentBytes -= a.unsent[c]
	delete(a.unsent, c)
	a.mu.Unlock()
}

// full reports whether every handshake slot is taken. If so, victim is the connection to evict: among the handshakes older than
// handshakeGrace, the oldest one from the address that has the most under way. It is nil while none is that old.
func (a *admission) full(now int64) (victim *conn, full bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.handshakes.count < handshakeSlots {
		return nil, false
	}
	most := 0
	for c := a.handshakes.head; c != nil && now-c.handshakeEntry.since > int64(handshakeGrace); c = c.handshakeEntry.next {
		if n := a.sources[c.remote.Addr()]; n > most {
			victim, most = c, n
		}
	}
	return victim, true
}

// noteUnsent records how many bytes of replies c's peer has not taken. When that is too much over all connections, victim is the
// connection with the most, which the caller closes.
func (a *admission) noteUnsent(c *conn, unsent int) (victim *conn) {
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
