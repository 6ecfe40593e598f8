//go:build !linux

package main

import (
	"fmt"
	"runtime"
)

func readUsage(...*child) usage           { return usage{} }
func residentBytes(int) (now, peak int64) { return 0, 0 }
func machineName() string {
	return fmt.Sprintf("%d x %s, %s, %s", runtime.NumCPU(), runtime.GOARCH, runtime.GOOS, runtime.Version())
}
