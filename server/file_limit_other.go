//go:build !linux

package server

// raiseFileLimit leaves the limit of open files to the Go runtime, which raises it at start.
func raiseFileLimit() int { return 1 << 30 }
