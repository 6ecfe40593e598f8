//go:build unix

package client

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// newDirectWrite returns a write that never blocks, or nil if conn is no plain TCP connection.
func newDirectWrite(conn net.Conn) directWrite {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	// One closure for all writes, so that a write allocates nothing. They never overlap: see session.writing.
	var p []byte
	var n int
	var writeErr error
	try := func(fd uintptr) bool {
		for {
			n, writeErr = unix.Write(int(fd), p)
			if writeErr != unix.EINTR {
				return true
			}
		}
	}
	return func(b []byte) (int, error) {
		p = b
		err := raw.Write(try)
		p = nil
		switch {
		case err != nil:
			return 0, err
		case errors.Is(writeErr, unix.EAGAIN):
			return 0, nil
		case writeErr != nil:
			return 0, writeErr
		}
		return n, nil
	}
}
