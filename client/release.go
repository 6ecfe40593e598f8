package client

import (
	"context"
	"fmt"
	"time"

	"ticketing.internal/wire"
)

const (
	releaseTime  = 5 * time.Second        // a release is given up that long after it was called for
	releaseRetry = time.Second            // without an answer it is sent again
	releasePause = 100 * time.Millisecond // before it is sent again after a refusal
)

// release is a grant that is being given back, for its holder or as a compensation. key, owner, token, domain and deadline do not
// change; the rest is guarded by b.mu.
type release struct {
	key          string
	owner, token uint64
	domain       domain        // of the grant
	deadline     time.Duration // of the grant; 0: not known

	active     bool // in b.releases
	over       bool // the server has said that the grant is no more
	called     bool // by the holder
	unanswered bool // at least one attempt was sent whose outcome is not known

	session  *session // the one that carries it; nil: it waits for one
	queued   bool     // in the session's queue
	attempt  uint32
	pos      uint64        // of the first byte in the session's stream
	retryAt  time.Duration // when to try again
	giveUpAt time.Duration
	waiters  waiters
}

// queuedRelease is a release in the queue of a session. It is void once the release has moved on to another attempt.
type queuedRelease struct {
	release *release
	attempt uint32
}

// Release gives back a grant that is known by its key, owner and token alone, such as one that another process made.
// Its errors are those of Ticket.Release, and ErrInvalid.
func (b *Broker) Release(ctx context.Context, key string, owner, token uint64) error {
	r := wire.Request{Op: wire.OpRelease, Owner: owner, Token: token, Key: []byte(key)}
	if f, ok := wire.CheckRelease(&r); !ok {
		return fmt.Errorf("release %q: %w: %w", key, ErrInvalid, f)
	}
	if token == 0 {
		return fmt.Errorf("release %q: %w: no grant has the token 0", key, ErrInvalid)
	}
	return b.release(ctx, &release{key: key, owner: owner, token: token, called: true})
}

// release starts r unless it is under way, and waits for its end.
func (b *Broker) release(ctx context.Context, r *release) error {
	began := b.sys.clock.Now()
	if h := b.set.hooks.Request; h != nil {
		h(wire.OpRelease)
	}
	err := b.awaitRelease(ctx, r, began)
	if err != nil {
		err = fmt.Errorf("release %q: %w", r.key, err)
	}
	if h := b.set.hooks.Reply; h != nil {
		h(wire.OpRelease, err, b.sys.clock.Now()-began)
	}
	return err
}

func (b *Broker) awaitRelease(ctx context.Context, r *release, began time.Duration) error {
	b.mu.Lock()
	if !r.called {
		r.called = true
		b.unreleased.remove(r.deadline)
	}
	var s *session
	if !r.active {
		if err := b.enlist(r, began); err != nil {
			b.unlock()
			return err
		}
		s = b.assign(r, began)
	}
	w := b.waiters.Get().(*waiter)
	r.waiters.add(w)
	turn := s.claim(began)
	b.unlock()
	turn.take(w)

	select {
	case <-w.wake:
	case <-ctx.Done():
		b.mu.Lock()
		gone := r.waiters.remove(w)
		b.unlock()
		if gone {
			b.waiters.Put(w)
			return fmt.Errorf("%w: %w", ErrUnconfirmed, ctx.Err())
		}
		<-w.wake // it was settled at the same moment
	}
	err := w.err
	w.err = nil
	b.waiters.Put(w)
	return err
}

// enlist puts r into the bounded queue of releases. b.mu is held.
func (b *Broker) enlist(r *release, now time.Duration) error {
	switch {
	case b.closed:
		return fmt.Errorf("%w: %w", ErrUnconfirmed, ErrClosed)
	case r.over:
		return ErrNotHeld
	case b.releases[r.owner] != nil:
		return fmt.Errorf("%w: owner %d is being released already", ErrUnconfirmed, r.owner)
	case len(b.releases) >= b.sys.maxReleases:
		b.stats.Unconfirmed++
		return fmt.Errorf("%w: %d releases are under way, and no more can be queued", ErrUnconfirmed, len(b.releases))
	}
	r.active = true
	r.giveUpAt = now + releaseTime
	b.releases[r.owner] = r
	b.sweepBy(now + sweepBusy)
	return nil
}

