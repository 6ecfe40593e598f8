package main

import (
	"context"
	"fmt"
	"time"

	"ticketing.internal/wire"
)

// idleResult is what idle connections cost. Memory is 0 for a server that bench did not start.
type idleResult struct {
	Connections int     `json:"connections"`
	Connecting  float64 `json:"connecting_seconds"` // handshakes included
	RSSBefore   int64   `json:"rss_before_bytes"`
	RSSOpen     int64   `json:"rss_open_bytes"`  // all connected, nothing sent
	RSSAfter    int64   `json:"rss_after_bytes"` // each has pinged at least once
	RSSPeak     int64   `json:"rss_peak_bytes"`
	Pings       int     `json:"pings"`
}

// pingInterval is the protocol's.
const pingInterval = 5 * time.Second

// idleConnections opens n connections and keeps them alive for d. Every ping must be answered.
func (b *bench) idleConnections(ctx context.Context, addrs []string, server *child, n int, d time.Duration) (idleResult, error) {
	r := idleResult{Connections: n}
	r.RSSBefore, _ = residentBytes(server.pid())
	var conns []*benchConn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	begin := time.Now()
	for i := range n {
		c, err := b.dialPlain(addrs[i%len(addrs)], "ticketing bench idle")
		if err != nil {
			return r, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		conns = append(conns, c)
		if ctx.Err() != nil {
			return r, withExit(exitNegative, ctx.Err())
		}
	}
	r.Connecting = time.Since(begin).Seconds()
	r.RSSOpen, _ = residentBytes(server.pid())

	next := time.NewTimer(0)
	defer next.Stop()
	for over := begin; time.Since(over) < d || r.Pings == 0; {
		select {
		case <-next.C:
		case <-ctx.Done():
			return r, withExit(exitNegative, ctx.Err())
		}
		if r.Pings == 0 {
			over = time.Now()
		}
		next.Reset(min(pingInterval, d))
		for i, c := range conns {
			if err := c.send(&wire.Request{Op: wire.OpPing, Owner: uint64(i)}); err != nil {
				return r, fmt.Errorf("connection %d: %w", i+1, err)
			}
		}
		for i, c := range conns {
			if _, err := c.receive(wire.OpPong, uint64(i)); err != nil {
				return r, fmt.Errorf("connection %d: %w", i+1, err)
			}
			r.Pings++
		}
	}
	r.RSSAfter, r.RSSPeak = residentBytes(server.pid())
	return r, nil
}
