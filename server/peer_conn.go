package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
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
	done    chan struct{} // closed when the driver has been given the last frame

	tls     *tls.Conn   // nil on plaintext; set by secure
	carrier peerCarrier // what has taken the connection over; nil: its own goroutines carry it

	takenOver atomic.Pointer[func()] // ends what carrier does

	// ending: the last frame is being queued, nothing else is sent from now on, and what arrives is discarded.
	ending atomic.Bool
	// lastQueued: the last frame has been queued. When nothing waits any more, it is written.
	lastQueued atomic.Bool
	// wasRefused: the other side has refused this one. Owned by the reading goroutine.
	wasRefused bool

	writing sync.Mutex // held by whoever writes
	// Guarded by writing.
	out  []byte // taken from the queue
	sent int    // of out
}

// peerUserTimeoutMillis is how long bytes sent to another node may stay unacknowledged, in ms. The kernel doubles the time before
// each retransmission, so once a path that was cut for longer has healed, a new connection gets through sooner than the old one.
const peerUserTimeoutMillis = 2_000

// peerUnsentBytes is how many written bytes may wait in the kernel unsent, so that urgent frames do not wait behind much more than
// one frame of a snapshot.
const peerUnsentBytes = 256 << 10

// peerLinger is how long a last frame may take to be sent, and the other side to close.
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
	setUserTimeout(tcp, peerUserTimeoutMillis)
	boundUnsent(tcp, peerUnsentBytes)
}

// secure makes the TLS handshake of session, which is nil on plaintext, and prepares the connection for its own handshake.
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

// start lets the connection carry frames, after its handshake: by r, if it can, or by goroutines.
func (c *peerConn) start(r peerReader) (err error) {
	c.tcp.SetDeadline(time.Time{})
	if r != nil && c.tls == nil {
		return c.handTo(r)
	}
	c.t.running.Add(1)
	go c.write()
	return nil
}

// handTo lets r carry the connection in place of its goroutines.
func (c *peerConn) handTo(r peerReader) (err error) {
	if c.carrier, err = r.takeOver(c); err != nil {
		return err
	}
	c.takenOver.Store(new(c.carrier.hangUp))
	select {
	case <-c.quit: // close may have run before takenOver was set
		c.carrier.hangUp()
	default:
	}
	return nil
}

// intro is what the handshake has proved.
func (c *peerConn) intro() *peerIntroduction { return &c.shake.intro }

// carry hands what arrives to the driver until the connection ends. Frames that come after the last word are thrown away.
func (c *peerConn) carry() error {
	if c.carrier == nil {
		return c.read(c.deliver)
	}
	last, err := c.carrier.run()
	if last != nil {
		return c.endedBy(last)
	}
	return err
}

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

// deliver hands frames to the driver, up to the first that has no place on the connection.
func (c *peerConn) deliver(frames []wire.PeerFrame) error {
	fit, last := c.sift(frames)
	if len(fit) > 0 {
		if err := c.t.driver.received(c.intro(), fit); err != nil {
			return err
		}
	}
	if last != nil {
		return c.endedBy(last)
	}
	return nil
}

// sift returns the frames that are for the driver, and the one behind them that ends the connection, if there is one.
func (c *peerConn) sift(frames []wire.PeerFrame) (fit []wire.PeerFrame, last *wire.PeerFrame) {
	for i := range frames {
		if !c.fits(frames[i].Type) {
			return frames[:i], &frames[i]
		}
	}
	return frames, nil
}

// fits reports whether a frame of type t is for the driver. A connection that this node has dialled brings only replies.
func (c *peerConn) fits(t wire.PeerType) bool {
	switch {
	case t.IsRaftReply():
		return c.intro().bound()
	case c.intro().dialled != "":
		return false
	case t.IsRaft():
		return c.intro().bound()
	}
	return t == wire.PeerTypeInitialConfig || t == wire.PeerTypeAccepted
}

// endedBy handles a frame that ends the connection: the other side refuses this one, or does not keep to the protocol.
func (c *peerConn) endedBy(f *wire.PeerFrame) error {
	if f.Type == wire.PeerTypeRefuse {
		return c.refusedBy(f.Body)
	}
	return fmt.Errorf("%w: type %d", errPeerUnexpected, f.Type)
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
	c.lastQueued.Store(true)
	time.AfterFunc(peerLinger, c.close)
	c.wake()
}

// lastWritten reports whether the last word has been taken from the queue, after which there is nothing. Called by who writes.
func (c *peerConn) lastWritten() bool { return c.lastQueued.Load() && !c.queue.waiting() }

// lastWord ends the sending direction. The connection stays open for a moment, so that the other side can close it: closing at
// once would reset it if something unread has arrived, and the last word could be lost.
func (c *peerConn) lastWord() {
	switch {
	case c.carrier != nil:
		c.carrier.closeWrite()
		return
	case c.tls != nil:
		c.tls.CloseWrite()
	}
	c.tcp.CloseWrite()
}

// drain throws away what arrives after the handshake has failed, until the other side closes or a moment has passed.
func (c *peerConn) drain() {
	c.lastWord()
	c.tcp.SetReadDeadline(deadlineIn(peerLinger))
	io.Copy(io.Discard, c.tcp)
}

// close ends the connection at once. It does not block.
func (c *peerConn) close() {
	c.closing.Do(func() {
		close(c.quit)
		c.queue.end() // a writer goes on for as long as something waits
		c.tcp.Close()
		if hangUp := c.takenOver.Load(); hangUp != nil {
			(*hangUp)()
		}
	})
}

// push writes what can be written without waiting, and leaves the rest to the carrier or the writer.
func (c *peerConn) push() {
	if c.carrier == nil {
		if c.queue.waiting() {
			c.wake()
		}
		return
	}
	for c.queue.waiting() {
		if !c.writing.TryLock() {
			return // the present writer looks at the queue again afterwards
		}
		all := c.writeSome()
		c.writing.Unlock()
		if !all {
			c.wake()
			return
		}
	}
}

// wake makes what waits be written as soon as the kernel takes it.
func (c *peerConn) wake() {
	if c.carrier != nil {
		c.carrier.awaitRoom()
		return
	}
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

// writeSome writes, through the carrier, what the kernel takes now. It reports whether everything is written. Called with writing held.
func (c *peerConn) writeSome() (all bool) {
	for c.fill() {
		n, err := c.carrier.write(c.out[c.sent:])
		if err != nil {
			c.close()
			return false
		}
		if c.sent += n; c.sent < len(c.out) {
			return false
		}
	}
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
		if c.lastWritten() {
			c.lastWord()
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
