package server

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/tlsconf"
)

// stream serves one connection with goroutines: TLS everywhere, and plaintext on systems without event loops. One goroutine reads,
// decides, and writes the replies to what it read. Replies that other connections cause are written by a goroutine that is started
// for each of these writes.
type stream struct {
	shard
	conn      *conn
	engine    *engine
	admission *admission
	tcp       *net.TCPConn
	tls       *tls.Conn // nil on plaintext
	idle      time.Duration
	lastLook  bool // owned by the reader: its client has been silent for too long, unless the socket holds something unread

	writing sync.Mutex // held while an outbox is being written, so that outboxes leave in order
	failed  bool       // guarded by writing: nothing more is written

	// Guarded by the engine's lock.
	quiet *time.Timer // v0: sends a newline after a time without replies
}

const (
	// lastLookLimit is how long a silent client's socket is read once more before the connection is closed.
	lastLookLimit = 50 * time.Millisecond
	streamBuffer  = 4 << 10 // bytes that one read takes at most
	// streamChunk is how much one write hands over, and so what must leave within slowReaderLimit.
	streamChunk = 64 << 10
	// streamKept is the largest capacity, in bytes, of the one outbox that a stream keeps for reuse. It is small, because a loop's
	// spare outboxes serve all of its connections and a stream's only the one.
	streamKept = 4 << 10
)

func newStream(e *engine, tcp *net.TCPConn) *stream {
	s := &stream{engine: e, tcp: tcp}
	s.shard.wake = func() { go s.flush() }
	s.conn = &conn{shard: &s.shard, remote: remoteOf(tcp.RemoteAddr()), carrier: carrier{stream: s}}
	return s
}

// transport is what frames go over.
func (s *stream) transport() net.Conn {
	if s.tls != nil {
		return s.tls
	}
	return s.tcp
}

// serve runs the connection to its end.
func (s *stream) serve() {
	defer s.discard()
	s.transport().SetDeadline(deadlineIn(handshakeLimit))
	binding, bindable, ok := s.secure()
	if !ok {
		return
	}
	s.tcp.SetWriteDeadline(time.Time{})
	s.batch(func(lock.Time) { s.conn.greet(binding, bindable) })
	if s.flush() {
		s.read()
	}
}

// secure makes the TLS handshake, if there is to be one.
func (s *stream) secure() (binding []byte, bindable, ok bool) {
	if s.tls == nil {
		return nil, true, true
	}
	if err := s.tls.Handshake(); err != nil {
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) {
			s.engine.events.plaintextOnTLS(s.conn.remote)
		} else {
			s.engine.events.handshakeFailed(s.conn.remote, err)
		}
		return nil, false, false
	}
	binding, err := tlsconf.Binding(s.tls.ConnectionState())
	return binding, err == nil, true
}

// batch enters the engine for f.
func (s *stream) batch(f func(now lock.Time)) {
	s.engine.batch(&s.shard, func(now lock.Time) {
		s.engine.collect(now, &s.shard, s.take)
		f(now)
	})
}

// take carries out one message of the stream's mail.
func (s *stream) take(now lock.Time, m *mail) {
	switch m.kind {
	case mailReply:
		s.conn.answer(s.engine, &m.reply)
	case mailEvictUnproved:
		if !s.conn.unproved() {
			return
		}
		fallthrough
	case mailEvict:
		s.conn.doomed = true
		s.tcp.Close()
	case mailClose:
		s.engine.closeSession(now, s.conn)
		s.tcp.SetReadDeadline(deadlineIn(0))
	}
}

// read decides what arrives until the connection ends.
func (s *stream) read() {
	c, t := s.conn, s.transport()
	buffer := make([]byte, streamBuffer)
	held := 0
	var lastRead, armed int64
	for {
		n, err := t.Read(buffer[held:])
		now := s.engine.clock.mono()
		if err != nil && s.patient(err, now, lastRead, &armed) {
			continue
		}
		s.lastLook = false
		before := c.state
		s.batch(func(now lock.Time) {
			held = copy(buffer, s.engine.consume(now, c, buffer[:held+n]))
			if err != nil {
				s.engine.closeSession(now, c)
			}
		})
		if before == stateHandshake && c.state == stateOpen {
			s.admission.proved(c)
			s.tcp.SetReadDeadline(time.Time{})
			s.startKeepAlive()
		}
		if c.state == stateDenied {
			s.sayDenied()
		}
		if !s.flush() || err != nil {
			return
		}
		if c.state == stateClosing {
			s.linger()
			return
		}
		lastRead = now
		if c.state == stateOpen && c.legacy == nil {
			s.arm(now, &armed)
		}
	}
}

