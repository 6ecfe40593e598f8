package server

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mono reads CLOCK_BOOTTIME in nanoseconds. The raw call skips the runtime's bookkeeping of system calls, which would cost
// more than the reading, and which a call that cannot block does not need.
func (c *clock) mono() int64 {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}
