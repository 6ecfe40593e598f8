//go:build !linux

package main

import "errors"

var errNoAffinity = errors.New("binding to processors works on Linux only: leave out --cpu and --server-cpu")

func allowedProcessors() []int { return nil }
func pinProcess([]int) error   { return errNoAffinity }

func pinnedStart(cpus []int, start func() error) error {
	if len(cpus) > 0 {
		return errNoAffinity
	}
	return start()
}
