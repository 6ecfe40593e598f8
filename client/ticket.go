package client

import (
	"context"
	"time"
)

// Ticket is a lock that was granted. It is safe for concurrent use.
type Ticket struct{}

// Key returns the key that is locked.
func (t *Ticket) Key() string { return "" }

// Token returns the fencing token: larger than that of any grant before it.
func (t *Ticket) Token() uint64 { return 0 }

// Owner returns the number that, with key and token, names the grant to the server.
func (t *Ticket) Owner() uint64 { return 0 }

// Deadline returns the moment by which the critical section must be over. It lies before the lease's end on the
// server whatever the two clocks say. It is computed anew at each call, so that time.Until(t.Deadline()) is right also
// after the machine was suspended: do not keep it.
func (t *Ticket) Deadline() time.Time { return time.Time{} }

// Context returns a context that ends at the Deadline (its cause is then ErrLeaseEnded), at Release (ErrReleased) or
// at Close of the Broker (ErrClosed), whichever is first. It is made on first use.
func (t *Ticket) Context() context.Context { return nil }

// Release gives the lock back. nil: the server has confirmed it. ErrNotHeld: the lease had ended. ErrUnconfirmed:
// 5 s passed without an answer. It goes on for those 5 s even when ctx ends before, or has ended already.
func (t *Ticket) Release(ctx context.Context) error { return nil }