// arm makes the next read fail once the client has been silent for too long. The deadline is moved only when a quarter of the
// time-out is used up: setting it costs more than reading a frame.
func (s *stream) arm(now int64, armed *int64) {
	if *armed-now < int64(s.idle)*3/4 {
		*armed = now + int64(s.idle)
		s.tcp.SetReadDeadline(deadlineIn(s.idle))
	}
}

// patient reports whether a read that ran into its deadline may be tried again, because the client has not been silent for the
// whole time-out.
func (s *stream) patient(err error, now, lastRead int64, armed *int64) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || s.conn.state != stateOpen || s.conn.legacy != nil || s.conn.session == 0 {
		return false
	}
	left := lastRead + int64(s.idle) - now
	if left <= 0 {
		// A read whose deadline has passed does not look at the socket, which may hold something after a stall of the server.
		if s.lastLook {
			return false
		}
		s.lastLook, left = true, int64(lastLookLimit)
	}
	*armed = now + left
	s.tcp.SetReadDeadline(deadlineIn(time.Duration(left)))
	return true
}

// sayDenied answers a wrong proof after denialDelay.
func (s *stream) sayDenied() {
	timer := time.NewTimer(denialDelay)
	<-timer.C
	s.batch(func(lock.Time) { s.conn.tellDenied() })
}

// startKeepAlive sends a v0 client a newline whenever it has heard nothing for a while.
func (s *stream) startKeepAlive() {
	if s.conn.legacy == nil {
		return
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	s.quiet = time.AfterFunc(legacyKeepAlive, func() {
		s.batch(func(lock.Time) {
			if s.conn.state == stateOpen {
				o := s.conn.box()
				o.bytes = append(o.bytes, '\n')
			}
		})
		s.flush()
	})
}

// flush writes until nothing waits to be written. It reports whether the connection still works.
func (s *stream) flush() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	for {
		var o *outbox
		var doomed bool
		s.batch(func(lock.Time) {
			s.shard.dirty = s.shard.dirty[:0]
			o, s.conn.out = s.conn.out, nil
			doomed = s.conn.doomed
		})
		if o == nil {
			return !s.failed && !doomed
		}
		err := net.ErrClosed
		if !doomed {
			err = s.send(o)
		}
		s.batch(func(now lock.Time) { s.sent(now, o, err) })
	}
}

// send hands o to the transport.
func (s *stream) send(o *outbox) error {
	if s.failed {
		return net.ErrClosed
	}
	if victim := s.admission.noteUnsent(s.conn, len(o.bytes)); victim != nil {
		s.engine.send(mail{to: victim, kind: mailEvict})
	}
	defer s.admission.noteUnsent(s.conn, 0)
	t := s.transport()
	for o.sent < len(o.bytes) {
		s.tcp.SetWriteDeadline(deadlineIn(slowReaderLimit))
		n, err := t.Write(o.bytes[o.sent:min(len(o.bytes), o.sent+streamChunk)])
		o.sent += n
		if err != nil {
			return err
		}
	}
	return nil
}

// sent follows the writing of an outbox, whose error is err. After a failure nothing more is written, and grants that were not
// delivered are taken back.
func (s *stream) sent(now lock.Time, o *outbox, err error) {
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && !s.failed {
			s.engine.counters.slowReadersClosed++
			s.engine.events.slowReader(s.conn.remote)
		}
		s.failed, s.conn.doomed = true, true
		for _, g := range o.undelivered() {
			s.engine.manager.TakeBack(now, g.ref, g.token)
		}
		s.engine.closeSession(now, s.conn)
		s.tcp.SetLinger(0)
		s.tcp.Close()
	} else if s.quiet != nil {
		s.quiet.Reset(legacyKeepAlive)
	}
	if len(s.spare) == 0 && cap(o.bytes) <= streamKept {
		s.giveBack(o)
	}
}

// linger tells the client that nothing follows, and discards what it still sends for lingerLimit (loop.sentAll says why).
func (s *stream) linger() {
	if s.tls != nil {
		s.tls.CloseWrite()
	}
	s.tcp.CloseWrite()
	s.tcp.SetReadDeadline(deadlineIn(lingerLimit))
	var waste [512]byte
	for {
		if _, err := s.tcp.Read(waste[:]); err != nil {
			return
		}
	}
}

// discard closes the connection and gives back everything that it has.
func (s *stream) discard() {
	c := s.conn
	s.batch(func(now lock.Time) {
		s.engine.closeSession(now, c)
		if s.engine.takeBack(now, c) {
			s.tcp.SetLinger(0)
		}
		c.state = stateClosed
		c.out, c.legacy, c.handshake = nil, nil, nil
		if s.quiet != nil {
			s.quiet.Stop()
		}
	})
	s.tcp.Close()
	s.admission.remove(c)
}
