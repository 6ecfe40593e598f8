package server

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// rawPort accepts connections as bare descriptors for the event loops, which the runtime's own poller must not watch too.
type rawPort struct {
	file *os.File // keeps the descriptor open
	fd   int
}

// newRawPort takes over l's socket.
func newRawPort(l *net.TCPListener) (*rawPort, error) {
	file, err := l.File()
	if err != nil {
		return nil, fmt.Errorf("taking over the listening socket: %w", err)
	}
	l.Close()
	fd := int(file.Fd())
	if err := unix.SetNonblock(fd, false); err != nil { // accept waits in the kernel
		file.Close()
		return nil, fmt.Errorf("taking over the listening socket: %w", err)
	}
	return &rawPort{file: file, fd: fd}, nil
}

func (p *rawPort) accept() (*conn, error) {
	fd, sa, err := unix.Accept4(p.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	tuneSocket(fd)
	return &conn{remote: addrPort(sa), carrier: carrier{fd: fd}}, nil
}

func (p *rawPort) turnAway(c *conn, b []byte) {
	writeNow(c.fd, b)
	unix.Close(c.fd)
}

func (p *rawPort) close() {
	unix.Shutdown(p.fd, unix.SHUT_RDWR) // a waiting accept returns
	p.file.Close()
}

// tuneSocket sets what the protocol asks of every connection: no delay, keep-alive after 10 s and then every 5 s, twice, and
// an end after 20 s without acknowledgement. A socket that refuses one of them works without it.
func tuneSocket(fd int) {
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveIdleSeconds)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveIntervalSeconds)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveProbes)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeoutMillis)
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
