package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// runEchoServer is the baseline of bench: one thread that writes back what it reads, with nothing in between.
// It prints its address and runs until it is killed.
func runEchoServer(p *process, _ []string) error {
	// System calls are raw and keep their processor; the runtime needs another.
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
	runtime.LockOSThread()
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(listener, 1024); err != nil {
		return os.NewSyscallError("listen", err)
	}
	address, err := unix.Getsockname(listener)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	watch := func(fd int) error {
		return unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	}
	if err := watch(listener); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	fmt.Fprintf(p.stdout, "127.0.0.1:%d\n", address.(*unix.SockaddrInet4).Port)

	var events [256]unix.EpollEvent
	buffer := make([]byte, 64<<10)
	for {
		n, errno := epollWait(poll, events[:], -1)
		if errno != 0 && errno != unix.EINTR {
			return os.NewSyscallError("epoll_wait", errno)
		}
		for _, e := range events[:n] {
			fd := int(e.Fd)
			if fd == listener {
				conn, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
				if err != nil {
					continue
				}
				unix.SetsockoptInt(conn, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
				if err := watch(conn); err != nil {
					unix.Close(conn)
				}
				continue
			}
			m, errno := rawRead(fd, buffer)
			if errno == unix.EAGAIN || errno == unix.EINTR {
				continue
			}
			if errno != 0 || m == 0 || !echo(fd, buffer[:m]) {
				unix.Close(fd)
			}
		}
	}
}

// echo writes b back, waiting for a slow reader: the load reads before it sends more.
func echo(fd int, b []byte) bool {
	for len(b) > 0 {
		n, errno := rawWrite(fd, b)
		switch errno {
		case 0:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 1000)
		default:
			return false
		}
	}
	return true
}
