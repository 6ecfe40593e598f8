package lock

import (
	"errors"
	"fmt"
)

// CheckInvariants walks over everything and returns what is broken. For tests: it takes time and memory.
// To be called after EndBatch.
func (m *Manager) CheckInvariants() error {
	c := &checker{m: m}
	c.checkRecords()
	c.checkProposals()
	c.checkWaiters()
	c.checkQueues()
	c.checkSessions()
	c.checkCounts()
	c.checkIDs("records", &m.table.ids)
	c.checkIDs("waiters", &m.waiterIDs)
	c.checkIDs("queues", &m.queueIDs)
	c.checkIDs("ends", &m.endIDs)
	c.checkIDs("sessions", &m.sessionIDs)
	c.checkIndex("keys", &m.index, &m.table.ids)
	c.checkIndex("owners", &m.owners, &m.waiterIDs)
	c.checkWheel("leases", &m.leases, &m.table.ids)
	c.checkWheel("waits", &m.waits, &m.waiterIDs)
	return errors.Join(c.broken...)
}

// checker collects what is broken.
type checker struct {
	m      *Manager
	broken []error
}

func (c *checker) want(ok bool, format string, args ...any) {
	if !ok && len(c.broken) < 10 {
		c.broken = append(c.broken, fmt.Errorf(format, args...))
	}
}

// checkRecords checks each record by itself.
func (c *checker) checkRecords() {
	m := c.m
	freshIDs := make(map[uint32]bool)
	for _, id := range m.freshIDs {
		freshIDs[id] = true
	}
	tokens := make(map[uint64]uint32)
	places := make(map[[2]uint32]uint32)
	var inClass [len(m.keys.classes)]int
	for id := m.table.ids.next(0); id != 0; id = m.table.ids.next(id) {
		r := m.records.at(id)
		key := m.keyOf(r)
		c.want(len(key) > 0 && len(key) <= maxKey, "record %d: key of %d bytes", id, len(key))
		if len(key) > inlineKey {
			place := [2]uint32{uint32(classOf(len(key))), r.keyRef()}
			c.want(places[place] == 0, "records %d and %d have one place in the arena", id, places[place])
			c.want(m.keys.classes[place[0]].ids.inUse(place[1]), "record %d: key %q is in a free place", id, key)
			if places[place] == 0 {
				inClass[place[0]]++
			}
			places[place] = id
		}
		hash := m.table.hash(key)
		c.want(m.table.find(hash, key) == id, "record %d: key %q is found as %d", id, key, m.table.find(hash, key))
		c.want(m.index.nodes.at(id).hash == hash, "record %d: key %q is indexed by another hash", id, key)
		c.checkFlags(id, r, freshIDs[id])
		if r.flags&held != 0 {
			c.want(r.token <= m.counter, "record %d: token %d above the counter, %d", id, r.token, m.counter)
			c.want(tokens[r.token] == 0, "records %d and %d have token %d", id, tokens[r.token], r.token)
			tokens[r.token] = id
		}
	}
	for class := range m.keys.classes {
		k, n := &m.keys.classes[class], inClass[class]
		c.want(k.ids.used == n, "arena class %d: %d places in use for %d keys", class, k.ids.used, n)
		c.checkIDs("arena", &k.ids)
	}
}

// checkFlags checks that a record is needed, and that its timer is set if and only if something is to come of it.
func (c *checker) checkFlags(id uint32, r *record, listed bool) {
	m := c.m
	waiting := m.queueLen(r) > 0
	isHeld := r.flags&held != 0
	late := m.leases.lateAt(id)
	c.want(isHeld || r.flags&grantProposed != 0 || r.queue != 0 || r.pins != 0, "record %d: kept for nothing", id)
	c.want(isHeld || r.flags&(fresh|takenBack) == 0, "record %d: flags %b of a grant, but not held", id, r.flags)
	c.want(r.flags&fresh == 0 || listed, "record %d: fresh, but not listed", id)
	switch {
	case isHeld && r.flags&(endProposed|fresh) != 0:
		c.want(!m.leases.linked(id), "record %d: timer set while the end is undecided or the lease not started", id)
	case isHeld:
		c.want(m.leases.linked(id), "record %d: held for ever", id)
		c.want(r.flags&takenBack == 0 || late, "record %d: taken back, but not late", id)
	case waiting:
		c.want(m.leading, "record %d: a queue where nobody leads", id)
		c.want(late == (r.flags&(grantProposed|endProposed) == 0), "record %d: free with a queue, late=%v flags=%b", id, late, r.flags)
	default:
		c.want(!m.leases.linked(id), "record %d: timer set for a free key without a queue", id)
	}
}

