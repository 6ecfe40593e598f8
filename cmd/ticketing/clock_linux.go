package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspendClock is a clock that also runs while the machine is suspended. Only differences mean something.
func suspendClock() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano())
}
