//go:build !unix

package client

import "net"

// newDirectWrite returns nil: every write is the writer goroutine's.
func newDirectWrite(net.Conn) directWrite { return nil }
