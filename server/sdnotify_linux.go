package server

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// dialNotify connects a datagram socket to the service manager's. The socket does not block, for the engine's loop writes to it.
func dialNotify(socket string) (send func(string) error, closeSocket func(), err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("NOTIFY_SOCKET=%q: open a socket: %w", socket, err)
	}
	// A leading @ stands for the zero byte of an abstract name; SockaddrUnix reads it so.
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		unix.Close(fd)
		return nil, nil, fmt.Errorf("NOTIFY_SOCKET=%q: connect: %w", socket, err)
	}
	send = func(message string) error {
		if _, err := unix.Write(fd, []byte(message)); err != nil {
			return fmt.Errorf("NOTIFY_SOCKET=%q: %s: %w", socket, message, err)
		}
		return nil
	}
	return send, func() { unix.Close(fd) }, nil
}
