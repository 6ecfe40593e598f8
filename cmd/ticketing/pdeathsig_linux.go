package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes a child die with the thread that started it.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// keepDyingWithParent makes the program that the calling thread executes die like this process. The kernel keeps that
// for a thread, and the one that executes need not be the first.
func keepDyingWithParent() { unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0) }
