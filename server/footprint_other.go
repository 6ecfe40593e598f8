//go:build !linux

package server

// dropStartPages does nothing on these systems.
func dropStartPages() {}
