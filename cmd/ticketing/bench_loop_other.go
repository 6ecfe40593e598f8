//go:build !linux

package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// loopConn is a connection of the portable loop.
type loopConn struct {
	traffic
	out  *[]byte // the traffic's
	conn net.Conn
}

// Close closes the connection.
func (c *loopConn) Close() error { return c.conn.Close() }

// dialLoad connects for a traffic of so many requests in flight, and shakes hands unless the server is of another kind.
func dialLoad(addr string, bare bool, token, name []byte, inFlight int, t traffic) (*loopConn, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, withExit(exitUnreachable, err)
	}
	if !bare {
		allowed, err := shakeHands(conn, token, name)
		if err == nil && int(allowed) < inFlight {
			err = usageError("--in-flight %d: the server allows %d", inFlight, allowed)
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
	}
	return &loopConn{t, t.output(), conn}, nil
}

// drive runs the connections until the phases are over: a goroutine each, one at a time in the load.
func (m *meter) drive(ctx context.Context, conns []*loopConn, p phases, progress *atomic.Uint64) (*measured, error) {
	var mu sync.Mutex
	var once sync.Once
	var failure error
	done := make(chan struct{})
	finish := func(err error) { once.Do(func() { failure = err; close(done) }) }
	origin := time.Now()
	pace := m.newPacer(p, 0, progress)

	// step runs f in the load and writes what follows from it.
	step := func(c *loopConn, f func(now int64) error) bool {
		mu.Lock()
		now := int64(time.Since(origin))
		err := f(now)
		out := append([]byte(nil), *c.out...)
		*c.out = (*c.out)[:0]
		more := pace.advance(ctx, now)
		mu.Unlock()
		if err == nil && len(out) > 0 {
			_, err = c.conn.Write(out)
		}
		if err != nil || !more {
			finish(err)
		}
		return err == nil && more
	}
	for _, c := range conns { // counted before the first reply can say that nothing is in flight
		c.start(0)
	}
	var running sync.WaitGroup
	for _, c := range conns {
		running.Go(func() {
			buffer := make([]byte, 64<<10)
			more := step(c, func(int64) error { return nil })
			for more {
				n, err := c.conn.Read(buffer)
				if err != nil {
					finish(withExit(exitUnreachable, errors.Join(errConnectionEnded, err)))
					return
				}
				more = step(c, func(now int64) error { return c.receive(buffer[:n], now) })
			}
		})
	}
	<-done
	for _, c := range conns {
		c.conn.SetDeadline(time.Now())
	}
	running.Wait()
	return pace.result, failure
}
