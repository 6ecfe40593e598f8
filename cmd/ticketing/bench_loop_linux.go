package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawConn is a connected socket that Go's poller does not know: registered there too, each of its events would wake two threads.
type rawConn int

// dialRaw connects to addr. Reads and writes block, for 5 s at most, until unblock.
func dialRaw(addr string) (rawConn, error) {
	resolved, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return -1, withExit(exitUnreachable, err)
	}
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: resolved.Port, Addr: [16]byte(resolved.IP.To16())})
	if ip := resolved.IP.To4(); ip != nil {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: resolved.Port, Addr: [4]byte(ip)}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	limit := unix.Timeval{Sec: 5}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit))
	if err == nil {
		err = retryEINTR(func() error { return unix.Connect(fd, to) })
	}
	if err != nil {
		unix.Close(fd)
		return -1, withExit(exitUnreachable, fmt.Errorf("connecting to %s: %w", addr, err))
	}
	return rawConn(fd), nil
}

func retryEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Read and Write serve the handshake.
func (c rawConn) Read(b []byte) (n int, err error) {
	err = retryEINTR(func() error { n, err = unix.Read(int(c), b); return err })
	if n == 0 && err == nil {
		return 0, errConnectionEnded
	}
	return max(n, 0), err
}

// Write writes b as a whole.
func (c rawConn) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		err = retryEINTR(func() error { m, err = unix.Write(int(c), b[n:]); return err })
		n += max(m, 0)
	}
	return n, err
}

// Close closes the socket.
func (c rawConn) Close() error { return unix.Close(int(c)) }

// loopConn is a connection of the loop.
type loopConn struct {
	traffic
	out *[]byte // the traffic's
	rawConn
	writing bool // the kernel did not take all of out: EPOLLOUT is asked for
}

// dialLoad connects for a traffic of so many requests in flight, and shakes hands unless the server is of another kind.
func dialLoad(addr string, bare bool, token, name []byte, inFlight int, t traffic) (*loopConn, error) {
	raw, err := dialRaw(addr)
	if err != nil {
		return nil, err
	}
	if !bare {
		allowed, err := shakeHands(raw, token, name)
		if err == nil && int(allowed) < inFlight {
			err = usageError("--in-flight %d: the server allows %d", inFlight, allowed)
		}
		if err != nil {
			raw.Close()
			return nil, err
		}
	}
	return &loopConn{traffic: t, out: t.output(), rawConn: raw}, unix.SetNonblock(int(raw), true)
}

// drive runs the connections until the phases are over, on the thread that it is called on.
//
// System calls are raw: the Go scheduler is not told of them, so none of them costs a hand-over of the processor. A call
// that blocks keeps its processor, which is why the caller makes sure that there are two; and it ends after 20 ms, so
// that the loop can be stopped.
func (m *meter) drive(ctx context.Context, conns []*loopConn, p phases, progress *atomic.Uint64) (*measured, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	defer unix.Close(poll)

	origin := time.Now()
	pace := m.newPacer(p, 0, progress)
	for i, c := range conns {
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, int(c.rawConn), &event); err != nil {
			return nil, os.NewSyscallError("epoll_ctl", err)
		}
	}
	for i, c := range conns {
		c.start(int64(time.Since(origin)))
		if err := c.flush(poll, i); err != nil {
			return nil, err
		}
	}
	var events [256]unix.EpollEvent
	buffer := make([]byte, 64<<10)
	for {
		n, errno := epollWait(poll, events[:], 20)
		if errno != 0 && errno != unix.EINTR {
			return pace.result, os.NewSyscallError("epoll_wait", errno)
		}
		for _, e := range events[:n] {
			c := conns[e.Fd]
			if e.Events&^unix.EPOLLOUT != 0 {
				n, errno := rawRead(int(c.rawConn), buffer)
				switch {
				case errno == unix.EAGAIN || errno == unix.EINTR:
				case errno != 0:
					return pace.result, withExit(exitUnreachable, os.NewSyscallError("read", errno))
				case n == 0:
					return pace.result, withExit(exitUnreachable, errConnectionEnded)
				default:
					if err := c.receive(buffer[:n], int64(time.Since(origin))); err != nil {
						return pace.result, err
					}
				}
			}
			if err := c.flush(poll, int(e.Fd)); err != nil {
				return pace.result, err
			}
		}
		if !pace.advance(ctx, int64(time.Since(origin))) {
			return pace.result, nil
		}
	}
}

// flush writes what is to be written, and asks for EPOLLOUT while the kernel does not take it.
func (c *loopConn) flush(poll, index int) error {
	for len(*c.out) > 0 {
		n, errno := rawWrite(int(c.rawConn), *c.out)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 && errno != unix.EAGAIN {
			return withExit(exitUnreachable, os.NewSyscallError("write", errno))
		}
		if errno == 0 {
			*c.out = (*c.out)[:copy(*c.out, (*c.out)[n:])]
		}
		if errno == unix.EAGAIN {
			break
		}
	}
	if writing := len(*c.out) > 0; writing != c.writing {
		c.writing = writing
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(index)}
		if writing {
			event.Events |= unix.EPOLLOUT
		}
		return os.NewSyscallError("epoll_ctl", unix.EpollCtl(poll, unix.EPOLL_CTL_MOD, int(c.rawConn), &event))
	}
	return nil
}

func rawRead(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func rawWrite(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// epollWait waits up to millis ms (-1: without end). It uses epoll_pwait, because arm64 has no epoll_wait.
func epollWait(poll int, events []unix.EpollEvent, millis int) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(poll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(millis), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
