package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes a child die with the thread that started it.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// keepDyingWithParent makes the program that the calling thread executes die with the parent, as this process does. The
// kernel keeps that setting per thread, and the thread that executes need not be the first one.
func keepDyingWithParent() { unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0) }
