//go:build !linux

package main

import (
	"errors"
	"fmt"
	"runtime"
)

var errNotHere = errors.New("binding to processors works on Linux only: leave --cpu and --server-cpu away")

func readUsage(...*child) usage           { return usage{} }
func residentBytes(int) (now, peak int64) { return 0, 0 }
func allowedProcessors() []int            { return nil }
func pinProcess([]int) error              { return errNotHere }
func machineName() string {
	return fmt.Sprintf("%d x %s, %s, %s", runtime.NumCPU(), runtime.GOARCH, runtime.GOOS, runtime.Version())
}

func pinnedStart(cpus []int, start func() error) error {
	if len(cpus) > 0 {
		return errNotHere
	}
	return start()
}
