package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds how long sent bytes may stay unacknowledged, in ms.
func setUserTimeout(nc *net.TCPConn, most int) { setTCPOption(nc, unix.TCP_USER_TIMEOUT, most) }

// boundUnsent bounds how many bytes may wait in the kernel unsent before it takes no more.
func boundUnsent(nc *net.TCPConn, most int) { setTCPOption(nc, unix.TCP_NOTSENT_LOWAT, most) }

func setTCPOption(nc *net.TCPConn, option, value int) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, option, value) })
}