// checkProposals checks that proposals, records and waiters say the same of what is undecided.
func (c *checker) checkProposals() {
	m := c.m
	pins, grants, ends := map[uint32]uint32{}, map[uint32]int{}, map[uint32]int{}
	for i := range m.proposals.length {
		p := m.proposals.at(i)
		pins[p.record]++
		switch {
		case p.kind == KindGrant:
			grants[p.record]++
			w := m.waiters.at(p.waiter)
			c.want(m.waiterIDs.inUse(p.waiter) && w.proposed && w.record == p.record, "proposal %d: no such waiter", i)
		case !p.unseen:
			ends[p.record]++
		}
	}
	for id := m.table.ids.next(0); id != 0; id = m.table.ids.next(id) {
		r := m.records.at(id)
		c.want(r.pins == pins[id], "record %d: %d pins for %d proposals", id, r.pins, pins[id])
		c.want(grants[id] == int(r.flags&grantProposed/grantProposed), "record %d: flags %b, %d Grants", id, r.flags, grants[id])
		c.want(ends[id] == int(r.flags&endProposed/endProposed), "record %d: flags %b, %d ends", id, r.flags, ends[id])
	}
}

// checkWaiters checks each waiter by itself.
func (c *checker) checkWaiters() {
	m := c.m
	indexed := 0
	for w := m.waiterIDs.next(0); w != 0; w = m.waiterIDs.next(w) {
		p := m.waiters.at(w)
		c.want(m.table.ids.inUse(p.record), "waiter %d: for a free record", w)
		c.want(m.waits.linked(w) != p.proposed, "waiter %d: proposed=%v, timer %v", w, p.proposed, m.waits.linked(w))
		c.want(p.proposed || p.withdrawals == 0, "waiter %d: withdrawn, but still queued", w)
		if p.session == 0 {
			c.want(p.proposed, "waiter %d: queued for nobody", w)
			continue
		}
		indexed++
		c.want(m.line.find(p.session, p.owner) == w, "waiter %d: not found by its owner", w)
		c.want(m.sessions.at(uint32(p.session)).open, "waiter %d: its session has ended", w)
	}
	c.want(m.owners.count == indexed, "%d owners indexed for %d waiters", m.owners.count, indexed)
	c.want(m.waits.late == 0, "a wait is late")
}

// checkQueues walks the queues of all keys.
func (c *checker) checkQueues() {
	m := c.m
	queues, queued, ends := 0, 0, 0
	for id := m.table.ids.next(0); id != 0; id = m.table.ids.next(id) {
		r := m.records.at(id)
		if r.queue == 0 {
			continue
		}
		queues++
		q := m.queues.at(r.queue)
		c.want(q.first != 0 || q.firstEnd != 0, "record %d: an empty queue", id)
		length, prev := 0, uint32(0)
		for w := q.first; w != 0 && length <= m.waiterIDs.used; w = m.waiters.at(w).next {
			p := m.waiters.at(w)
			c.want(m.waiterIDs.inUse(w) && !p.proposed && p.record == id && p.prev == prev, "record %d: waiter %d is wrong", id, w)
			prev = w
			length++
		}
		c.want(q.last == prev && int(q.length) == length, "record %d: a queue of %d is said to have %d", id, length, q.length)
		queued += length
		last := uint32(0)
		for e := q.firstEnd; e != 0 && ends <= m.endIDs.used; e = m.ends.at(e).next {
			ends++
			last = e
		}
		c.want(q.lastEnd == last, "record %d: the last release in wait is not %d", id, q.lastEnd)
		c.want(q.firstEnd == 0 || r.flags&endProposed != 0, "record %d: releases wait for nothing", id)
	}
	c.want(m.queueIDs.used == queues, "%d queues in use, %d belong to a record", m.queueIDs.used, queues)
	c.want(m.line.queued == queued, "%d waiters in queues, %d counted", queued, m.line.queued)
	c.want(m.endIDs.used == ends, "%d releases wait, %d in queues", m.endIDs.used, ends)
}

