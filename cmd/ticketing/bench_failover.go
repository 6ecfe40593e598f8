package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

const (
	failoverProbe = 5 * time.Millisecond // between two requests, while a leader is killed or stopped
	transferProbe = time.Millisecond     // between two requests, during a planned transfer
	failoverTime  = 30 * time.Second     // how long another leader may take
	// calm is how long locks are asked for before something happens to the leader.
	calm = 500 * time.Millisecond
)

// gaps are times without a grant, one for each thing that happened to a leader.
type gaps struct {
	all    []time.Duration
	others float64 // processors that other processes kept busy, summed
}

func (g *gaps) median() time.Duration { return slices.Sorted(slices.Values(g.all))[len(g.all)/2] }
func (g *gaps) worst() time.Duration  { return slices.Max(g.all) }

// addGaps adds a row with the median and the worst gap.
func (s *suite) addGaps(what, budget string, met bool, g *gaps) {
	s.addCluster(what, budget, &met, g.others/float64(len(g.all)), "median %s, worst of %d %s", millis(g.median()), len(g.all), millis(g.worst()))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

// strike asks for locks, calls happen to do something to the leader, and records the time without a grant that it returns.
func (g *gaps) strike(ctx context.Context, c *benchCluster, every time.Duration, happen func(ctx context.Context, p *grantMonitor, leader *child) (time.Duration, error)) error {
	leader, err := c.leader(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, failoverTime)
	defer cancel()
	p := startGrantMonitor(ctx, c.broker, every)
	defer p.end()
	others := othersFrom(c.nodes...)
	if _, err := p.firstAfter(ctx, time.Now().Add(calm)); err != nil {
		return err
	}
	g.others += others()
	gap, err := happen(ctx, p, leader)
	if err != nil {
		return withExit(exitNegative, err)
	}
	g.all = append(g.all, gap)
	return nil
}

// killed measures how long nothing is granted after a leader was killed. Each kill has a cluster of its own, because how soon the killed
// node may come back is another question.
func (s *suite) killed(ctx context.Context) error {
	var g gaps
	for range s.options.kills {
		err := s.withCluster(ctx, func(c *benchCluster) error {
			return g.strike(ctx, c, failoverProbe, func(ctx context.Context, p *grantMonitor, leader *child) (time.Duration, error) {
				begin := time.Now()
				leader.kill()
				next, err := p.firstAfter(ctx, time.Now())
				return next.Sub(begin), err
			})
		})
		if err != nil {
			return err
		}
	}
	s.addGaps("leader killed (-9) to next grant", "median under 0.2 s, worst of 20 under 1.2 s", g.median() < budgetKilled && g.worst() < budgetKilledWorst, &g)
	return nil
}

// stopped measures how long nothing is granted after a leader was stopped (SIGSTOP), which leaves its connections open.
func (s *suite) stopped(ctx context.Context) error {
	var g gaps
	err := s.withCluster(ctx, func(c *benchCluster) error {
		for range s.options.stops {
			err := g.strike(ctx, c, failoverProbe, func(ctx context.Context, p *grantMonitor, leader *child) (time.Duration, error) {
				begin := time.Now()
				if err := leader.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					return 0, err
				}
				defer leader.cmd.Process.Signal(syscall.SIGCONT)
				// The leader goes on until the signal has arrived.
				next, err := p.firstAfter(ctx, begin.Add(20*time.Millisecond))
				return next.Sub(begin), err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.addGaps("leader stopped (SIGSTOP) to next grant", "median under 1.2 s", g.median() < budgetStopped, &g)
	return nil
}

// transferred measures the longest time without a grant while leadership goes over as planned.
func (s *suite) transferred(ctx context.Context) error {
	var g gaps
	err := s.withCluster(ctx, func(c *benchCluster) error {
		for range s.options.transfers {
			if err := g.strike(ctx, c, transferProbe, c.transfer); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.addGaps("planned transfer to next grant", "under 50 ms", g.worst() < budgetTransferred, &g)
	return nil
}

// transfer tells the leader to hand over, and returns the longest time without a grant until another one serves.
func (c *benchCluster) transfer(ctx context.Context, p *grantMonitor, leader *child) (time.Duration, error) {
	begin := time.Now()
	if _, err := c.control.Transfer(ctx, 0); err != nil {
		return 0, fmt.Errorf("handing leadership over: %w", err)
	}
	next, err := c.leader(ctx)
	if err != nil {
		return 0, err
	}
	if next == leader {
		return 0, errors.New("the leader did not hand over")
	}
	end, err := p.firstAfter(ctx, time.Now())
	return p.longestGap(begin, end), err
}
