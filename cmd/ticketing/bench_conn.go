package main

import (
	"fmt"
	"net"
	"time"

	"ticketing.internal/wire"
)

// benchConn is an ordinary connection, one request at a time, for what need not be fast.
type benchConn struct {
	net.Conn
	out, in []byte
}

// requestTime is how long a plain connection waits for a reply.
const requestTime = 10 * time.Second

// dialPlain connects and shakes hands.
func (b *bench) dialPlain(addr, name string) (*benchConn, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, withExit(exitUnreachable, err)
	}
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := shakeHands(conn, b.token, []byte(name)); err != nil {
		conn.Close()
		return nil, err
	}
	return &benchConn{Conn: conn}, nil
}

// serving returns the addresses at which a server serves (in a cluster the leader's) and reports those that it leaves out. A single
// address is returned unchecked: the measurement itself will say what is wrong with it.
func (b *bench) serving(addrs []string) ([]string, error) {
	if len(addrs) == 1 {
		return addrs, nil
	}
	var serving []string
	var problems []error
	for _, addr := range addrs {
		c, err := b.dialPlain(addr, "ticketing bench")
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		c.Close()
		serving = append(serving, addr)
	}
	if len(serving) == 0 {
		return nil, joinUnreachable(problems, "name a server that serves with --addr or TICKETING_ADDRS")
	}
	for _, err := range problems {
		fmt.Fprintf(b.stderr, "left out: %v\n", err)
	}
	return serving, nil
}

// send writes a request. The reply is read by receive.
func (c *benchConn) send(r *wire.Request) error {
	c.SetDeadline(time.Now().Add(requestTime))
	c.out = wire.AppendRequest(c.out[:0], r)
	_, err := c.Write(c.out)
	return err
}

// receive reads the next reply, which must be of the given kind and owner.
func (c *benchConn) receive(want wire.Op, owner uint64) (wire.Reply, error) {
	var r wire.Reply
	for {
		n, err := wire.DecodeReply(c.in, &r)
		if err != nil {
			return r, err
		}
		if n > 0 {
			c.in = c.in[:copy(c.in, c.in[n:])]
			if r.Op == wire.OpMoved {
				continue
			}
			if r.Op != want || r.Owner != owner {
				return r, fmt.Errorf("reply %v (code %d) to owner %d where %v to %d was due", r.Op, r.Code, r.Owner, want, owner)
			}
			return r, nil
		}
		var buffer [512]byte
		n, err = c.Read(buffer[:])
		if err != nil {
			return r, err
		}
		c.in = append(c.in, buffer[:n]...)
	}
}

// call is send and receive.
func (c *benchConn) call(r *wire.Request, want wire.Op) (wire.Reply, error) {
	if err := c.send(r); err != nil {
		return wire.Reply{}, err
	}
	return c.receive(want, r.Owner)
}
