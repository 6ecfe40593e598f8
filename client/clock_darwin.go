package client

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is a time that runs on while the machine sleeps, as CLOCK_MONOTONIC does here.
func (c systemClock) Now() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return time.Since(c.start)
	}
	return time.Duration(ts.Nano())
}

// NewAlarm returns an alarm that looks at the clock: timers stand still in sleep.
func (c systemClock) NewAlarm(ring func()) alarm { return newRecheckAlarm(c, ring) }
