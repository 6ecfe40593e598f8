package server

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller wraps one epoll instance. It is level-triggered: one read per ready connection and turn is then enough, where
// edge-triggering would need a second read, returning EAGAIN, to be sure that nothing was left.
//
// Calls that cannot block for long go through RawSyscall: telling the runtime about them would cost about as much as the work
// that they carry. They return within milliseconds, and sooner when the runtime stops the world, for its signal interrupts them.
type poller struct {
	epoll  int
	event  int // an eventfd that wakes the loop
	events [256]unix.EpollEvent
}

func newPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating an epoll instance: %w", err)
	}
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("creating an eventfd: %w", err)
	}
	p := &poller{epoll: epoll, event: event}
	if err := p.add(event, unix.EPOLLIN); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) close() {
	unix.Close(p.epoll)
	unix.Close(p.event)
}

func (p *poller) add(fd int, interest uint32) error {
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: interest, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("registering a descriptor with epoll: %w", err)
	}
	return nil
}

// set changes what fd is watched for. It cannot fail for a descriptor that was added.
func (p *poller) set(fd int, interest uint32) {
	unix.EpollCtl(p.epoll, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: interest, Fd: int32(fd)})
}

// forget stops watching fd.
func (p *poller) forget(fd int) { unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// briefMillis is how long a wait that the runtime is not told of may last. It is shorter than the 10 ms after which the runtime
// would interrupt it. It is longer than the time to the kernel's next tick usually is, because a wait that is to end before that has
// to set the processor's timer, which costs a twelfth of an unpipelined request to a cluster.
const briefMillis = 5

// poll returns the events that are ready, without waiting.
func (p *poller) poll() []unix.EpollEvent { return p.waitRaw(0) }

// waitBriefly returns events as soon as there are some, or none after briefMillis.
func (p *poller) waitBriefly() []unix.EpollEvent { return p.waitRaw(briefMillis) }

func (p *poller) waitRaw(millis int) []unix.EpollEvent {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(millis), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// wait returns events as soon as there are some, or none after at most millis.
func (p *poller) wait(millis int) []unix.EpollEvent {
	n, err := unix.EpollWait(p.epoll, p.events[:], millis)
	if err != nil {
		return nil
	}
	return p.events[:n]
}

// wake ends a wait of another thread, or the next.
func (p *poller) wake() {
	one := [8]byte{1}
	unix.Write(p.event, one[:])
}

// drain forgets the wakes so far.
func (p *poller) drain() {
	var count [8]byte
	readNow(p.event, count[:])
}

// readNow reads from a non-blocking descriptor. 0 without an error is the end of the stream.
func readNow(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// writeNow writes to a non-blocking socket. SIGPIPE on a broken socket is ignored by the runtime.
func writeNow(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
