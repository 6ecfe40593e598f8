package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// Budgets of a standalone server. docs/benchmarks.md says what was measured.
const (
	budgetDeepRate      = 5_000_000 // requests/s
	budgetRate          = 3_000_000
	budgetLoadRSS       = 10e6 // bytes
	budgetIdleRSS       = 20e6
	budgetHeldRSS       = 140e6
	budgetBinary        = 10e6
	budgetManyShare     = 0.85 // of the echo's requests/s
	budgetLatencyShare  = 1.15 // of the echo's p50
	bestPeerHandOffs    = 14_200
	budgetHandOffShare  = 1.3 // of the best peer's
	budgetFairness      = 0.9
	budgetStallMillis   = 50
	budgetRedisShare    = 2 // with DEL
	budgetRedisCASShare = 4 // with compare-and-delete
)

// suiteRow is one line of the table.
type suiteRow struct {
	What     string  `json:"what"`
	Measured string  `json:"measured"`
	Budget   string  `json:"budget"`
	Met      *bool   `json:"met"` // null: not measured
	Others   float64 `json:"other_cores"`
	Command  string  `json:"command"`
}

// suite measures every budget of a standalone server, one after the other.
type suite struct {
	*bench
	allowed []int  // processors
	chosen  bool   // flags say who is bound to which
	bound   string // to which, for the headline
	rows    []suiteRow
}

// suite runs what was asked for and prints the table. A budget that is missed gives exit code 1.
func (b *bench) suite(ctx context.Context) error {
	s := &suite{bench: b, allowed: allowedProcessors(), chosen: len(b.cpus)+len(b.serverCPUs) > 0}
	var parts []func(context.Context) error
	if b.options.suite {
		parts = append(parts, s.alonePlaces, s.deep, s.pipelined, s.many, s.latencies, s.contended, s.idle, s.held, s.binary)
	}
	if b.options.cluster {
		parts = append(parts, s.clusterPlaces, s.clusterLoad, s.clusterLatencies, s.clusterWorkers, s.killed, s.stopped, s.transferred)
	}
	for _, part := range parts {
		if err := part(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return withExit(exitNegative, errors.New("interrupted"))
		}
	}
	return s.print()
}

// bind gives load and servers their processors, unless flags did.
func (s *suite) bind(load, servers []int) error {
	s.cpus, s.serverCPUs = load, servers
	if len(load) == 0 {
		load = s.allowed
	}
	return pinProcess(load)
}

// alonePlaces separates the load from the one server.
func (s *suite) alonePlaces(context.Context) error {
	if !s.chosen && len(s.allowed) > 1 {
		if err := s.bind(s.allowed[1:2], s.allowed[:1]); err != nil {
			return err
		}
	}
	s.bound = s.binding()
	return nil
}

func (s *suite) add(what, budget string, met bool, others float64, command, format string, args ...any) {
	s.rows = append(s.rows, suiteRow{what, fmt.Sprintf(format, args...), budget, &met, others, "ticketing bench --server self" + s.flags() + command})
	fmt.Fprintf(s.stderr, "%s: %s\n", what, s.rows[len(s.rows)-1].Measured)
}

func (s *suite) skip(what, budget, why string) {
	s.rows = append(s.rows, suiteRow{What: what, Measured: "not measured: " + why, Budget: budget})
}

// flags are the binding, as flags.
func (s *suite) flags() string {
	var text string
	if len(s.serverCPUs) > 0 {
		text += " --server-cpu " + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.serverCPUs), " ", ","), "[]")
	}
	if len(s.cpus) > 0 {
		text += " --cpu " + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.cpus), " ", ","), "[]")
	}
	return text
}

// planOf is the plan of connections with some requests in flight each.
func (s *suite) planOf(connections, inFlight, keys int) plan {
	pl := s.options.plan()
	pl.connections, pl.inFlight, pl.keys = connections, inFlight, keys
	return pl
}

// withServer runs one measurement against a fresh server.
func (s *suite) withServer(run func(*child) error, extra ...string) error {
	server, err := startServer(s.process, s.serverCPUs, extra...)
	if err != nil {
		return err
	}
	defer server.stop()
	return run(server)
}

// alone measures one plan against a fresh server; every request must succeed.
func (s *suite) alone(ctx context.Context, pl plan) (r result, err error) {
	err = s.withServer(func(server *child) error {
		if r, err = s.measure(ctx, "ticketing", pl, target{addrs: []string{server.addr}, child: server}); err != nil {
			return err
		}
		return r.check()
	})
	return r, err
}

