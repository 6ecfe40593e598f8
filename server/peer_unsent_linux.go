package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUnsentBytes is how much of what was written may wait in the kernel unsent, so that what is urgent does not wait behind
// more of a snapshot than about a frame.
const peerUnsentBytes = 256 << 10

// boundUnsent bounds what the kernel takes before it is sent.
func boundUnsent(nc *net.TCPConn) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, peerUnsentBytes)
	})
}
