package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"ticketing.internal/client"
)

// grantMonitor asks for a new lock at a steady pace, whatever became of the earlier ones, and notes when each was granted. A time
// without a grant is one in which the cluster served nobody.
type grantMonitor struct {
	broker *client.Broker
	prefix string
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	grants  []probedGrant
	arrived chan struct{} // closed and made anew at each grant
}

// probedGrant is when a lock was asked for and when it arrived.
type probedGrant struct{ asked, arrived time.Time }

// probeLease is the shortest lease there is, so that what a dead leader granted and nobody released is soon gone.
const probeLease = time.Second

// startGrantMonitor asks through the broker once in each interval, until stop.
func startGrantMonitor(ctx context.Context, broker *client.Broker, interval time.Duration) *grantMonitor {
	ctx, stop := context.WithCancel(ctx)
	p := &grantMonitor{broker: broker, prefix: runPrefix(), stop: stop, arrived: make(chan struct{})}
	p.ended.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for i := 0; ; i++ {
			key := fmt.Sprintf("%s-probe-%d", p.prefix, i)
			p.ended.Go(func() { p.ask(ctx, key) })
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return p
}

// end gives up the acquires that are not granted yet, and waits for all goroutines.
func (p *grantMonitor) end() {
	p.stop()
	p.ended.Wait()
}

func (p *grantMonitor) ask(ctx context.Context, key string) {
	asked := time.Now()
	ticket, err := p.broker.Acquire(ctx, key, requestTime, probeLease)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.grants = append(p.grants, probedGrant{asked, time.Now()})
	close(p.arrived)
	p.arrived = make(chan struct{})
	p.mu.Unlock()
	ticket.Release(context.Background())
}

// firstAfter waits for a grant that was asked for after t, and returns when it arrived.
func (p *grantMonitor) firstAfter(ctx context.Context, t time.Time) (time.Time, error) {
	for seen := 0; ; {
		p.mu.Lock()
		news, arrived := p.grants[seen:], p.arrived
		p.mu.Unlock()
		for _, g := range news {
			if g.asked.After(t) {
				return g.arrived, nil
			}
		}
		seen += len(news)
		select {
		case <-arrived:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("nothing was granted any more: %w", ctx.Err())
		}
	}
}

// longestGap is the longest time between from and to in which no grant arrived.
func (p *grantMonitor) longestGap(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	moments := []time.Time{from, to}
	for _, g := range p.grants {
		if g.arrived.After(from) && g.arrived.Before(to) {
			moments = append(moments, g.arrived)
		}
	}
	slices.SortFunc(moments, time.Time.Compare)
	longest := time.Duration(0)
	for i := 1; i < len(moments); i++ {
		longest = max(longest, moments[i].Sub(moments[i-1]))
	}
	return longest
}
