package client

import (
	"encoding/binary"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Now is the time since boot, suspension included. Go's own monotonic clock stands still in a suspension.
func (c systemClock) Now() time.Duration {
	var ts unix.Timespec
	// A call that cannot block needs none of the bookkeeping of unix.ClockGettime, which costs more than the reading.
	_, _, failed := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0)
	if failed != 0 {
		return time.Since(c.start) // a sandbox without the call
	}
	return time.Duration(ts.Nano())
}

// NewAlarm returns one on a timerfd, which rings right after a suspension, or, where none can be had (no descriptor
// left), one that looks at the clock.
func (c systemClock) NewAlarm(ring func()) alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return newRecheckAlarm(c, ring)
	}
	// NewFile hands a descriptor that does not block to the runtime's poller: the goroutine that reads needs no thread.
	a := &timerfd{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), ring: ring, ended: make(chan struct{})}
	go a.run()
	return a
}

// timerfd is an alarm on CLOCK_BOOTTIME.
type timerfd struct {
	file  *os.File
	ring  func()
	ended chan struct{}

	mu     sync.Mutex // for fd, which Set must not use when it is closed
	fd     int
	closed bool
}

func (a *timerfd) Set(at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 1)))} // 0 would disarm it
	// It fails for a bad descriptor or a bad time alone, and neither can be.
	_ = unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

func (a *timerfd) run() {
	defer close(a.ended)
	var expirations [8]byte
	for {
		if n, err := a.file.Read(expirations[:]); err != nil || n != len(expirations) {
			return
		}
		if binary.NativeEndian.Uint64(expirations[:]) > 0 {
			a.ring()
		}
	}
}

func (a *timerfd) Stop() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.file.Close()
	<-a.ended
}
