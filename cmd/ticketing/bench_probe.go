package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"ticketing.internal/wire"
)

// benchConn is a plain connection for what needs no speed: one request at a time.
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

// serving returns those of several addresses at which somebody serves, in a cluster the leader, and tells which it leaves out. Of a
// single one the measurement itself says what is wrong.
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

// probe acquires and releases a key of its own each millisecond, to see how long the server leaves others waiting.
type probe struct {
	conn  *benchConn
	marks chan func(*histogram) // run between two requests
	ended chan error
}

// startProbe begins to probe until ctx ends.
func (b *bench) startProbe(ctx context.Context, addr string) (*probe, error) {
	conn, err := b.dialPlain(addr, "ticketing bench probe")
	if err != nil {
		return nil, err
	}
	p := &probe{conn: conn, marks: make(chan func(*histogram)), ended: make(chan error, 1)}
	go func() {
		p.ended <- p.run(ctx, []byte(runPrefix()+"-bench-probe"))
		close(p.ended)
	}()
	return p, nil
}

func (p *probe) run(ctx context.Context, key []byte) error {
	defer p.conn.Close()
	var seen histogram
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for owner := uint64(1); ; owner++ {
		select {
		case <-ctx.Done():
			return nil
		case mark := <-p.marks:
			mark(&seen)
			continue
		case <-tick.C:
		}
		start := time.Now()
		r, err := p.conn.call(&wire.Request{Op: wire.OpAcquire, Wait: wire.MaxWaitMillis, Lease: wire.MaxLeaseMillis, Owner: owner, Key: key}, wire.OpGranted)
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		seen.record(int64(time.Since(start)))
		start = time.Now()
		if _, err := p.conn.call(&wire.Request{Op: wire.OpRelease, Owner: owner, Token: r.Token, Key: key}, wire.OpReleased); err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		seen.record(int64(time.Since(start)))
	}
}

// lap returns what was seen since the last lap.
func (p *probe) lap() (stall, error) {
	seen := make(chan stall, 1)
	mark := func(h *histogram) {
		seen <- stall{float64(h.longest) / 1e6, float64(h.quantile(0.99)) / 1e6}
		h.reset()
	}
	select {
	case p.marks <- mark:
		return <-seen, nil
	case err := <-p.ended:
		return stall{}, err
	}
}

// stall is how long a probe's requests took, in ms.
type stall struct {
	Longest float64 `json:"longest_ms"`
	P99     float64 `json:"p99_ms"`
}