// compensate gives back the grant of an acquire whose caller does not get it. If the queue is full, the lease ends it.
// b.mu is held.
func (b *Broker) compensate(c *call, now time.Duration) {
	b.stats.Compensated++
	r := &release{key: c.key, owner: c.owner, token: c.token, domain: c.domain, deadline: c.deadline, called: true}
	if b.enlist(r, now) == nil {
		b.placeRelease(r, now)
	}
}

// assign queues r with a serving session and returns it. Without one, r waits and assign returns nil. b.mu is held.
func (b *Broker) assign(r *release, now time.Duration) *session {
	b.detach(r)
	s := b.route(false, now)
	if s == nil {
		r.retryAt = now // as soon as there is one
		return nil
	}
	s.releasing++
	r.session, r.queued = s, true
	r.retryAt = now + releaseRetry
	s.releaseQueue = append(s.releaseQueue, queuedRelease{r, r.attempt})
	return s
}

// placeRelease is assign where the writer goroutine is to write. b.mu is held.
func (b *Broker) placeRelease(r *release, now time.Duration) {
	if s := b.assign(r, now); s != nil {
		s.flushSoon()
	}
}

// detach takes r from its session. If that may have sent r, the outcome is unknown. b.mu is held.
func (b *Broker) detach(r *release) {
	if s := r.session; s != nil {
		s.releasing--
		r.unanswered = r.unanswered || !r.queued && r.pos < s.handed
	}
	r.session, r.queued = nil, false
	r.attempt++
}

// moveReleases moves to other sessions the releases that s carries, because s has ended or does not lead. b.mu is held.
func (b *Broker) moveReleases(s *session, now time.Duration) {
	if s.releasing == 0 {
		return
	}
	for _, r := range b.releases {
		if r.session == s {
			b.placeRelease(r, now)
		}
	}
}

// releaseAnswered takes an R or N. Whichever attempt it answers, owner and token say which grant it is about. b.mu is held.
func (b *Broker) releaseAnswered(reply *wire.Reply, now time.Duration) {
	r := b.releases[reply.Owner]
	switch {
	case r == nil || r.token != reply.Token:
		b.stats.Unmatched++
	case reply.Op == wire.OpReleased:
		b.settleRelease(r, nil)
	case r.unanswered && now < r.deadline && r.domain == b.domain:
		// An attempt before this one took effect: until its deadline nothing else can have ended the grant.
		b.settleRelease(r, nil)
	default:
		b.settleRelease(r, ErrNotHeld)
	}
}

// releaseRefused takes a B or an E: r is tried again after a pause. b.mu is held.
func (s *session) releaseRefused(reply *wire.Reply, now time.Duration) {
	b := s.b
	r := b.releases[reply.Owner]
	if r == nil || r.session != s || r.queued {
		b.stats.Unmatched++
		return
	}
	code := wire.Failure(reply.Code)
	if reply.Op == wire.OpError && (code == wire.InvalidKey || code == wire.InvalidOwner) {
		b.settleRelease(r, fmt.Errorf("%w: %w", ErrInvalid, code))
		return
	}
	before := r.unanswered
	b.detach(r)
	if reply.Op == wire.OpBusy {
		r.unanswered = before // B says that this attempt had no effect
	}
	r.retryAt = now + max(releasePause, time.Duration(reply.Millis)*time.Millisecond)
	b.sweepBy(r.retryAt)
}

// settleRelease ends r and tells all who wait for it. b.mu is held.
func (b *Broker) settleRelease(r *release, err error) {
	switch err {
	case nil:
		b.stats.Released++
	case ErrNotHeld:
		b.stats.NotHeld++
	default:
		b.stats.Unconfirmed++
	}
	b.detach(r)
	r.over = err == nil || err == ErrNotHeld
	r.active = false
	delete(b.releases, r.owner)
	for w := r.waiters.take(); w != nil; {
		next := w.next
		w.err = err
		b.ready.add(w)
		w = next
	}
}

// sweepReleases tries again and gives up what is due. It returns when the next is. b.mu is held.
func (b *Broker) sweepReleases(now, next time.Duration) time.Duration {
	for _, r := range b.releases {
		if now >= r.giveUpAt {
			b.settleRelease(r, ErrUnconfirmed)
			continue
		}
		if now >= r.retryAt {
			b.placeRelease(r, now)
		}
		next = min(next, r.giveUpAt)
		if r.retryAt > now {
			next = min(next, r.retryAt)
		}
	}
	return next
}