// checkSessions checks what is counted for each session.
func (c *checker) checkSessions() {
	m := c.m
	holds, pending, open, inFlight := map[Session]uint32{}, map[Session]uint32{}, 0, 0
	for id := m.table.ids.next(0); id != 0; id = m.table.ids.next(id) {
		if r := m.records.at(id); r.flags&held != 0 && r.session != 0 {
			holds[r.session]++
		}
	}
	for i := range m.proposals.length {
		pending[m.proposals.at(i).session]++
	}
	for e := m.endIDs.next(0); e != 0; e = m.endIDs.next(e) {
		pending[m.ends.at(e).session]++
	}
	for id := m.sessionIDs.next(0); id != 0; id = m.sessionIDs.next(id) {
		s := m.sessions.at(id)
		c.want(s.held == holds[Session(id)], "session %d: %d keys held, %d counted", id, holds[Session(id)], s.held)
		c.want(s.pending == pending[Session(id)], "session %d: %d releases pending, %d counted", id, pending[Session(id)], s.pending)
		c.want(s.open || s.held+s.pending > 0, "session %d: kept for nothing", id)
		if s.open {
			open += int(s.held)
		}
		n, prev := uint32(0), uint32(0)
		for w := s.waiters; w != 0 && n <= s.inFlight; w = m.waiters.at(w).sessionNext {
			p := m.waiters.at(w)
			c.want(p.session == Session(id) && p.sessionPrev == prev, "session %d: waiter %d is wrong", id, w)
			prev = w
			n++
		}
		c.want(n == s.inFlight, "session %d: %d in flight, %d counted", id, n, s.inFlight)
		inFlight += int(n)
	}
	c.want(inFlight == m.owners.count, "%d acquires in flight, %d known by owner", inFlight, m.owners.count)
	c.want(m.heldByOpen == open, "%d keys held by open sessions, %d counted", open, m.heldByOpen)
}

// checkCounts counts and hashes the locks anew.
func (c *checker) checkCounts() {
	m := c.m
	locks, occupied, sum := 0, 0, uint64(0)
	for id := m.table.ids.next(0); id != 0; id = m.table.ids.next(id) {
		r := m.records.at(id)
		if r.flags&(held|grantProposed) != 0 {
			occupied++
		}
		if r.flags&held != 0 {
			locks++
			sum += lockHash(m.keyOf(r), r)
		}
	}
	c.want(m.held == locks, "%d locks held, %d counted", locks, m.held)
	c.want(m.occupied == occupied, "%d keys occupied, %d counted", occupied, m.occupied)
	c.want(m.sum == sum, "the sum of the locks' hashes is %x, not %x", sum, m.sum)
}

