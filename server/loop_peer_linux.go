package server

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// loopPeer is a plaintext connection with another node that a loop reads. It implements peerCarrier.
type loopPeer struct {
	loop *loop
	conn *peerConn
	over chan struct{} // closed by the loop when it no longer touches the connection

	// Owned by the loop until over is closed.
	fit  []wire.PeerFrame // this turn's frames for the driver
	last *wire.PeerFrame  // the frame that ends the connection, if one does
	err  error            // what has ended the connection

	mu sync.Mutex
	// Guarded by mu. The loop reads fd without it, for it does not change before over is closed.
	fd      int  // -1 once closed
	watched bool // the loop has it in its epoll instance
	full    bool // the socket takes no more: wait until it is writable
}

// errNothingToRead says that a socket has nothing just now.
var errNothingToRead = errors.New("nothing to read")

// takeOver implements peerReader. The socket is duplicated and the original descriptor closed: the runtime's poller watches that one, and
// would wake a thread of its own for everything that arrives.
func (l *loop) takeOver(c *peerConn) (peerCarrier, error) {
	raw, err := c.tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &loopPeer{loop: l, conn: c, over: make(chan struct{}), fd: -1}
	if e := raw.Control(func(fd uintptr) { p.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); e != nil || err != nil {
		return nil, fmt.Errorf("taking over the socket of a connection between nodes: %w", errors.Join(e, err))
	}
	c.tcp.Close()
	c.in.source = p
	return p, nil
}

// run implements peerCarrier. If the loop itself has ended, the connection stays open until the transport is closed: its end must not look
// as if the other node had died.
func (p *loopPeer) run() (last *wire.PeerFrame, err error) {
	l := p.loop
	l.engine.sendTo(&l.shard, mail{kind: mailCall, call: func() { l.watchPeer(p) }})
	select {
	case <-p.over:
	case <-l.done:
		<-p.conn.quit
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Close(p.fd)
	p.fd = -1
	return p.last, p.err
}

// write implements peerCarrier.
func (p *loopPeer) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, errno := writeNow(p.fd, b)
	if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
		return 0, fmt.Errorf("writing to another node: %w", syscall.Errno(errno))
	}
	return n, nil
}

// awaitRoom implements peerCarrier.
func (p *loopPeer) awaitRoom() { p.setFull(true) }

func (p *loopPeer) setFull(full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full = full; p.watched {
		p.loop.set(p.fd, p.interest())
	}
}

func (p *loopPeer) interest() uint32 {
	if p.full {
		return unix.EPOLLIN | unix.EPOLLOUT
	}
	return unix.EPOLLIN
}

// watch adds the connection to the loop's epoll instance, or removes it.
func (p *loopPeer) watch(on bool) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		err = p.loop.add(p.fd, p.interest())
		p.watched = err == nil
	} else if p.watched {
		p.loop.forget(p.fd)
		p.watched = false
	}
	return err
}

// closeWrite implements peerCarrier.
func (p *loopPeer) closeWrite() { p.shutdown(unix.SHUT_WR) }

// hangUp implements peerCarrier: the loop reads the end of the stream then.
func (p *loopPeer) hangUp() { p.shutdown(unix.SHUT_RDWR) }

func (p *loopPeer) shutdown(how int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Shutdown(p.fd, how)
}

// Read implements io.Reader, for the connection's frameReader.
func (p *loopPeer) Read(b []byte) (int, error) {
	n, errno := readNow(p.fd, b)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, errNothingToRead
	case errno != 0:
		return 0, fmt.Errorf("reading from another node: %w", syscall.Errno(errno))
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// watchPeer begins to read p. What arrived right behind the handshake is in its buffer already.
func (l *loop) watchPeer(p *loopPeer) {
	l.peers = append(l.peers, p)
	p.splitFrames(p.watch(true))
	l.heard = append(l.heard, p)
}

// servePeer handles an event of a connection between nodes: it writes what did not fit before, and reads once.
func (l *loop) servePeer(ev *unix.EpollEvent) {
	i := slices.IndexFunc(l.peers, func(p *loopPeer) bool { return p.fd == int(ev.Fd) })
	if i < 0 {
		return
	}
	p := l.peers[i]
	if ev.Events&unix.EPOLLOUT != 0 {
		p.setFull(false)
		p.resume()
	}
	if ev.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return
	}
	err := p.conn.in.read(wire.MaxPeerBody)
	if err == errNothingToRead {
		return
	}
	p.splitFrames(err)
	l.heard = append(l.heard, p)
}

// resume goes on where peerConn.push had to stop.
func (p *loopPeer) resume() {
	c := p.conn
	c.writing.Lock()
	all := c.writeSome()
	c.writing.Unlock()
	switch {
	case !all:
		p.awaitRoom()
	case c.lastWritten():
		c.lastWord()
	default:
		c.push() // somebody may have found it writing meanwhile
	}
}

// splitFrames divides the whole frames that have arrived into those for the driver and the one that ends the connection. Frames
// that arrive after this side's last word are discarded. err is what the last read has ended with.
func (p *loopPeer) splitFrames(err error) {
	frames, fault := p.conn.in.whole(wire.MaxPeerBody)
	if p.err = fault; fault == nil {
		p.err = err
	}
	p.fit = nil
	if !p.conn.ending.Load() {
		p.fit, p.last = p.conn.sift(frames)
	}
}

// decide hands the frames to the driver. Called inside a batch of the loop.
func (p *loopPeer) decide(now lock.Time) {
	if len(p.fit) == 0 {
		return
	}
	if err := p.conn.t.driver.take(now, p.conn.intro(), p.fit); err != nil {
		p.err, p.last = err, nil
	}
}

// finishPeers gives up the connections between nodes that have ended in this turn.
func (l *loop) finishPeers() {
	for _, p := range l.heard {
		if p.err == nil && p.last == nil {
			continue
		}
		p.watch(false)
		l.peers = slices.DeleteFunc(l.peers, func(other *loopPeer) bool { return other == p })
		close(p.over)
	}
	clear(l.heard)
	l.heard = l.heard[:0]
}
