package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// peerConn is one connection between nodes, of either direction. One goroutine makes the handshake and reads; another writes
// what could not be written at once.
type peerConn struct {
	t       *peerTransport
	tcp     *net.TCPConn
	shake   peerShake
	in      frameReader
	queue   peerQueue
	wakeup  chan struct{} // has a value when the writer has something to do
	quit    chan struct{} // closed by close
	closing sync.Once
	done    chan struct{} // closed when the driver has got the last frame

	tls *tls.Conn // nil on plaintext; set by secure

	// ending: the last word has been queued, and what arrives is thrown away.
	ending atomic.Bool
	// wasRefused: the other side has said so, or this one.
	wasRefused bool // of the reading goroutine

	writing sync.Mutex // held by whoever writes
	// Guarded by writing.
	out       []byte // taken from the queue
	sent      int    // of out
	raw       syscall.RawConn
	directFn  func(fd uintptr) bool // writes once, without waiting
	directN   int
	directErr error
}

// peerLinger is how long a last word may take to leave, and then the other side to close.
const peerLinger = time.Second

func newPeerConn(t *peerTransport, tcp *net.TCPConn) *peerConn {
	c := &peerConn{
		t: t, tcp: tcp, wakeup: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		queue: peerQueue{urgentLimit: t.limits.urgentBytes, bulkLimit: t.limits.bulkBytes},
	}
	tunePeerSocket(tcp)
	c.shake.secrets = t.secrets.Load()
	c.shake.identity = t.driver.identity
	c.shake.in = &c.in
	c.shake.intro.remote = remoteOf(tcp.RemoteAddr())
	return c
}

func tunePeerSocket(tcp *net.TCPConn) {
	tcp.SetNoDelay(true)
	tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdleSeconds * time.Second, Interval: keepAliveIntervalSeconds * time.Second, Count: keepAliveProbes,
	})
	setUserTimeout(tcp)
	boundUnsent(tcp)
}

// secure makes the TLS handshake of session, nil on plaintext, and readies the connection for its own.
func (c *peerConn) secure(ctx context.Context, session *tls.Conn) (err error) {
	c.shake.out, c.in.source = c.tcp, c.tcp
	if session == nil {
		return nil
	}
	if err := session.HandshakeContext(ctx); err != nil {
		return err
	}
	c.shake.out, c.in.source = session, session
	c.tls = session
	c.shake.transcript.Binding, err = tlsconf.Binding(session.ConnectionState())
	return err
}

// start lets the connection carry frames, after its handshake.
func (c *peerConn) start() {
	c.tcp.SetDeadline(time.Time{})
	if c.tls == nil && directWrites {
		if raw, err := c.tcp.SyscallConn(); err == nil {
			c.raw, c.directFn = raw, c.writeOnce
		}
	}
	c.t.running.Add(1)
	go c.write()
}

// intro is what the handshake has proved.
func (c *peerConn) intro() *peerIntroduction { return &c.shake.intro }

// read hands what arrives to take until the connection ends. Frames that come after the last word are thrown away.
func (c *peerConn) read(take func([]wire.PeerFrame) error) error {
	for {
		frames, err := c.in.batch(wire.MaxPeerBody)
		if len(frames) > 0 && !c.ending.Load() {
			if e := take(frames); e != nil {
				return e
			}
		}
		if err != nil {
			return err
		}
	}
}

// refusedBy takes a Refuse. The connection is over then.
func (c *peerConn) refusedBy(body []byte) error {
	why, proved, err := c.shake.readRefusal(body)
	switch {
	case err != nil:
		return err
	case !proved:
		return &unprovedRefusal{why.reason, why.text}
	}
	c.wasRefused = true
	c.t.events.peerRefusedUs(c.intro(), &why)
	c.t.driver.refused(c.intro(), why)
	return io.EOF
}

// refuse tells the other side why and ends the connection. It does not block.
func (c *peerConn) refuse(why peerRefusal) {
	if c.ending.Swap(true) {
		return
	}
	body := c.shake.refusal(why)
	if !c.queue.add(wire.PeerTypeRefuse, 0, func(dst []byte) []byte { return append(dst, body...) }) {
		c.close()
		return
	}
	c.tcp.SetWriteDeadline(deadlineIn(peerLinger))
	c.wake()
}

// linger ends the sending direction and waits a moment for the other side to close: closing at once would reset the connection
// if something unread has arrived, and the last word could be lost.
func (c *peerConn) linger() {
	if c.tls != nil {
		c.tls.CloseWrite()
	}
	c.tcp.CloseWrite()
	c.tcp.SetReadDeadline(deadlineIn(peerLinger))
}

// drain throws away what arrives after the handshake has failed, until the other side closes or a moment has passed.
func (c *peerConn) drain() {
	c.linger()
	io.Copy(io.Discard, c.tcp)
}

// close ends the connection at once. It does not block.
func (c *peerConn) close() {
	c.closing.Do(func() {
		close(c.quit)
		c.tcp.Close()
	})
}

// push writes what can be written without waiting, and leaves the rest to the writer.
func (c *peerConn) push() {
	for c.queue.waiting() {
		if !c.writing.TryLock() {
			return // who writes now looks again afterwards
		}
		all := c.writeDirect()
		c.writing.Unlock()
		if !all {
			c.wake()
			return
		}
	}
}

func (c *peerConn) wake() {
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

// writeDirect reports whether all is written. Called with writing held.
func (c *peerConn) writeDirect() (all bool) {
	for c.raw != nil && c.fill() {
		err := c.raw.Write(c.directFn)
		if err == nil {
			err = c.directErr
		}
		if err != nil {
			c.close()
			return false
		}
		if c.sent += c.directN; c.sent < len(c.out) {
			return false
		}
	}
	return c.raw != nil
}

func (c *peerConn) writeOnce(fd uintptr) bool {
	c.directN, c.directErr = writeDirect(fd, c.out[c.sent:])
	return true
}

// fill reports whether out holds something to write. Called with writing held.
func (c *peerConn) fill() bool {
	if c.sent == len(c.out) {
		c.out, c.sent = c.queue.take(c.out), 0
	}
	return c.sent < len(c.out)
}

// write is the writer: it writes what push has left, waiting for the other side to take it.
func (c *peerConn) write() {
	defer c.t.running.Done()
	for {
		select {
		case <-c.quit:
			return
		case <-c.wakeup:
		}
		c.writeAll()
		if c.ending.Load() && !c.queue.waiting() {
			c.linger()
			return
		}
	}
}

func (c *peerConn) writeAll() {
	for more := true; more; more = c.queue.waiting() {
		c.writing.Lock()
		for c.fill() {
			n, err := c.shake.out.Write(c.out[c.sent:])
			c.sent += n
			if err != nil {
				c.close()
				c.writing.Unlock()
				return
			}
		}
		c.writing.Unlock()
	}
}

// isStrangersFault reports whether a connection ended because of what the other side has sent.
func isStrangersFault(err error) bool {
	var fault wire.PeerFault
	return errors.As(err, &fault) || errors.Is(err, errPeerUnexpected)
}
