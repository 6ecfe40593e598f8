package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"ticketing.internal/wire"
)

// asked is one request and what became of it.
type asked struct {
	request  wire.Request
	sent     time.Duration
	answered bool
	reply    wire.Reply
	received time.Duration
}

// wordUnknown stands for no reply, and for a reply that says that nothing is known.
const wordUnknown wire.Op = 0

// word is what the reply says.
func (q *asked) word() wire.Op {
	if !q.answered || q.reply.Op == wire.OpError {
		return wordUnknown
	}
	return q.reply.Op
}

// takes reports whether r answers q.
func (q *asked) takes(r *wire.Reply) bool {
	if q.answered || q.request.Owner != r.Owner {
		return false
	}
	switch r.Op {
	case wire.OpGranted, wire.OpTimeout:
		return q.request.Op == wire.OpAcquire
	case wire.OpReleased, wire.OpNotHeld:
		return q.request.Op == wire.OpRelease && q.request.Token == r.Token
	}
	return q.request.Op == wire.OpAcquire || q.request.Token != 0 // a withdrawal is answered R or N only
}

// frameConn is a connection whose owner sees each frame, and asks for nothing while it waits for replies.
type frameConn struct {
	net.Conn
	now func() time.Duration
	in  []byte // received, and not decoded
}

// dialFrames connects to a node that serves, from a place.
func dialFrames(from place, addr string, now func() time.Duration) (*frameConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	conn, err := from.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(requestTime))
	if _, err := shakeHands(conn, nil, []byte("chaos")); err != nil {
		conn.Close()
		return nil, err
	}
	return &frameConn{Conn: conn, now: now}, nil
}

// exchange sends requests and waits until each is answered, for as long as patience lasts.
func (c *frameConn) exchange(list []*asked, patience time.Duration) error {
	if err := c.send(list); err != nil {
		return err
	}
	return c.await(list, patience)
}

func (c *frameConn) send(list []*asked) error {
	var out []byte
	now := c.now()
	for _, q := range list {
		out = wire.AppendRequest(out, &q.request)
		q.sent = now
	}
	c.SetDeadline(time.Now().Add(testTime))
	_, err := c.Write(out)
	return err
}

// await waits until each request is answered. A reply that answers none of them is an error.
func (c *frameConn) await(list []*asked, patience time.Duration) error {
	c.SetDeadline(time.Now().Add(patience))
	for open := len(list); open > 0; {
		var r wire.Reply
		n, err := wire.DecodeReply(c.in, &r)
		if err != nil {
			return err
		}
		if n == 0 {
			var more [4096]byte
			got, err := c.Read(more[:])
			if err != nil {
				return err
			}
			c.in = append(c.in[:len(c.in):len(c.in)], more[:got]...)
			continue
		}
		c.in = c.in[n:]
		if r.Op == wire.OpMoved {
			continue
		}
		if !c.deliver(list, &r) {
			return fmt.Errorf("%w: %v %d for owner %d", errStray, r.Op, r.Code, r.Owner)
		}
		open--
	}
	return nil
}

// errStray: a reply answers no request.
var errStray = errors.New("a reply to nothing that was asked")

func (c *frameConn) deliver(list []*asked, r *wire.Reply) bool {
	for _, q := range list {
		if q.takes(r) {
			q.answered, q.reply, q.received = true, *r, c.now()
			return true
		}
	}
	return false
}
