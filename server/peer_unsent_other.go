//go:build !linux

package server

import "net"

// boundUnsent does nothing: what the kernel takes unsent cannot be bounded here.
func boundUnsent(*net.TCPConn) {}