func (c *checker) checkIDs(name string, a *ids) {
	used, empty := 0, 0
	for id := a.next(0); id != 0; id = a.next(id) {
		used++
	}
	for i := range a.chunks {
		ch := &a.chunks[i]
		free := 0
		for w, word := range ch.free {
			c.want(word != 0 == (ch.words>>w&1 != 0), "%s: chunk %d: word %d", name, i, w)
			for ; word != 0; word &= word - 1 {
				free++
			}
		}
		taken := chunkLen - free
		if i == 0 {
			taken-- // 0 is no id
		}
		c.want(!ch.present || taken == int(ch.used), "%s: chunk %d: %d in use, %d taken", name, i, ch.used, taken)
		room := a.room[i/wordBits]>>(i%wordBits)&1 != 0
		c.want(room == (free > 0), "%s: chunk %d: %d free, room %v", name, i, free, room)
		c.want(!room || i >= a.first, "%s: chunk %d has room before %d", name, i, a.first)
		if ch.present && ch.used == 0 {
			empty++
		}
	}
	c.want(a.used == used, "%s: %d in use, %d counted", name, used, a.used)
	c.want(a.empty == empty, "%s: %d chunks empty, %d counted", name, empty, a.empty)
}

func (c *checker) checkIndex(name string, x *index, a *ids) {
	c.want(x.buckets >= minBuckets && x.buckets-1 <= x.mask && x.buckets-1 > x.mask>>1,
		"%s: %d buckets under mask %x", name, x.buckets, x.mask)
	n := 0
	for b := range uint32(len(x.heads) * headChunk) {
		for id := *x.head(b); id != 0 && n <= x.count; id = x.nodes.at(id).chain {
			n++
			c.want(b < x.buckets && a.inUse(id) && x.bucketOf(x.nodes.at(id).hash) == b, "%s: %d is in bucket %d", name, id, b)
		}
	}
	c.want(n == x.count, "%s: %d indexed, %d counted", name, n, x.count)
}

func (c *checker) checkWheel(name string, w *wheel, a *ids) {
	linked, busy := 0, 0
	for i, taken := range w.taken {
		slots := (*[wordBits]uint32)(w.slots[i*wordBits:])
		if taken == 0 && *slots == [wordBits]uint32{} {
			continue
		}
		for j, id := range slots {
			slot := uint32(i*wordBits + j)
			c.want(taken>>j&1 != 0 == (id != 0), "%s: slot %d: first %d, bitmap %x", name, slot, id, taken)
			if id != 0 {
				busy++
				linked += c.checkSlot(name, w, a, slot)
			}
		}
	}
	for i, t := range w.taken {
		if w.words[i/wordBits]>>(i%wordBits)&1 != 0 != (t != 0) {
			c.want(false, "%s: word %d of the bitmap", name, i)
		}
	}
	last := uint32(0)
	for id, prev := w.late, uint32(frontOfLate); id != 0 && linked <= a.used; id = w.nodes.at(id).next {
		linked++
		c.want(a.inUse(id) && w.nodes.at(id).prev == prev, "%s: late timer %d is wrong", name, id)
		prev, last = id, id
	}
	c.want(w.lateLast == last, "%s: the last of the late is %d, not %d", name, last, w.lateLast)
	for id := a.next(0); id != 0; id = a.next(id) {
		if w.linked(id) {
			linked--
		}
	}
	c.want(linked == 0, "%s: %d timers are in lists and do not know it", name, linked)
	c.want(w.busy == busy, "%s: %d slots taken, %d counted", name, busy, w.busy)
}

// checkSlot walks over the timers of a slot and counts them.
func (c *checker) checkSlot(name string, w *wheel, a *ids, slot uint32) (n int) {
	tick := w.now + uint64((slot-uint32(w.now))&turnMask)
	prev := frontOf + slot
	for id := w.slots[slot]; id != 0 && n <= a.used; id = w.nodes.at(id).next {
		n++
		due := w.due(id)
		c.want(a.inUse(id) && w.nodes.at(id).prev == prev, "%s: timer %d in slot %d is wrong", name, id, slot)
		c.want(due >= tick || tick == w.now, "%s: timer %d is due at %d, and in the slot of %d", name, id, due, tick)
		prev = id
	}
	return n
}

// lateAt reports whether a timer is among the late, in time that grows with their number.
func (w *wheel) lateAt(id uint32) bool {
	for l := w.late; l != 0; l = w.nodes.at(l).next {
		if l == id {
			return true
		}
	}
	return false
}
