package client

import (
	"errors"
	"slices"
	"time"
)

const (
	// sweepInterval is the longest time between two sweeps of the keeper. Everything that begins without a call of sweepBy falls
	// due no sooner than a ping, so no sweep comes too late for it.
	sweepInterval = pingAfter
	// sweepBusy is the same while requests are under way: a release falls due that long after it was sent.
	sweepBusy = releaseRetry
)

// keep is the keeper's goroutine: everything that a Broker does because time has passed.
func (b *Broker) keep() {
	due := b.sys.clock.Now() + sweepInterval
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	for {
		select {
		case <-b.dialing.Done():
			return
		case <-b.rearm:
		case <-timer.C:
		}
		now := b.sys.clock.Now()
		b.mu.Lock()
		if now >= b.sweepAt {
			b.sweepAt = b.sweep(now, now-due > stallNotice)
		}
		due = max(now, b.sweepAt)
		b.unlock()
		timer.Reset(due - now)
	}
}

// sweepBy makes sure that the keeper sweeps by at. b.mu is held.
func (b *Broker) sweepBy(at time.Duration) {
	if at >= b.sweepAt {
		return
	}
	b.sweepAt = at
	select {
	case b.rearm <- struct{}{}:
	default:
	}
}

// sweep does what is due and returns when to sweep again. stalled says that the keeper is late: this process or its machine
// stood still, and what the servers sent meanwhile may not have been read yet. b.mu is held.
func (b *Broker) sweep(now time.Duration, stalled bool) (next time.Duration) {
	next = now + sweepInterval
	if len(b.releases) > 0 {
		next = now + sweepBusy
	}
	for _, s := range b.sessions {
		if stalled {
			s.reprieve = now + afterStall
		}
		next = min(next, s.sweep(now))
	}
	next = b.sweepParked(now, next)
	next = b.sweepReleases(now, next)
	if b.leader != "" && len(b.routes) == 0 {
		if due := max(b.hinted, b.lastServed) + hintPatience; due > now {
			next = min(next, due)
		} else {
			b.askAgain()
		}
	}
	return next
}

// sweep judges one session and its acquires. b.mu is held.
func (s *session) sweep(now time.Duration) (next time.Duration) {
	if dead := max(s.read+deadAfter, s.reprieve); now >= dead {
		s.end(errors.New("nothing was heard from the server for 15 s"))
		return now + sweepInterval
	} else {
		next = dead
	}
	quiet := min(s.wrote, max(s.read, s.pinged))
	if now >= quiet+pingAfter {
		s.ping(now)
		quiet = now
	}
	next = min(next, quiet+pingAfter)

	if len(s.calls) > 0 {
		next = min(next, now+sweepBusy)
	}
	stuck := s.stuck(now)
	expired := false
	for _, c := range s.calls {
		switch {
		case c.abandoned:
		case c.queued && stuck:
			expired = expired || now >= c.waitUntil
			next = min(next, max(c.waitUntil, now+1))
		case c.queued:
		case now >= max(c.replyBy, s.reprieve):
			s.giveUpReply(c)
		default:
			next = min(next, max(c.replyBy, s.reprieve))
		}
	}
	if expired {
		s.dropExpired(now)
	}
	return next
}

// giveUpReply tells a caller that no answer came. An abandoned copy of the call stays in the table, for a grant that may
// still arrive. b.mu is held.
func (s *session) giveUpReply(c *call) {
	orphan := *c
	orphan.waiter = newWaiter()
	orphan.abandoned = true
	s.calls[c.owner] = &orphan
	s.withdraw(&orphan)
	s.b.fail(c, resultIndeterminate, errSilence)
}

// dropExpired fails the acquires that are still in the queue of a stuck session at their waitUntil. b.mu is held.
func (s *session) dropExpired(now time.Duration) {
	s.acquireQueue = slices.DeleteFunc(s.acquireQueue, func(c *call) bool {
		if !c.abandoned && now < c.waitUntil {
			return false
		}
		delete(s.calls, c.owner)
		s.b.fail(c, resultUnreached, errors.New("the connection takes no more bytes"))
		return true
	})
}

// sweepParked fails the acquires for which no serving node was found in time. b.mu is held.
func (b *Broker) sweepParked(now, next time.Duration) time.Duration {
	b.parked = slices.DeleteFunc(b.parked, func(c *call) bool {
		if c.abandoned || now >= c.waitUntil {
			b.fail(c, resultUnreached, nil)
			return true
		}
		next = min(next, c.waitUntil)
		return false
	})
	return next
}
