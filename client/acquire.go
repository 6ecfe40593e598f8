package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"ticketing.internal/wire"
)

const (
	// replyPatience is how long after the end of its wait an acquire may stay unanswered.
	replyPatience = 10 * time.Second
	// tryPatience is how long an acquire with wait 0 waits for a serving node.
	tryPatience = time.Second
	// orphanWait is how long after its client has gone a server may still grant an acquire: within that time it notices
	// that the connection is silent.
	orphanWait = 20 * time.Second
)

// errLateGrant is the cause when the lease was nearly over before the grant arrived.
var errLateGrant = errors.New("the grant came too late to be used, and was given back")

// errSilence is the cause when a living connection brought no answer.
var errSilence = fmt.Errorf("no reply by %v after the end of the wait", replyPatience)

// call is one acquire, from the caller's entry to its answer. The caller owns it before enqueue and after it was woken; in
// between b.mu guards it. A caller that gives up leaves it behind, abandoned.
type call struct {
	waiter
	key         string
	owner       uint64
	wait, lease time.Duration // whole milliseconds
	waitUntil   time.Duration // when a serving node must have been found

	session   *session // nil: parked
	queued    bool     // in the session's queue, and not encoded yet
	abandoned bool     // nobody waits for it: a grant is to be given back
	settled   bool
	pos       uint64        // of its first byte in the session's stream
	sentAt    time.Duration // read before the write
	replyBy   time.Duration

	result   result
	busy     wire.Busy     // resultBusy
	failure  wire.Failure  // resultInvalid
	retry    time.Duration // resultBusy
	cause    error
	token    uint64
	domain   domain
	deadline time.Duration
}

// result is how an acquire ended.
type result byte

const (
	resultGranted result = iota
	resultTimeout
	resultBusy
	resultUnreached // busy: no serving node could be reached in time
	resultIndeterminate
	resultInvalid
	resultClosed
)

// Acquire asks for key and returns the Ticket of its grant.
//
// It waits at most wait (0 to 1 h; 0: one immediate attempt) in the key's queue, first come first served. The lease
// (1 s to 250 s) counts from the grant. There is no renewal, and the same caller asking twice queues behind itself.
// Both are cut to whole milliseconds, a wait upwards and a lease downwards.
//
// A nil error comes with a Ticket, always. Otherwise the error is one of ErrTimeout, ErrBusy, ErrIndeterminate,
// ErrInvalid and ErrClosed to errors.Is. When ctx ends first, it wraps ctx.Err(), and if the request had been sent it is
// ErrIndeterminate too; a grant that still arrives is given back.
func (b *Broker) Acquire(ctx context.Context, key string, wait, lease time.Duration) (*Ticket, error) {
	began := b.sys.clock.Now()
	if h := b.set.hooks.Request; h != nil {
		h(wire.OpAcquire)
	}
	t, err := b.acquire(ctx, key, wait, lease, began)
	if h := b.set.hooks.Reply; h != nil {
		h(wire.OpAcquire, err, b.sys.clock.Now()-began)
	}
	return t, err
}

// TryAcquire is Acquire with wait 0: it never queues.
func (b *Broker) TryAcquire(ctx context.Context, key string, lease time.Duration) (*Ticket, error) {
	return b.Acquire(ctx, key, 0, lease)
}

