package server

import (
	"sync/atomic"
	"time"

	"ticketing.internal/lock"
)

// clock reads the two clocks of the server. It is the only place in the package that does: everything else is handed a
// lock.Time.
//
// Mono counts suspended time where the system has such a clock (CLOCK_BOOTTIME on Linux): a lease that stood still while the
// machine slept would outlive the client's view of it. Wall is for people only, so instead of being read for each batch it is
// derived from Mono, with an offset that is refreshed now and then.
type clock struct {
	started    time.Time
	wallOffset atomic.Int64 // unix ms minus mono ms at the last refresh
}

func newClock() *clock {
	c := &clock{started: time.Now()}
	c.refresh()
	return c
}

// refresh measures the offset between the two clocks.
func (c *clock) refresh() {
	c.wallOffset.Store(time.Now().UnixMilli() - c.mono()/int64(time.Millisecond))
}

// now is a fresh reading; call it after the read whose input it stamps.
func (c *clock) now() lock.Time {
	mono := c.mono()
	return lock.Time{Mono: mono, Wall: mono/int64(time.Millisecond) + c.wallOffset.Load()}
}

// wall is the time for people and certificates.
func (c *clock) wall() time.Time { return time.Now() }

// deadlineIn is d from now, as the deadlines of net.Conn want it.
func deadlineIn(d time.Duration) time.Time { return time.Now().Add(d) }

// untilDeadline is how long it is until a deadline of a context or a net.Conn.
func untilDeadline(deadline time.Time) time.Duration { return time.Until(deadline) }
