//go:build !linux

package main

import "syscall"

// dieWithParent is for Linux alone: elsewhere the child outlives a parent that is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// keepDyingWithParent is for Linux alone.
func keepDyingWithParent() {}
