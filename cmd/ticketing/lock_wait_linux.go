package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childWait tells when a child stops and when it ends.
type childWait struct{ pid int }

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
		// Take what was only looked at; nothing, if it was continued meanwhile.
		var status unix.WaitStatus
		if n, err := unix.Wait4(c.pid, &status, unix.WUNTRACED|unix.WNOHANG, nil); n == c.pid && err == nil && status.Stopped() {
			return status.StopSignal()
		}
	}
}

// reap returns how the child ended.
func (c *childWait) reap() (syscall.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(c.pid, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		return syscall.WaitStatus(status), os.NewSyscallError("wait4", err)
	}
}
