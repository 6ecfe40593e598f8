package client

import (
	"context"
	"errors"
	"time"
)

// Do acquires key, calls work while holding it, and releases it. The context that work gets ends with ctx and with
// the lease (its cause is then ErrLeaseEnded): work must stop when it does. Without the lock work is not called, and
// the error is that of Acquire.
//
// Otherwise the error is what work returned, joined with that of the release: ErrNotHeld says that the lease ended
// before work did, so that another may have been at it too. nil means that the lock was held until work returned.
func (b *Broker) Do(ctx context.Context, key string, wait, lease time.Duration, work func(ctx context.Context, t *Ticket) error) (err error) {
	t, err := b.Acquire(ctx, key, wait, lease)
	if err != nil {
		return err
	}
	// Also when work panics. A ctx that has ended does not keep the release from being waited for.
	defer func() { err = errors.Join(err, t.Release(context.WithoutCancel(ctx))) }()

	held := newLeaseContext(ctx, t)
	defer held.cancel(nil)
	ends := t.Context()
	defer context.AfterFunc(ends, func() { held.cancel(context.Cause(ends)) })()
	return work(held, t)
}
