package main

import "syscall"

// dieWithParent makes a child die with the thread that started it.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
