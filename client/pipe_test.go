package client

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe is one direction of an in-memory connection: bytes wait in it, as in a kernel's buffers. It can be cut at any
// byte, and be made to take no more.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte
	room    int // how many bytes it takes before a write blocks
	left    int // how many bytes pass before the connection is cut; < 0: no cut
	closed  bool
	onCut   func()
	expires time.Time // of reads; zero: never
	expiry  *time.Timer
}

func newPipe() *pipe {
	p := &pipe{room: 1 << 20, left: -1}
	p.changed.L = &p.mu
	return p
}

// write blocks while there is no room, or returns a short count if it may not.
func (p *pipe) write(b []byte, mayBlock bool) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return n, syscall.EPIPE
		}
		if p.left == 0 && len(b) > 0 {
			go p.onCut() // it takes the lock of this direction too
			p.closed = true
			p.changed.Broadcast()
			return n, syscall.ECONNRESET
		}
		if len(b) == 0 {
			return n, nil
		}
		take := min(len(b), max(0, p.room-len(p.buf)))
		if p.left >= 0 {
			take = min(take, p.left)
			p.left -= take
		}
		p.buf = append(p.buf, b[:take]...)
		n, b = n+take, b[take:]
		p.changed.Broadcast()
		if take == 0 {
			if !mayBlock {
				return n, nil
			}
			p.changed.Wait()
		}
	}
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf) == 0 && !p.closed {
		if !p.expires.IsZero() && !time.Now().Before(p.expires) {
			return 0, os.ErrDeadlineExceeded
		}
		p.changed.Wait()
	}
	if len(p.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.buf)
	p.buf = p.buf[n:]
	p.changed.Broadcast()
	return n, nil
}

func (p *pipe) expire(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expires = t
	if p.expiry != nil {
		p.expiry.Stop()
	}
	if !t.IsZero() {
		p.expiry = time.AfterFunc(time.Until(t), func() { p.set(func() {}) })
	}
	p.changed.Broadcast()
}

func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.changed.Broadcast()
}

func (p *pipe) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// memoryConn is one end of an in-memory connection.
type memoryConn struct {
	in, out *pipe
	self    *ended
}

// ended is set by Close of this end: its own reads and writes fail, and the other end reads what is there, then EOF.
type ended struct {
	sync.Mutex
	yes bool
}

// newConnPair returns the two ends. A cut of either direction ends both.
func newConnPair() (client, server *memoryConn) {
	up, down := newPipe(), newPipe()
	cut := func() { up.close(); down.close() }
	up.onCut, down.onCut = cut, cut
	return &memoryConn{in: down, out: up, self: new(ended)}, &memoryConn{in: up, out: down, self: new(ended)}
}

func (c *memoryConn) isEnded() bool {
	c.self.Lock()
	defer c.self.Unlock()
	return c.self.yes
}

func (c *memoryConn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	if c.isEnded() {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *memoryConn) Write(b []byte) (int, error) {
	if c.isEnded() {
		return 0, net.ErrClosed
	}
	return c.out.write(b, true)
}

// tryWrite is the directWrite of an in-memory connection.
func (c *memoryConn) tryWrite(b []byte) (int, error) {
	if c.isEnded() {
		return 0, net.ErrClosed
	}
	return c.out.write(b, false)
}

func (c *memoryConn) Close() error {
	c.self.Lock()
	c.self.yes = true
	c.self.Unlock()
	c.in.close()
	c.out.close()
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr         { return memoryAddr{} }
func (c *memoryConn) RemoteAddr() net.Addr        { return memoryAddr{} }
func (c *memoryConn) SetDeadline(time.Time) error { return nil }
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.expire(t)
	return nil
}
func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }
