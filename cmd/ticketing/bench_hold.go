package main

import (
	"context"
	"fmt"
	"time"
)

// holdResult is what holding many keys cost. Memory is 0 for a server that bench did not start.
type holdResult struct {
	Keys        int     `json:"keys"`
	KeySize     int     `json:"key_bytes"`
	FillSeconds float64 `json:"fill_seconds"`
	FillRate    float64 `json:"fill_per_second"`
	RSSBefore   int64   `json:"rss_before_bytes"`
	RSSHeld     int64   `json:"rss_held_bytes"`
	RSSPeak     int64   `json:"rss_peak_bytes"`
	RSSAfter    int64   `json:"rss_after_expiry_bytes"`
	Quiet       stall   `json:"probe_before"`
	Filling     stall   `json:"probe_filling"`
	Expiring    stall   `json:"probe_expiring"` // from just before the first lease's end to 1 s after the last's
	Regranted   int     `json:"regranted"`      // keys that were free afterwards
}

// holdKeys acquires n keys, keeps them until their leases end, and then takes and releases each once.
func (b *bench) holdKeys(ctx context.Context, addrs []string, server *child, n int, lease time.Duration) (holdResult, error) {
	o := b.options
	r := holdResult{Keys: n, KeySize: o.keySize}
	t := target{addrs: addrs, child: server}
	probeCtx, stopProbe := context.WithCancel(ctx)
	defer stopProbe()
	probe, err := b.startProbe(probeCtx, addrs[0])
	if err != nil {
		return r, err
	}
	// wait lets d pass and returns what the probe saw.
	wait := func(d time.Duration) (stall, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return probe.lap()
		case <-ctx.Done():
			return stall{}, withExit(exitNegative, ctx.Err())
		}
	}
	if r.Quiet, err = wait(time.Second); err != nil {
		return r, err
	}
	r.RSSBefore, _ = residentBytes(server.pid())

	prefix := runPrefix()
	begin := time.Now()
	filled, err := b.sweep(ctx, t, script{hold: true, sweep: true}, prefix, n, lease)
	if err != nil {
		return r, err
	}
	if filled.count.granted != uint64(n) {
		return r, withExit(exitNegative, fmt.Errorf("%d of %d keys were granted; refused: %v", filled.count.granted, n, filled.count.refusals()))
	}
	end := time.Now()
	if end.Sub(begin) > lease-2*time.Second {
		return r, withExit(exitNegative, fmt.Errorf("acquiring took %v: the first leases (%v) end too early to measure all; raise --lease", end.Sub(begin), lease))
	}
	r.FillSeconds, r.FillRate = filled.elapsed.Seconds(), float64(n)/filled.elapsed.Seconds()
	if r.Filling, err = probe.lap(); err != nil {
		return r, err
	}
	if _, err = wait(time.Second); err != nil {
		return r, err
	}
	r.RSSHeld, _ = residentBytes(server.pid())
	if _, err = wait(time.Until(begin.Add(lease - 100*time.Millisecond))); err != nil {
		return r, err
	}
	if r.Expiring, err = wait(time.Until(end.Add(lease + time.Second))); err != nil {
		return r, err
	}
	r.RSSAfter, r.RSSPeak = residentBytes(server.pid())
	again, err := b.sweep(ctx, t, script{sweep: true}, prefix, n, lease)
	if err != nil {
		return r, err
	}
	r.Regranted = int(again.count.released)
	if r.Regranted != n {
		return r, withExit(exitNegative, fmt.Errorf("%d of %d keys were free after their leases' end; %d timed out, refused: %v",
			r.Regranted, n, again.count.timedOut, again.count.refusals()))
	}
	return r, nil
}

// sweep gives each of n keys one acquire that does not wait.
func (b *bench) sweep(ctx context.Context, t target, s script, prefix string, n int, lease time.Duration) (*measured, error) {
	o := b.options
	l := newLoad(s, prefix, n, o.keySize, 0, uint32(lease.Milliseconds()))
	traffics := make([]traffic, min(o.connections, n))
	for i := range traffics {
		first, end := n*i/len(traffics), n*(i+1)/len(traffics)
		c := l.newConn(min(o.inFlight, end-first), first)
		c.nextKey, c.lastKey = uint32(first), uint32(end)
		traffics[i] = c
	}
	return b.drive(ctx, &l.meter, traffics, o.inFlight, t, phases{})
}
