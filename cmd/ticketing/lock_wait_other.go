//go:build !linux

package main

import (
	"os"
	"syscall"
)

// childWait tells when a child stops and when it ends.
type childWait struct {
	pid    int
	status syscall.WaitStatus
	err    error
}

// next returns the signal that has stopped the child, or 0 when it has ended. Without waitid that reaps the child, so the number of
// its process group is free a moment early.
func (c *childWait) next() (stop syscall.Signal) {
	for {
		_, c.err = syscall.Wait4(c.pid, &c.status, syscall.WUNTRACED, nil)
		if c.err == syscall.EINTR {
			continue
		}
		if c.err == nil && c.status.Stopped() {
			return c.status.StopSignal()
		}
		return 0
	}
}

// reap returns how the child ended.
func (c *childWait) reap() (syscall.WaitStatus, error) {
	return c.status, os.NewSyscallError("wait4", c.err)
}