// scrape asks the admin endpoint once a second for what a monitor and an operator ask.
func scrape(ctx context.Context, url string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, path := range []string{"/metrics", "/status", "/keys"} {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
			if err != nil {
				return
			}
			client := http.Client{Timeout: adminTimeout}
			if response, err := client.Do(request); err == nil {
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (s *suite) deep(ctx context.Context) error {
	var r result
	err := s.withServer(func(server *child) (err error) {
		scraping, stop := context.WithCancel(ctx)
		defer stop()
		go scrape(scraping, server.admin)
		if r, err = s.measure(ctx, "ticketing", s.planOf(4, 512, 0), target{addrs: []string{server.addr}, child: server}); err != nil {
			return err
		}
		return r.check()
	})
	if err != nil {
		return err
	}
	const command = " --connections 4 --in-flight 512"
	s.add("4 connections x 512 in flight", "over 5,000,000 requests/s, aim 8,000,000", r.Rate > budgetDeepRate, r.OtherCores, command,
		"%s requests/s (p50 %s, p99 %s; server %.3f us/request)", thousands(r.Rate), micros(r.Latency.P50), micros(r.Latency.P99), r.Server.MicrosEach)
	s.add("server RSS in that load, admin port scraped", "under 10 MB", float64(r.Server.PeakRSS) < budgetLoadRSS, r.OtherCores, command,
		"%s, peak %s", megabytes(r.Server.RSS), megabytes(r.Server.PeakRSS))
	return nil
}

func (s *suite) pipelined(ctx context.Context) error {
	pl := s.planOf(4, 64, 0)
	r, err := s.alone(ctx, pl)
	if err != nil {
		return err
	}
	const command = " --connections 4 --in-flight 64"
	s.add("4 connections x 64 in flight", "over 3,000,000 requests/s", r.Rate > budgetRate, r.OtherCores, command,
		"%s requests/s (p50 %s, p99 %s; server %.3f us/request)", thousands(r.Rate), micros(r.Latency.P50), micros(r.Latency.P99), r.Server.MicrosEach)
	return s.againstRedis(ctx, "4 x 64", command, pl, [2]float64{budgetRedisShare, budgetRedisCASShare}, r)
}

// againstRedis adds what a result is as a multiple of Redis with DEL, and with compare-and-delete.
func (s *suite) againstRedis(ctx context.Context, what, command string, pl plan, budgets [2]float64, r result) error {
	names := [2]string{what + ", against Redis SET NX PX + DEL", what + ", against Redis with compare-and-delete"}
	redis, err := s.measureRedis(ctx, pl)
	if errors.Is(err, errNoRedis) {
		for i, name := range names {
			s.skip(name, fmt.Sprintf("at least %g times", budgets[i]), err.Error())
		}
		return nil
	}
	if err != nil {
		return err
	}
	for i, name := range names {
		share := r.Rate / redis[i].Rate
		s.add(name, fmt.Sprintf("at least %g times", budgets[i]), share >= budgets[i], redis[i].OtherCores, command+" --redis",
			"%.2f times (Redis: %s requests/s)", share, thousands(redis[i].Rate))
	}
	return nil
}

// pairs measures a plan by subject and against the echo in turn, three times, and returns the median of what ratio makes of
// each pair, with that pair.
func (s *suite) pairs(
	ctx context.Context, pl plan, subject func(context.Context, plan) (result, error), ratio func(server, echo result) float64,
) (median float64, server, echo result, err error) {
	type pair struct {
		ratio        float64
		server, echo result
	}
	pl.duration = min(pl.duration, 2*time.Second)
	var all []pair
	for range 3 {
		if server, err = subject(ctx, pl); err != nil {
			return 0, server, echo, err
		}
		if echo, err = s.measureEcho(ctx, pl); err != nil {
			return 0, server, echo, err
		}
		all = append(all, pair{ratio(server, echo), server, echo})
	}
	slices.SortFunc(all, func(a, b pair) int { return int(1e6 * (a.ratio - b.ratio)) })
	m := all[1]
	return m.ratio, m.server, m.echo, nil
}

func (s *suite) many(ctx context.Context) error {
	pl := s.planOf(50, 1, 0)
	share, server, echo, err := s.pairs(ctx, pl, s.alone, func(server, echo result) float64 { return server.Rate / echo.Rate })
	if err != nil {
		return err
	}
	const command = " --connections 50 --in-flight 1 --echo"
	s.add("50 connections, nothing pipelined, against a bare echo", "at least 0.85", share >= budgetManyShare, server.OtherCores, command,
		"%.2f (%s against %s requests/s)", share, thousands(server.Rate), thousands(echo.Rate))
	return s.againstRedis(ctx, "50 connections", " --connections 50 --in-flight 1", pl, [2]float64{1, 1}, server)
}

func latencyShare(server, echo result) float64 { return server.Latency.P50 / echo.Latency.P50 }

func (s *suite) latencies(ctx context.Context) error {
	row := func(where string) error {
		share, server, echo, err := s.pairs(ctx, s.planOf(1, 1, 0), s.alone, latencyShare)
		if err != nil {
			return err
		}
		s.add("one connection, nothing pipelined, p50 against a bare echo, "+where, "at most 1.15", share <= budgetLatencyShare, server.OtherCores,
			" --latency --echo", "%.2f (%s against %s; p99 %s against %s)", share, micros(server.Latency.P50), micros(echo.Latency.P50),
			micros(server.Latency.P99), micros(echo.Latency.P99))
		return nil
	}
	if len(s.cpus) != 1 || len(s.serverCPUs) != 1 {
		return row("not bound")
	}
	if err := row("two processors"); err != nil {
		return err
	}
	load, servers := s.cpus, s.serverCPUs
	if err := s.bind(servers, servers); err != nil {
		return err
	}
	err := row("one processor")
	return errors.Join(err, s.bind(load, servers))
}

func (s *suite) contended(ctx context.Context) error {
	r, err := s.alone(ctx, s.planOf(8, 1, 1))
	if err != nil {
		return err
	}
	handOffs := float64(r.Granted) / r.Seconds
	const command = " --contended --connections 8"
	s.add("8 clients on one key", fmt.Sprintf("at least %s hand-offs/s (1.3 times the best peer's)", thousands(budgetHandOffShare*bestPeerHandOffs)),
		handOffs >= budgetHandOffShare*bestPeerHandOffs, r.OtherCores, command, "%s hand-offs/s (p50 %s, p99 %s)",
		thousands(handOffs), micros(r.Latency.P50), micros(r.Latency.P99))
	s.add("the slowest of them", "at least 0.9 of the mean", r.Slowest >= budgetFairness, r.OtherCores, command, "%.2f", r.Slowest)
	return nil
}

// othersFrom returns a function that says how many processors other processes have kept busy since.
func othersFrom(servers ...*child) func() float64 {
	begin, before := time.Now(), readUsage(servers...)
	return func() float64 { return readUsage(servers...).others(before, time.Since(begin)) }
}

func (s *suite) idle(ctx context.Context) error {
	const n = 10_000
	return s.withServer(func(server *child) error {
		others := othersFrom(server)
		r, err := s.idleConnections(ctx, []string{server.addr}, server, n, 2*time.Second)
		if err != nil {
			return err
		}
		s.add("10,000 idle connections, server RSS", "under 20 MB", float64(r.RSSPeak) < budgetIdleRSS, others(), " --idle 10000",
			"%s, peak %s", megabytes(r.RSSAfter), megabytes(r.RSSPeak))
		return nil
	})
}

func (s *suite) held(ctx context.Context) error {
	const n = 1_000_000
	return s.withServer(func(server *child) error {
		others := othersFrom(server)
		r, err := s.holdKeys(ctx, []string{server.addr}, server, n, 10*time.Second)
		if err != nil {
			return err
		}
		const command = " --hold 1000000 --lease 10s"
		s.add("1,000,000 held keys of 16 bytes, server RSS", "under 140 MB", float64(r.RSSHeld) < budgetHeldRSS, others(), command,
			"%s (peak %s, %d bytes a key; acquired at %s/s)", megabytes(r.RSSHeld), megabytes(r.RSSPeak), (r.RSSHeld-r.RSSBefore)/n, thousands(r.FillRate))
		s.add("longest request of a probe while all of them expire", "at most 50 ms", r.Expiring.Longest <= budgetStallMillis, others(), command,
			"%.1f ms (before: %.1f ms)", r.Expiring.Longest, r.Quiet.Longest)
		return nil
	}, fmt.Sprintf("TICKETING_MAX_KEYS=%d", n+100))
}

func (s *suite) binary(context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	info, err := os.Stat(self)
	if err != nil {
		return err
	}
	met := float64(info.Size()) < budgetBinary
	s.rows = append(s.rows, suiteRow{What: "binary", Measured: megabytes(info.Size()), Budget: "under 10 MB", Met: &met, Command: "ls -l"})
	return nil
}

// print writes the table, as Markdown or JSON.
func (s *suite) print() error {
	missed := 0
	for _, r := range s.rows {
		if r.Met != nil && !*r.Met {
			missed++
		}
	}
	if s.options.asJSON {
		if err := writeJSON(s.stdout, s.rows); err != nil {
			return err
		}
	} else {
		b := thisBuild()
		fmt.Fprintf(s.stdout, "%s; %s; ticketing %s (%s)%s. `other` is how many processors other processes kept busy meanwhile.\n\n",
			time.Now().UTC().Format("2006-01-02 15:04 UTC"), machineName(), b.Version, b.Commit, s.bound)
		fmt.Fprint(s.stdout, "| what | measured | budget | met | other | command |\n|---|---|---|---|---|---|\n")
		for _, r := range s.rows {
			met := "-"
			if r.Met != nil {
				met = map[bool]string{true: "yes", false: "**no**"}[*r.Met]
			}
			fmt.Fprintf(s.stdout, "| %s | %s | %s | %s | %.2f | `%s` |\n", r.What, r.Measured, r.Budget, met, r.Others, r.Command)
		}
	}
	if missed > 0 {
		return withExit(exitNegative, fmt.Errorf("%d budgets are missed", missed))
	}
	return nil
}
