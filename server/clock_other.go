//go:build !linux

package server

import "time"

// mono is the time since the start of the process, in nanoseconds. Systems without CLOCK_BOOTTIME are for developers: this
// clock may stand still while the machine sleeps.
func (c *clock) mono() int64 { return int64(time.Since(c.started)) }
