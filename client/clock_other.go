//go:build !linux && !darwin && !windows

package client

import "time"

// Now is Go's monotonic clock: whether it runs during a suspension depends on the system.
func (c systemClock) Now() time.Duration { return time.Since(c.start) }

// NewAlarm returns an alarm that looks at the clock.
func (c systemClock) NewAlarm(ring func()) alarm { return newRecheckAlarm(c, ring) }
