package server

import (
	"net/netip"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// conn is one client connection, whatever carries it: an event loop (loop_linux.go) or a goroutine (stream.go).
type conn struct {
	// Immutable after the connection was accepted.
	shard  *shard
	remote netip.AddrPort

	// Owned by the shard's thread of control; a stream's are guarded by the engine's lock.
	state     connState
	session   lock.Session
	legacy    *legacySession // v0 only
	handshake *handshake     // until the client has proved the token
	out       *outbox        // nil while there is nothing to send
	doomed    bool           // no further byte may be written: the connection will be reset

	// Owned by the admission.
	handshakeEntry handshakeEntry

	carrier
}

// connState is what a connection's next byte means.
type connState uint8

const (
	stateHandshake connState = iota // the client has not proved the token yet
	stateDenied                     // it proved a wrong one; the answer is held back
	stateOpen                       // a session, v1 or v0
	stateClosing                    // the last bytes are on their way out; what still arrives is thrown away
	stateClosed                     // gone; only late mail still knows of it
)

// unproved reports whether the client has yet to prove the token.
func (c *conn) unproved() bool { return c.state == stateHandshake || c.state == stateDenied }

// outbox is what waits to be sent on one connection. Outboxes are lent by the shard and go back to it when all is sent, so
// that an idle connection has none.
type outbox struct {
	bytes  []byte
	sent   int        // of bytes, those that the kernel has accepted
	grants []sentMark // the A replies in bytes, oldest first
}

// sentMark says where in an outbox an A reply ends, and which grant to take back if the kernel does not accept all of it.
type sentMark struct {
	end   int
	ref   uint32
	token uint64
}

// Limits of what a connection may make the server hold.
const (
	maxUnsent     = 1 << 20   // bytes; a connection with more to send is cut off
	keptOutbox    = 256 << 10 // capacity in bytes above which an outbox is not kept for reuse
	keptOutboxes  = 16        // spare outboxes that a shard keeps
	initialOutbox = 4 << 10   // capacity in bytes of a new outbox
)

// unsent is the number of bytes that the kernel has not accepted.
func (c *conn) unsent() int {
	if c.out == nil {
		return 0
	}
	return len(c.out.bytes) - c.out.sent
}

// box returns the connection's outbox, borrowing one if it has none, and notes that the connection has something to send.
func (c *conn) box() *outbox {
	if c.out == nil {
		c.out = c.shard.borrow()
		c.shard.dirty = append(c.shard.dirty, c)
	}
	return c.out
}

// answer encodes the manager's reply for this connection.
func (c *conn) answer(e *engine, r *lock.Reply) {
	if c.legacy != nil {
		c.legacy.answer(e, e.now, c, r)
		return
	}
	if r.Op == wire.OpError {
		c.fail(wire.Failure(r.Code), r.Owner)
		return
	}
	o := c.box()
	if cap(o.bytes)-len(o.bytes) < wire.HeaderSize {
		c.grow()
	}
	n := len(o.bytes)
	o.bytes = o.bytes[:n+wire.HeaderSize]
	wire.PutReplyHeader((*[wire.HeaderSize]byte)(o.bytes[n:]), r.Op, r.Code, r.Millis, r.Owner, r.Token)
	if r.Op == wire.OpGranted {
		o.grants = append(o.grants, sentMark{end: n + wire.HeaderSize, ref: r.Ref, token: r.Token})
	}
}

// fail appends an E reply with its reason for people.
func (c *conn) fail(f wire.Failure, owner uint64) {
	o := c.box()
	o.bytes = wire.AppendReply(o.bytes, &wire.Reply{Op: wire.OpError, Code: uint16(f), Owner: owner, Text: []byte(f.Error())})
}

// grow makes room for another reply, if it can in the part of the outbox that has been sent. A connection with too much unsent is
// doomed: nobody reads at its other end.
func (c *conn) grow() {
	o := c.out
	o.dropSent()
	if c.unsent() > maxUnsent && !c.doomed {
		c.doomed = true
		c.shard.dirty = append(c.shard.dirty, c)
	}
	if cap(o.bytes)-len(o.bytes) >= wire.HeaderSize {
		return
	}
	bigger := make([]byte, len(o.bytes), max(2*cap(o.bytes), initialOutbox))
	copy(bigger, o.bytes)
	o.bytes = bigger
}

// dropSent moves the unsent bytes to the front when that frees at least half of the buffer.
func (o *outbox) dropSent() {
	if o.sent == 0 || o.sent < len(o.bytes)/2 {
		return
	}
	kept := 0
	for _, g := range o.grants {
		if g.end > o.sent {
			o.grants[kept] = sentMark{end: g.end - o.sent, ref: g.ref, token: g.token}
			kept++
		}
	}
	o.grants = o.grants[:kept]
	o.bytes = o.bytes[:copy(o.bytes, o.bytes[o.sent:])]
	o.sent = 0
}

// undelivered returns the grants whose replies the kernel has not accepted to the last byte.
func (o *outbox) undelivered() []sentMark {
	for i, g := range o.grants {
		if g.end > o.sent {
			return o.grants[i:]
		}
	}
	return nil
}
