package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// traffic is the requests of one connection, without its I/O.
type traffic interface {
	start(now int64)                    // the first requests
	receive(in []byte, now int64) error // what was read; in may be reused afterwards
	output() *[]byte                    // what is to be written
}

// phases says when a loop measures. Only the loop reads the clock, once per batch.
type phases struct {
	warmup  time.Duration // not counted
	measure time.Duration // counted; 0: until every slot is idle
	cpus    func() usage  // read at both ends of what is counted
}

// measured is what a loop counted between the ends of its measuring phase.
type measured struct {
	elapsed time.Duration
	count   tally
	latency histogram
	before  usage
	after   usage
}

var errConnectionEnded = errors.New("the server ended a connection")

// drainTime is how long a loop waits at its end for what is in flight, so that no key stays held.
const drainTime = 5 * time.Second

// pacer takes a loop through its phases.
type pacer struct {
	phases
	meter    *meter
	start    int64 // ns, of what is counted
	end      int64
	deadline int64 // of the drain
	warm     bool
	finished bool
	result   *measured
	progress *atomic.Uint64 // requests so far, for the progress line
}

func (m *meter) newPacer(p phases, now int64, progress *atomic.Uint64) *pacer {
	pace := &pacer{phases: p, meter: m, start: now + int64(p.warmup), progress: progress, result: &measured{}}
	if p.warmup == 0 {
		pace.begin(now)
	}
	return pace
}

// begin starts to count.
func (p *pacer) begin(now int64) {
	p.warm = true
	p.start = now
	p.end = now + int64(p.measure)
	p.meter.count = tally{}
	p.meter.latency.reset()
	p.result.before = p.cpus()
}

// advance is called after each batch. It returns false when the loop is to end. ctx ends the measuring early.
func (p *pacer) advance(ctx context.Context, now int64) bool {
	if !p.warm && now >= p.start {
		p.begin(now)
	}
	p.progress.Store(p.meter.count.requests())
	over := p.measure > 0 && now >= p.end || p.measure == 0 && p.meter.inFlight == 0 || ctx.Err() != nil
	if p.warm && !p.finished && over {
		p.finished = true
		p.result.after = p.cpus()
		p.result.elapsed = time.Duration(now - p.start)
		p.result.count = p.meter.count
		p.result.latency = p.meter.latency
		p.meter.stopping = true
		p.deadline = now + int64(drainTime)
	}
	return !p.finished || p.meter.inFlight > 0 && now < p.deadline
}
