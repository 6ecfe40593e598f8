package client

import (
	"time"

	"golang.org/x/sys/windows"
)

// Now is the time since boot, sleep included, in steps of about 16 ms: less than the margin of a Deadline.
func (c systemClock) Now() time.Duration { return windows.DurationSinceBoot() }

// NewAlarm returns an alarm that looks at the clock: timers stand still in sleep.
func (c systemClock) NewAlarm(ring func()) alarm { return newRecheckAlarm(c, ring) }
