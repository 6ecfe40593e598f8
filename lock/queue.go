package lock

import "ticketing.internal/wire"

// waiter is an acquire that is not answered yet: in the queue of its key until its Grant is proposed, then until that is
// decided.
type waiter struct {
	owner  uint64
	readAt int64 // mono ns

	record  uint32
	session Session // 0: the connection has ended
	lease   uint32  // ms

	next, prev               uint32 // in the queue of the key
	sessionNext, sessionPrev uint32 // in the list of the session

	waitedMillis uint32 // from the reading to the proposing
	withdrawals  uint32 // releases with token 0 that wait for the decision
	proposed     bool   // its Grant is undecided; it is in no queue and has no timer
	queued       bool   // it is, or was, in a queue
}

// queue is who waits for a key.
type queue struct {
	first, last uint32 // waiters
	length      uint32
	firstEnd    uint32 // releases that wait for the undecided Release or Expire
	lastEnd     uint32
}

// waitingEnd is a release of the present grant that came while a Release or an Expire of it was undecided.
type waitingEnd struct {
	owner, token uint64
	session      Session
	next         uint32
}

// line holds everything that waits: acquires in the queue of a key, and releases behind one that is undecided.
type line struct {
	waiters   slab[waiter]
	waiterIDs ids    // of waiters, owners and waits
	owners    index  // by session and owner
	waits     wheel  // set while in a queue and the wait is not over
	secret    uint64 // of the hash of owners
	queued    int    // waiters in queues

	queues   slab[queue]
	queueIDs ids

	ends   slab[waitingEnd]
	endIDs ids
}

func (l *line) init(secret uint64) {
	l.secret = secret
	l.owners.init()
	l.waits.init()
}

// trim gives back memory that is not needed any more, a little at a time. It reports whether there was any.
func (l *line) trim() (trimmed bool) {
	if c := l.waiterIDs.trim(); c != noChunk {
		l.waiters.drop(c)
		dropLinks(&l.owners, &l.waits, c)
		trimmed = true
	}
	if c := l.queueIDs.trim(); c != noChunk {
		l.queues.drop(c)
		trimmed = true
	}
	if c := l.endIDs.trim(); c != noChunk {
		l.ends.drop(c)
		trimmed = true
	}
	return trimmed
}

func (l *line) hash(s Session, owner uint64) uint32 {
	return uint32(fold(owner^l.secret, uint64(s)^mixB))
}

// find returns the waiter of that session and owner, or 0.
func (l *line) find(s Session, owner uint64) uint32 {
	for w := l.owners.first(l.hash(s, owner)); w != 0; w = l.owners.then(w) {
		if p := l.waiters.at(w); p.session == s && p.owner == owner {
			return w
		}
	}
	return 0
}

// addWaiter makes a waiter of an acquire. It is in no queue yet; the timer of its wait knows when it is due, but is not set.
func (m *Manager) addWaiter(now Time, s Session, ss *session, record uint32, r *wire.Request) uint32 {
	l := &m.line
	id, grown := l.waiterIDs.alloc()
	if grown {
		c := int(id >> chunkBits)
		l.waiters.add(c)
		addLinks(&l.owners, &l.waits, c)
	}
	*l.waiters.at(id) = waiter{
		owner: r.Owner, readAt: now.Mono, record: record, session: s, lease: r.Lease, sessionNext: ss.waiters,
	}
	if ss.waiters != 0 {
		l.waiters.at(ss.waiters).sessionPrev = id
	}
	ss.waiters = id
	ss.inFlight++
	l.owners.insert(id, l.hash(s, r.Owner))
	over := tickBefore(now.Mono)
	if r.Wait > 0 {
		over = tickAfter(now.Mono + int64(r.Wait)*nanosPerMilli)
	}
	l.waits.setDue(id, over)
	return id
}

// leaveSession unlinks a waiter from its session, whose connection has ended or which no longer waits for it.
func (m *Manager) leaveSession(w uint32) {
	l := &m.line
	p := l.waiters.at(w)
	ss := m.sessions.at(uint32(p.session))
	if p.sessionNext != 0 {
		l.waiters.at(p.sessionNext).sessionPrev = p.sessionPrev
	}
	if p.sessionPrev != 0 {
		l.waiters.at(p.sessionPrev).sessionNext = p.sessionNext
	} else {
		ss.waiters = p.sessionNext
	}
	ss.inFlight--
	l.owners.remove(w)
	p.session = 0
}

