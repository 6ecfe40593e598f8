//go:build !linux

package server

import (
	"errors"
	"net"
)

// boundUnsent does nothing: what the kernel takes unsent cannot be bounded here.
func boundUnsent(*net.TCPConn) {}

// directWrites reports that all is written by the writer of the connection.
const directWrites = false

func writeDirect(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
