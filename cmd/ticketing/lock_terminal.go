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

// foregroundTerminal returns the terminal that stdin is, if this process's group is in its foreground.
func foregroundTerminal(stdin *os.File) terminal {
	own := unix.Getpgrp()
	if group, err := unix.IoctlGetInt(int(stdin.Fd()), unix.TIOCGPGRP); err != nil || group != own {
		return terminal{}
	}
	return terminal{stdin, own}
}

// handed reports whether there is a terminal to lend.
func (t *terminal) handed() bool { return t.file != nil }

// hand makes the new process's group the foreground, before it runs.
func (t *terminal) hand(attr *syscall.SysProcAttr) {
	if t.handed() {
		attr.Foreground = true
		attr.Ctty = int(t.file.Fd())
	}
}

// settle follows the start of the command: from the background this process can change the foreground only while it
// ignores SIGTTOU, which the command must not inherit.
func (t *terminal) settle() {
	if t.handed() {
		signal.Ignore(syscall.SIGTTOU)
	}
}

// give makes group the foreground, if this process's own is.
func (t *terminal) give(group int) {
	if !t.handed() {
		return
	}
	if now, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP); err == nil && now == t.own {
		unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group)
	}
}

// takeBack makes this process's group the foreground again.
func (t *terminal) takeBack() {
	if t.handed() {
		unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, t.own)
	}
}