func (b *Broker) acquire(ctx context.Context, key string, wait, lease, began time.Duration) (*Ticket, error) {
	if wait > 0 {
		wait = (wait + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	lease = lease.Truncate(time.Millisecond)
	if err := checkAcquire(key, wait, lease); err != nil {
		return nil, fmt.Errorf("acquire %q: %w: %w", key, ErrInvalid, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("acquire %q: not sent: %w", key, err)
	}
	c := b.calls.Get().(*call)
	c.key, c.wait, c.lease = key, wait, lease
	c.waitUntil = began + wait
	if wait == 0 {
		c.waitUntil = began + tryPatience
	}

	b.mu.Lock()
	b.stats.Acquires++
	b.owner++
	if b.owner == 0 {
		b.owner = 1
	}
	c.owner = b.owner
	turn := b.enqueue(c, began).claim(began)
	b.unlock()
	turn.take(&c.waiter)

	done := ctx.Done()
	if done == nil { // ctx cannot end, and a plain receive is cheaper
		<-c.wake
		return b.outcome(c)
	}
	select {
	case <-c.wake:
		return b.outcome(c)
	case <-done:
		return b.giveUp(ctx, c)
	}
}

// checkAcquire returns the first field that is out of range, in the protocol's order.
func checkAcquire(key string, wait, lease time.Duration) error {
	millis := func(d time.Duration) uint32 {
		if d < 0 || d/time.Millisecond > math.MaxUint32 {
			return math.MaxUint32 // outside every range
		}
		return uint32(d / time.Millisecond)
	}
	var buf [wire.MaxKey + 1]byte
	r := wire.Request{Op: wire.OpAcquire, Owner: 1, Wait: millis(wait), Lease: millis(lease), Key: buf[:copy(buf[:], key)]}
	if f, ok := wire.CheckAcquire(&r); !ok {
		return f
	}
	return nil
}

// enqueue queues an acquire with a session, which it returns. Without a session it parks the acquire, or fails it, and returns nil.
// b.mu is held.
func (b *Broker) enqueue(c *call, now time.Duration) *session {
	c.session = nil
	switch {
	case b.closed:
		b.fail(c, resultClosed, nil)
		return nil
	case len(b.routes) == 0:
		b.parked = append(b.parked, c)
		b.sweepBy(c.waitUntil)
		return nil
	case b.twoDomains():
		b.fail(c, resultUnreached, nil)
		return nil
	}
	s := b.route(true, now)
	if s == nil {
		c.busy = wire.BusyTooManyInFlight
		b.fail(c, resultBusy, nil)
		return nil
	}
	c.session, c.queued = s, true
	s.calls[c.owner] = c
	s.acquireQueue = append(s.acquireQueue, c)
	if s.stuck(now) {
		b.sweepBy(c.waitUntil)
	}
	b.sweepBy(now + sweepBusy)
	return s
}

// place is enqueue for an acquire that was queued or parked before: the writer goroutine writes it. b.mu is held.
func (b *Broker) place(c *call, now time.Duration) {
	if s := b.enqueue(c, now); s != nil {
		s.flushSoon()
	}
}

// waitLeft is what is left of the wait, but at least a millisecond: an acquire that may wait is never sent as one that may not.
func (c *call) waitLeft(now time.Duration) time.Duration {
	if c.wait == 0 {
		return 0
	}
	left := (c.waitUntil - now + time.Millisecond - 1).Truncate(time.Millisecond)
	return min(max(left, time.Millisecond), c.wait)
}

// answer settles an acquire with its reply. b.mu is held.
func (s *session) answer(c *call, r *wire.Reply, now time.Duration) error {
	b := s.b
	if r.Op == wire.OpGranted && r.Token == 0 {
		return fmt.Errorf("a grant without a token: %w", wire.Malformed)
	}
	delete(s.calls, c.owner)
	switch r.Op {
	case wire.OpGranted:
		c.token, c.domain = r.Token, b.domain
		c.deadline = deadline(c.sentAt, now, time.Duration(r.Millis)*time.Millisecond, c.lease)
		if c.abandoned || now >= c.deadline {
			b.compensate(c, now)
			b.fail(c, resultIndeterminate, errLateGrant)
			break
		}
		b.unreleased.add(c.deadline)
		b.settle(c, resultGranted)
	case wire.OpTimeout:
		b.settle(c, resultTimeout)
	case wire.OpBusy:
		c.busy, c.retry = wire.Busy(r.Code), time.Duration(r.Millis)*time.Millisecond
		b.settle(c, resultBusy)
	default:
		c.failure = wire.Failure(r.Code)
		switch c.failure {
		case wire.InvalidKey, wire.InvalidWait, wire.InvalidLease, wire.InvalidOwner:
			b.settle(c, resultInvalid)
		default: // also a code that this version does not know: then nothing is known
			b.stats.Lost++
			b.fail(c, resultIndeterminate, c.failure)
		}
	}
	return nil
}

// deadline is a moment before which the lease cannot have ended, whatever the server's clock says: the node read the request
// after sentAt, and applied the grant no earlier than waited after that. The margin is for clocks that run at different
// rates and for stamps in whole milliseconds. waited is cut to the time that passed here, because more than that is the
// error of a clock.
func deadline(sentAt, now, waited, lease time.Duration) time.Duration {
	waited = min(waited, now-sentAt)
	return sentAt + waited + lease - deadlineMargin - lease/100 - waited/1000
}

const deadlineMargin = 50 * time.Millisecond

// fail settles an acquire without a ticket. b.mu is held.
func (b *Broker) fail(c *call, r result, cause error) {
	c.cause = cause
	b.settle(c, r)
}

// settle hands an acquire, which is in no table any more, back to its caller, if it still has one. b.mu is held.
func (b *Broker) settle(c *call, r result) {
	if c.abandoned {
		b.recycle(c)
		return
	}
	c.session = nil
	c.result = r
	c.settled = true
	switch r {
	case resultGranted:
		b.stats.Granted++
	case resultTimeout:
		b.stats.TimedOut++
	case resultBusy, resultUnreached:
		b.stats.Busy++
	case resultIndeterminate:
		b.stats.Indeterminate++
	}
	b.ready.add(&c.waiter)
}

func (b *Broker) recycle(c *call) {
	*c = call{waiter: waiter{wake: c.wake}}
	b.calls.Put(c)
}

// outcome turns a settled acquire into what the caller gets.
func (b *Broker) outcome(c *call) (*Ticket, error) {
	defer b.recycle(c)
	switch c.result {
	case resultGranted:
		return newTicket(b, c), nil
	case resultTimeout:
		return nil, fmt.Errorf("acquire %q: %w", c.key, ErrTimeout)
	case resultBusy:
		return nil, &BusyError{Key: c.key, Code: c.busy, RetryAfter: c.retry, Cause: c.cause}
	case resultUnreached:
		return nil, b.unreached(c)
	case resultInvalid:
		return nil, fmt.Errorf("acquire %q: the server says: %w: %w", c.key, ErrInvalid, c.failure)
	case resultClosed:
		return nil, fmt.Errorf("acquire %q: not sent: %w", c.key, ErrClosed)
	}
	return nil, b.indeterminate(c, c.cause)
}

// unreached is the error for an acquire for which no serving node was reached: what stood in the way.
func (b *Broker) unreached(c *call) error {
	b.mu.Lock()
	defer b.unlock()
	cause := c.cause
	if cause == nil {
		cause = b.obstacles()
	}
	return &BusyError{Key: c.key, Code: wire.BusyNoLeader, Cause: cause}
}

// indeterminate is the error for an acquire that was sent and not answered. A server that still has it can grant it until
// the wait ends or it notices that the connection is silent; then the lease runs.
func (b *Broker) indeterminate(c *call, cause error) error {
	now := b.sys.clock.Now()
	waits := min(max(0, c.sentAt+c.wait-now), orphanWait)
	stands := waits + c.lease + c.lease/100 + deadlineMargin
	return &IndeterminateError{Owner: c.owner, Key: c.key, Until: b.sys.clock.Wall().Add(stands), Cause: cause}
}

// giveUp ends an acquire whose caller's ctx has ended. If the answer has arrived by then, that counts.
func (b *Broker) giveUp(ctx context.Context, c *call) (*Ticket, error) {
	b.mu.Lock()
	if c.settled {
		b.unlock()
		<-c.wake
		return b.outcome(c)
	}
	// After the unlocking, c is no longer ours.
	key, sent := c.key, c.session != nil && !c.queued
	err := fmt.Errorf("acquire %q: not sent: %w", key, ctx.Err())
	if sent {
		b.stats.Indeterminate++
		err = b.indeterminate(c, ctx.Err())
		c.session.withdraw(c)
	}
	c.abandoned = true
	b.unlock()
	return nil, err
}
