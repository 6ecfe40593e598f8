package client

import (
	"context"
	"time"
)

// Ticket is a lock that was granted. It is safe for concurrent use.
type Ticket struct {
	broker  *Broker
	release release // also holds what names the grant

	// guarded by broker.watch.mu
	context *leaseContext // nil until it was asked for
	ended   error         // why the context ends, or will have ended when it is asked for
	place   int           // in the watch's heap
}

// newTicket makes the Ticket of a granted acquire.
func newTicket(b *Broker, c *call) *Ticket {
	return &Ticket{
		broker:  b,
		release: release{key: c.key, owner: c.owner, token: c.token, domain: c.domain, deadline: c.deadline},
	}
}

// Key returns the key that is locked.
func (t *Ticket) Key() string { return t.release.key }

// Token returns the fencing token: larger than that of any grant before.
func (t *Ticket) Token() uint64 { return t.release.token }

// Owner returns the number that, with key and token, names the grant to the server.
func (t *Ticket) Owner() uint64 { return t.release.owner }

// Deadline returns the moment by which the critical section must be over. It lies before the end of the lease on the
// server, whatever the two clocks say. It is worked out anew at each call, so that time.Until(t.Deadline()) is right
// also after the machine was suspended: do not keep it.
func (t *Ticket) Deadline() time.Time {
	clock := t.broker.sys.clock
	return clock.Wall().Add(t.release.deadline - clock.Now())
}

// Context returns a context that ends at the Deadline (its cause, see context.Cause, is then ErrLeaseEnded), at
// Release (ErrReleased), or when the Broker is closed (ErrClosed), whichever comes first.
func (t *Ticket) Context() context.Context { return t.broker.watch.context(t) }

// Release gives the lock back, and ends the Context. It returns nil when the server has confirmed it; ErrNotHeld when the
// server no longer knows the grant, because its lease has ended or it was released before; and ErrUnconfirmed when 5 s
// passed without an answer, or ctx ended: then it may be called again. The attempt goes on for those 5 s even if ctx ends, or
// had ended before the call.
func (t *Ticket) Release(ctx context.Context) error {
	t.broker.watch.end(t, ErrReleased)
	return t.broker.release(ctx, &t.release)
}
