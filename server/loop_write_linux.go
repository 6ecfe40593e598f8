package server

import (
	"golang.org/x/sys/unix"
)

// flush writes the replies of this turn, and closes the connections that have ended. That may produce more replies: a grant that is
// taken back goes to the next waiter.
func (l *loop) flush() {
	for len(l.dirty) > 0 || len(l.ended) > 0 {
		// Last first: the grant of a hand-off stands behind the reply to the release that caused it, and the client that gets it
		// has been waiting.
		for i := len(l.dirty) - 1; i >= 0; i-- {
			if c := l.dirty[i]; c.state != stateClosed {
				l.write(c)
			}
		}
		clear(l.dirty)
		l.dirty = l.dirty[:0]
		for i := 0; i < len(l.ended); i++ {
			l.finish(l.ended[i])
		}
		clear(l.ended)
		l.ended = l.ended[:0]
	}
}

// write hands c's outbox to the kernel. What does not fit stays, and until it has gone nothing more is read from c.
func (l *loop) write(c *conn) {
	if c.out == nil {
		return
	}
	if c.doomed {
		l.ended = append(l.ended, c)
		return
	}
	o := c.out
	n, errno := writeNow(c.fd, o.bytes[o.sent:])
	if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
		c.doomed = true
		l.ended = append(l.ended, c)
		return
	}
	o.sent += n
	if o.sent < len(o.bytes) {
		l.pauseReading(c, n > 0)
		return
	}
	l.sentAll(c)
}

// sentAll gives c's outbox back and lets c be read again.
func (l *loop) sentAll(c *conn) {
	l.giveBack(c.out)
	c.out = nil
	if c.paused {
		c.paused = false
		l.admission.noteUnsent(c, 0)
		c.leave(waitWrite)
		if c.state != stateDenied {
			l.setInterest(c, unix.EPOLLIN)
		}
		if c.state == stateOpen && c.legacy == nil {
			// While it was not read, its silence did not count.
			c.heard = l.now
			l.arm(&l.idle, c)
		}
	}
	switch {
	case c.state == stateClosing:
		// Tell the other side that nothing follows, and discard for a moment what it still sends: closing with unread input would
		// reset the connection, and could destroy the last reply on its way.
		unix.Shutdown(c.fd, unix.SHUT_WR)
		l.setInterest(c, unix.EPOLLIN)
		l.arm(&l.lingering, c)
	case c.legacy != nil && c.state == stateOpen:
		l.arm(&l.quiet, c)
	}
}

// pauseReading reads nothing more from c, whose peer does not take its replies, and waits for c to be writable.
func (l *loop) pauseReading(c *conn, progress bool) {
	if progress || !c.paused {
		l.arm(&l.slow, c)
	}
	if !c.paused {
		c.paused = true
		if c.links[waitRead].in == &l.idle {
			c.leave(waitRead)
		}
		l.setInterest(c, unix.EPOLLOUT)
	}
	if c.unsent() > maxUnsent {
		c.doomed = true
		l.ended = append(l.ended, c)
		return
	}
	if victim := l.admission.noteUnsent(c, c.unsent()); victim != nil {
		l.engine.send(mail{to: victim, kind: mailEvict})
	}
}

// finish closes c, whose session has ended or ends now. Replies already decided are written once more; a grant that the
// kernel does not accept whole is taken back, and then nothing more of the connection is sent (docs/semantics.md, promise 10).
func (l *loop) finish(c *conn) {
	if c.state == stateClosed {
		return
	}
	if c.out != nil && !c.doomed {
		n, errno := writeNow(c.fd, c.out.bytes[c.out.sent:])
		c.out.sent += n
		c.doomed = errno != 0
	}
	e := l.engine
	if c.session != 0 || c.out != nil && len(c.out.undelivered()) > 0 {
		now := e.clock.now()
		e.enter(&l.shard, now)
		e.closeSession(now, c)
		if e.takeBack(now, c) {
			c.doomed = true
		}
		e.leave()
	}
	l.discard(c)
}

// discard gives back everything that c has.
func (l *loop) discard(c *conn) {
	if c.doomed {
		unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	unix.Close(c.fd)
	l.conns[c.fd] = nil
	c.state = stateClosed
	c.leave(waitRead)
	c.leave(waitWrite)
	if c.out != nil {
		l.giveBack(c.out)
		c.out = nil
	}
	c.partial, c.legacy, c.handshake = nil, nil, nil
	l.admission.remove(c)
}

// closeAll ends every connection of the loop, at the end of the server.
func (l *loop) closeAll() {
	now := l.engine.clock.now()
	l.now = now.Mono
	l.engine.enter(&l.shard, now)
	l.engine.collect(now, &l.shard, l.take)
	for _, c := range l.conns {
		if c != nil {
			l.engine.closeSession(now, c)
			l.ended = append(l.ended, c)
		}
	}
	l.engine.leave()
	l.flush()
}