// dropWaiter forgets a waiter that is in no queue.
func (m *Manager) dropWaiter(w uint32) {
	l := &m.line
	if l.waiters.at(w).session != 0 {
		m.leaveSession(w)
	}
	l.waiterIDs.free(w)
}

// queueOf returns the queue of a record, made if there is none.
func (m *Manager) queueOf(record uint32) *queue {
	l := &m.line
	r := m.records.at(record)
	if r.queue == 0 {
		id, grown := l.queueIDs.alloc()
		if grown {
			l.queues.add(int(id >> chunkBits))
		}
		*l.queues.at(id) = queue{}
		r.queue = id
	}
	return l.queues.at(r.queue)
}

// dropQueue forgets the queue of a record if it is empty.
func (m *Manager) dropQueue(record uint32) {
	l := &m.line
	r := m.records.at(record)
	if q := l.queues.at(r.queue); q.length != 0 || q.firstEnd != 0 {
		return
	}
	l.queueIDs.free(r.queue)
	r.queue = 0
}

// queueLen returns how many wait for a key.
func (m *Manager) queueLen(r *record) int {
	if r.queue == 0 {
		return 0
	}
	return int(m.line.queues.at(r.queue).length)
}

// enqueue puts a waiter at the end of the queue of its key, or at the front if it has been there already, and sets the timer of
// its wait.
func (m *Manager) enqueue(now Time, w uint32, inFront bool) {
	l := &m.line
	p := l.waiters.at(w)
	q := m.queueOf(p.record)
	if inFront {
		p.prev, p.next = 0, q.first
	} else {
		p.prev, p.next = q.last, 0
	}
	*l.linkTo(p.prev, &q.first) = w
	*l.linkFrom(p.next, &q.last) = w
	q.length++
	p.queued = true
	l.queued++
	l.waits.set(w, l.waits.due(w), tickBefore(now.Mono))
}

// dequeue takes a waiter out of the queue of its key and stops its timer.
func (m *Manager) dequeue(w uint32) {
	l := &m.line
	p := l.waiters.at(w)
	q := l.queues.at(m.records.at(p.record).queue)
	*l.linkTo(p.prev, &q.first) = p.next
	*l.linkFrom(p.next, &q.last) = p.prev
	p.prev, p.next = 0, 0
	q.length--
	l.queued--
	l.waits.clear(w)
	m.dropQueue(p.record)
}

// leaveQueue takes a waiter out of its queue for good and returns what it was.
func (m *Manager) leaveQueue(w uint32) waiter {
	p := *m.line.waiters.at(w)
	m.dequeue(w)
	m.dropWaiter(w)
	return p
}

// linkTo returns the link that leads forward from prev, or first if prev is 0.
func (l *line) linkTo(prev uint32, first *uint32) *uint32 {
	if prev == 0 {
		return first
	}
	return &l.waiters.at(prev).next
}

// linkFrom returns the link that leads back from next, or last if next is 0.
func (l *line) linkFrom(next uint32, last *uint32) *uint32 {
	if next == 0 {
		return last
	}
	return &l.waiters.at(next).prev
}

// awaitEnd lets a release wait for the undecided Release or Expire of its grant. It reports whether there was room.
func (m *Manager) awaitEnd(s Session, record uint32, owner, token uint64) bool {
	l := &m.line
	if l.endIDs.used >= m.limits.Waiters {
		return false
	}
	id, grown := l.endIDs.alloc()
	if grown {
		l.ends.add(int(id >> chunkBits))
	}
	*l.ends.at(id) = waitingEnd{owner: owner, token: token, session: s}
	q := m.queueOf(record)
	if q.lastEnd == 0 {
		q.firstEnd = id
	} else {
		l.ends.at(q.lastEnd).next = id
	}
	q.lastEnd = id
	m.sessions.at(uint32(s)).pending++
	return true
}

// takeEnds removes all waiting releases from the queue of a record, and returns the first of the list.
func (m *Manager) takeEnds(record uint32) (first uint32) {
	r := m.records.at(record)
	if r.queue == 0 {
		return 0
	}
	q := m.line.queues.at(r.queue)
	first, q.firstEnd, q.lastEnd = q.firstEnd, 0, 0
	m.dropQueue(record)
	return first
}

// popEnd takes the first of a list of waiting releases and returns it, and the rest.
func (m *Manager) popEnd(id uint32) (e waitingEnd, rest uint32) {
	l := &m.line
	e = *l.ends.at(id)
	l.endIDs.free(id)
	return e, e.next
}
