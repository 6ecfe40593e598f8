package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Budgets of a cluster of three nodes. docs/benchmarks.md says what was measured. etcd's figures are those of three nodes on a RAM file
// system, the best it had.
const (
	budgetClusterRate         = 400_000 // requests/s
	budgetNodeRSS             = 25e6    // bytes
	budgetClusterLatencyShare = 4       // of the echo's p50
	etcdPairsOne              = 751     // acquire + release pairs/s with 1 worker
	etcdPairsMany             = 3_505   // with 64 workers
	budgetPairsOneShare       = 5       // of etcd's
	budgetPairsManyShare      = 30
	budgetKilled              = 200 * time.Millisecond // median, to the next grant
	budgetKilledWorst         = 1200 * time.Millisecond
	budgetStopped             = 1200 * time.Millisecond // median
	budgetTransferred         = 50 * time.Millisecond   // the worst
)

// clusterPlaces undoes the binding to processors that one server has: four processes share what there is, unless flags bind them.
func (s *suite) clusterPlaces(context.Context) error {
	if !s.chosen {
		if err := s.bind(nil, nil); err != nil {
			return err
		}
	}
	if s.options.suite {
		s.bound += "; with three nodes" + strings.TrimPrefix(s.binding(), ",")
	} else {
		s.bound = s.binding()
	}
	return nil
}

// addCluster adds a row about a cluster. met is nil for a figure without a budget.
func (s *suite) addCluster(what, budget string, met *bool, others float64, format string, args ...any) {
	s.rows = append(s.rows, suiteRow{what, fmt.Sprintf(format, args...), budget, met, others, "ticketing bench --cluster" + s.flags()})
	fmt.Fprintf(s.stderr, "%s: %s\n", what, s.rows[len(s.rows)-1].Measured)
}

// withCluster runs one measurement against a fresh cluster.
func (s *suite) withCluster(ctx context.Context, run func(*benchCluster) error) error {
	c, err := s.startCluster(ctx)
	if err != nil {
		return err
	}
	defer c.stop()
	return run(c)
}

func (s *suite) clusterLoad(ctx context.Context) error {
	return s.withCluster(ctx, func(c *benchCluster) error {
		r, err := s.measureOn(ctx, c, s.planOf(4, 512, 0))
		if err != nil {
			return err
		}
		s.addCluster("three nodes, 4 connections x 512 in flight", "over 400,000 requests/s, aim 1,000,000", new(r.Rate > budgetClusterRate), r.OtherCores,
			"%s requests/s, %.0f times etcd (p50 %s, p99 %s; nodes %.3f us/request)", thousands(r.Rate), r.Rate/(2*etcdPairsMany),
			micros(r.Latency.P50), micros(r.Latency.P99), r.Server.MicrosEach)
		var peaks []string
		met := true
		for _, n := range c.nodes {
			_, peak := residentBytes(n.pid())
			peaks = append(peaks, megabytes(peak))
			met = met && float64(peak) < budgetNodeRSS
		}
		s.addCluster("RSS of each node in that load, peak", "under 25 MB", &met, r.OtherCores, "%s", strings.Join(peaks, ", "))
		return nil
	})
}

// clusterLatencies binds every process, because the echo is four times as fast when the scheduler puts both its ends on one processor.
func (s *suite) clusterLatencies(ctx context.Context) error {
	if s.chosen || len(s.allowed) < 2 {
		return s.clusterLatency(ctx, "")
	}
	one, other := s.allowed[:1], s.allowed[1:2]
	err := s.bind(other, one)
	if err == nil {
		err = s.clusterLatency(ctx, ", two processors")
	}
	if err == nil {
		err = s.bind(one, one)
	}
	if err == nil {
		err = s.clusterLatency(ctx, ", one processor")
	}
	return errors.Join(err, s.bind(nil, nil))
}

// clusterLatency measures one client of a cluster, and of the echo, in turn.
func (s *suite) clusterLatency(ctx context.Context, where string) error {
	return s.withCluster(ctx, func(c *benchCluster) error {
		subject := func(ctx context.Context, pl plan) (result, error) { return s.measureOn(ctx, c, pl) }
		share, r, echo, err := s.pairs(ctx, s.planOf(1, 1, 0), subject, latencyShare)
		if err != nil {
			return err
		}
		s.addCluster("three nodes, one client, nothing pipelined, p50 against a bare echo"+where, "at most 4", new(share <= budgetClusterLatencyShare), r.OtherCores,
			"%.2f (%s against %s; p99 %s against %s)", share, micros(r.Latency.P50), micros(echo.Latency.P50), micros(r.Latency.P99), micros(echo.Latency.P99))
		return nil
	})
}

// addEtcd adds a row about pairs of acquire and release as a multiple of etcd's.
func (s *suite) addEtcd(what string, budget, etcd float64, r result) {
	s.addCluster(what, fmt.Sprintf("at least %s pairs/s (%.0f times etcd)", thousands(budget*etcd), budget), new(r.Rate/2 >= budget*etcd), r.OtherCores,
		"%s pairs/s, %.1f times etcd (p50 %s, p99 %s)", thousands(r.Rate/2), r.Rate/2/etcd, micros(r.Latency.P50), micros(r.Latency.P99))
}

func (s *suite) clusterWorkers(ctx context.Context) error {
	return s.withCluster(ctx, func(c *benchCluster) error {
		r, err := s.measureOn(ctx, c, s.planOf(1, 1, 0))
		if err != nil {
			return err
		}
		s.addEtcd("three nodes, 1 worker", budgetPairsOneShare, etcdPairsOne, r)
		if r, err = s.measureOn(ctx, c, s.planOf(1, 64, 0)); err != nil {
			return err
		}
		s.addEtcd("three nodes, 64 workers on one connection, as those of a Broker are", budgetPairsManyShare, etcdPairsMany, r)
		if r, err = s.measureOn(ctx, c, s.planOf(64, 1, 0)); err != nil {
			return err
		}
		s.addCluster("three nodes, 64 workers, a connection each", "-", nil, r.OtherCores, "%s pairs/s, %.1f times etcd (p50 %s, p99 %s)",
			thousands(r.Rate/2), r.Rate/2/etcdPairsMany, micros(r.Latency.P50), micros(r.Latency.P99))
		return nil
	})
}
