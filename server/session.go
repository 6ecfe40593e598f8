package server

import (
	"errors"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// consume decides everything that data, the unread input of c, holds. What is left of it is the beginning of a frame.
// Called inside a batch of c's shard; now was read after data was.
func (e *engine) consume(now lock.Time, c *conn, data []byte) (rest []byte) {
	if c.state == stateHandshake {
		n := e.hello(c, data)
		if n == 0 {
			return data
		}
		data = data[n:]
	}
	if c.state != stateOpen {
		return nil
	}
	if c.legacy != nil {
		return e.consumeLegacy(now, c, data)
	}
	return e.consumeFrames(now, c, data)
}

// consumeFrames is the request path of v1.
func (e *engine) consumeFrames(now lock.Time, c *conn, data []byte) (rest []byte) {
	r := &e.request
	told := e.leadership.serving
	for len(data) > 0 {
		n, err := wire.DecodeRequest(data, r)
		if n == 0 {
			if err == nil {
				return data
			}
			e.hangUp(now, c, err)
			return nil
		}
		if !told && r.Op != wire.OpPing {
			told = true
			c.moved(e)
		}
		switch r.Op {
		case wire.OpAcquire:
			e.manager.Acquire(now, c.session, r)
		case wire.OpRelease:
			e.manager.Release(now, c.session, r)
		default:
			c.pong(r.Owner)
		}
		data = data[n:]
	}
	return nil
}

// hangUp ends a session whose stream cannot be trusted any more, saying why.
func (e *engine) hangUp(now lock.Time, c *conn, why error) {
	e.events.malformed(c.remote)
	e.closeSession(now, c)
	f := wire.Malformed
	errors.As(why, &f)
	c.refuse(f)
}

// pong answers a ping; its owner is only echoed.
func (c *conn) pong(owner uint64) {
	o := c.box()
	o.bytes = wire.AppendReply(o.bytes, &wire.Reply{Op: wire.OpPong, Owner: owner})
}
