package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childWait tells when a child stops and when it ends.
type childWait struct {
	pid    int
	reaped bool
	status unix.WaitStatus // if reaped
}

// The codes of a SIGCHLD that tell of a stop, from <asm-generic/siginfo.h>.
const (
	childTrapped = 4
	childStopped = 5
)

// next returns the signal that has stopped the child, or 0 when it has ended. It is not reaped.
func (c *childWait) next() (stop syscall.Signal) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || info.Code != childStopped && info.Code != childTrapped {
			return 0
		}
		if stop, ok := c.take(); ok {
			return stop
		}
	}
}

// take consumes the stop that next has only looked at. ok is false if the child was continued meanwhile. If it was killed
// meanwhile, take reaps it and returns 0.
func (c *childWait) take() (stop syscall.Signal, ok bool) {
	var status unix.WaitStatus
	n, err := unix.Wait4(c.pid, &status, unix.WUNTRACED|unix.WNOHANG, nil)
	switch {
	case n != c.pid || err != nil:
		return 0, false
	case status.Stopped():
		return status.StopSignal(), true
	}
	c.reaped, c.status = true, status
	return 0, true
}

// reap returns how the child ended.
func (c *childWait) reap() (syscall.WaitStatus, error) {
	for !c.reaped {
		_, err := unix.Wait4(c.pid, &c.status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("wait4", err)
		}
		c.reaped = true
	}
	return syscall.WaitStatus(c.status), nil
}
