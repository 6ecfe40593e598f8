package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal, lent to the process group of a command. The zero value is none.
type terminal struct {
	file *os.File
	own  int // this process's group
}

// terminalOf returns the controlling terminal, if stdin is it.
func terminalOf(stdin *os.File) terminal {
	if _, err := unix.IoctlGetInt(int(stdin.Fd()), unix.TIOCGPGRP); err != nil {
		return terminal{}
	}
	return terminal{stdin, unix.Getpgrp()}
}

// foreground reports whether this process's group is in the foreground.
func (t *terminal) foreground() bool {
	if t.file == nil {
		return false
	}
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return err == nil && group == t.own
}

// settle is called once the command's process has started. A background process can change the foreground only while it
// ignores SIGTTOU, and the command must not inherit that.
func (t *terminal) settle() {
	if t.file != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

// give makes group the foreground, if this process's own is.
func (t *terminal) give(group int) {
	if t.foreground() {
		unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group)
	}
}

// takeBack makes this process's group the foreground again, if group is.
func (t *terminal) takeBack(group int) {
	if t.file == nil {
		return
	}
	if now, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP); err == nil && now == group {
		unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, t.own)
	}
}
