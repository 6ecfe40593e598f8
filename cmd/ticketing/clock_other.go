//go:build !linux

package main

import "time"

// suspendClock is a clock that also runs while the machine is suspended: the wall clock, for want of a better one.
// Only differences mean something.
func suspendClock() time.Duration { return time.Duration(time.Now().UnixNano()) }
