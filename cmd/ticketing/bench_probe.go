package main

import (
	"context"
	"fmt"
	"time"

	"ticketing.internal/wire"
)

// probe acquires and releases a key of its own every millisecond, to see how long the server keeps other clients waiting.
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
