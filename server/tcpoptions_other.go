//go:build !linux

package server

import "net"

// setUserTimeout does nothing: these systems find a dead peer by keep-alive alone.
func setUserTimeout(*net.TCPConn, int) {}

// boundUnsent does nothing: what the kernel takes unsent cannot be bounded here.
func boundUnsent(*net.TCPConn, int) {}
