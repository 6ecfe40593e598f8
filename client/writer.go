package client

import (
	"fmt"
	"runtime"
	"time"

	"ticketing.internal/wire"
)

const (
	// maxBatch is the size, in bytes, from which a batch is written before more is encoded: what is not encoded is not sent,
	// and can go elsewhere if the connection ends.
	maxBatch = 64 << 10
	// maxDirect is the number of requests in flight up to which a caller writes its request itself. With more, a write for each
	// request costs more than the switch to the writer goroutine, which writes all that has gathered.
	maxDirect = 2
	// stuckAfter is how long a write may block before other connections are preferred.
	stuckAfter = 50 * time.Millisecond
)

// directWrite writes what the socket takes without blocking; n may be short, without an error.
type directWrite func(p []byte) (n int, err error)

// flushSoon makes the writer goroutine write what is queued. b.mu is held.
func (s *session) flushSoon() {
	if !s.writing && s.reason == nil {
		s.writing = true
		s.wake <- struct{}{}
	}
}

// turn is the work for a session that falls to a caller, to be done without b.mu.
type turn struct {
	s     *session // nil: there is none
	reads bool     // it reads its reply itself after it has written
}

// claim gives the caller the turn to write what is queued, and perhaps to read its reply, unless somebody else writes or should.
// The caller must take the turn once it has left b.mu. now is no later than the write. b.mu is held.
func (s *session) claim(now time.Duration) turn {
	if s == nil || s.writing || s.reason != nil {
		return turn{}
	}
	if s.direct == nil || len(s.calls)+s.releasing > maxDirect {
		s.flushSoon()
		return turn{}
	}
	s.writing = true
	s.writers.Add(1)
	s.encode(now)
	return turn{s, s.borrow()}
}

// take does what was claimed for the request whose waiter is w.
func (t turn) take(w *waiter) {
	if t.s == nil {
		return
	}
	t.s.writeNow()
	if t.reads {
		t.s.readFor(w)
	}
}

// writeNow writes what claim encoded. What the socket does not take, and what was queued meanwhile, is left to the
// writer goroutine.
func (s *session) writeNow() {
	defer s.writers.Done()
	n, err := s.direct(s.out)
	s.b.mu.Lock()
	defer s.b.unlock()
	if s.wroteOut(n, err) {
		s.wake <- struct{}{}
	}
}

// write is the writer goroutine.
func (s *session) write() {
	defer s.writers.Done()
	for {
		select {
		case <-s.wake:
		case <-s.over:
			return
		}
		// A goroutine that is ready to run may be about to queue something: then one write carries all of it.
		runtime.Gosched()
		for s.writeBatch() {
		}
	}
}

// writeBatch writes once, and reports whether there is more.
func (s *session) writeBatch() bool {
	b := s.b
	now := b.sys.clock.Now()
	b.mu.Lock()
	if s.reason != nil {
		b.unlock()
		return false // what is queued goes elsewhere
	}
	if s.written == len(s.out) {
		s.encode(now)
	}
	rest := s.out[s.written:]
	if len(rest) == 0 { // what was queued was withdrawn meanwhile
		s.writing = false
		b.unlock()
		return false
	}
	s.writeBegan = now
	b.unlock()
	n, err := s.conn.Write(rest)
	b.mu.Lock()
	defer b.unlock()
	s.writeBegan = 0
	return s.wroteOut(n, err)
}

// wroteOut notes that n more bytes of out were written, and reports whether there is more to write. After an error
// nobody writes any more: writing stays set. b.mu is held.
func (s *session) wroteOut(n int, err error) (more bool) {
	s.written += n
	if err != nil {
		if !s.sealed {
			s.handed = s.encoded - uint64(len(s.out)-s.written)
		}
		s.end(fmt.Errorf("write: %w", err))
		return false
	}
	s.writing = s.written < len(s.out) || len(s.control)+len(s.releaseQueue)+len(s.acquireQueue) > 0
	return s.writing
}

// stuck reports whether a write has blocked for long. b.mu is held.
func (s *session) stuck(now time.Duration) bool {
	return s.writeBegan != 0 && now-s.writeBegan > stuckAfter
}

// encode turns what is queued into out, whose content has been written: first what frees keys and queues. now is no later
// than the write that follows. b.mu is held.
func (s *session) encode(now time.Duration) {
	out := append(s.out[:0], s.control...)
	s.control = s.control[:0]

	n := 0
	for ; n < len(s.releaseQueue) && len(out) < maxBatch; n++ {
		q := s.releaseQueue[n]
		if q.release.attempt != q.attempt || q.release.session != s {
			continue // moved or settled meanwhile
		}
		q.release.queued, q.release.pos, q.release.retryAt = false, s.encoded+uint64(len(out)), now+releaseRetry
		out = s.appendRequest(out, wire.Request{Op: wire.OpRelease, Owner: q.release.owner, Token: q.release.token}, q.release.key)
	}
	s.releaseQueue = cut(s.releaseQueue, n)

	for n = 0; n < len(s.acquireQueue) && len(out) < maxBatch; n++ {
		c := s.acquireQueue[n]
		if c.abandoned {
			delete(s.calls, c.owner)
			s.b.recycle(c)
			continue
		}
		wait := c.waitLeft(now)
		c.queued, c.pos = false, s.encoded+uint64(len(out))
		c.sentAt, c.replyBy = now, now+wait+replyPatience
		out = s.appendRequest(out, wire.Request{
			Op: wire.OpAcquire, Owner: c.owner, Wait: uint32(wait / time.Millisecond), Lease: uint32(c.lease / time.Millisecond),
		}, c.key)
	}
	s.acquireQueue = cut(s.acquireQueue, n)

	s.out, s.written = out, 0
	s.encoded += uint64(len(out))
	s.handed = s.encoded // until a failed write says otherwise
	s.wrote = now
}

func (s *session) appendRequest(dst []byte, r wire.Request, key string) []byte {
	s.key = append(s.key[:0], key...)
	r.Key = s.key
	return wire.AppendRequest(dst, &r)
}

// withdraw tells the server that nobody waits for an acquire that was sent. b.mu is held.
func (s *session) withdraw(c *call) {
	s.control = s.appendRequest(s.control, wire.Request{Op: wire.OpRelease, Owner: c.owner}, c.key)
	s.flushSoon()
}

// ping asks for a sign of life. b.mu is held.
func (s *session) ping(now time.Duration) {
	s.pinged = now
	s.control = wire.AppendRequest(s.control, &wire.Request{Op: wire.OpPing})
	s.flushSoon()
}

// cut removes the first n of a queue in place.
func cut[T any](queue []T, n int) []T {
	rest := copy(queue, queue[n:])
	clear(queue[rest:]) // pointers
	return queue[:rest]
}
