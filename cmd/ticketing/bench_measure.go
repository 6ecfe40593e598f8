package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"ticketing.internal/wire"
)

// target is what is measured.
type target struct {
	addrs []string
	child *child   // nil: somebody else's
	peers []*child // the other nodes of its cluster: the processor time that they use is counted with the child's
	bare  bool     // another kind of server: no handshake, and tokens mean nothing
}

// measure runs one plan against a target.
func (b *bench) measure(ctx context.Context, name string, pl plan, t target) (result, error) {
	slots := pl.connections * pl.inFlight
	keys := pl.keys
	if keys == 0 {
		keys = slots
	}
	l := newLoad(script{}, runPrefix(), keys, pl.keySize, uint32(pl.wait.Milliseconds()), uint32(pl.lease.Milliseconds()))
	l.unordered = t.bare
	conns := make([]*loadConn, pl.connections)
	traffics := make([]traffic, pl.connections)
	for i := range conns {
		conns[i] = l.newConn(pl.inFlight, i*pl.inFlight)
		traffics[i] = conns[i]
	}
	m, err := b.drive(ctx, &l.meter, traffics, pl.inFlight, t, phases{pl.warmup, pl.duration, nil})
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", name, err)
	}
	if ctx.Err() != nil {
		return result{}, withExit(exitNegative, fmt.Errorf("%s: interrupted", name))
	}
	r := newResult(name, pl, keys, m)
	if pl.keys > 0 && pl.connections > 1 {
		r.Slowest = slowestShare(conns)
	}
	r.Server = processResult(t.child, m)
	return r, nil
}

// drive connects traffic to its target and runs it, with a progress line on a terminal.
func (b *bench) drive(ctx context.Context, m *meter, traffics []traffic, inFlight int, t target, p phases) (*measured, error) {
	var connected []*loopConn
	defer func() {
		for _, c := range connected {
			c.Close()
		}
	}()
	for i, c := range traffics {
		conn, err := dialLoad(t.addrs[i%len(t.addrs)], t.bare, b.token, []byte("ticketing bench"), inFlight, c)
		if err != nil {
			return nil, err
		}
		connected = append(connected, conn)
	}
	p.cpus = func() usage { return readUsage(append([]*child{t.child}, t.peers...)...) }
	var progress atomic.Uint64
	defer b.showProgress(&progress)()
	got, err := m.drive(ctx, connected, p, &progress)
	if err == nil && m.inFlight > 0 {
		err = withExit(exitNegative, fmt.Errorf("%d requests were not answered within %v after the end", m.inFlight, drainTime))
	}
	return got, err
}

// showProgress keeps a line on the terminal until the function that it returns is called.
func (b *bench) showProgress(requests *atomic.Uint64) (stop func()) {
	if info, err := b.stderr.Stat(); err != nil || !isTerminal(info) {
		return func() {}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		const interval = 200 * time.Millisecond
		tick := time.NewTicker(interval)
		defer tick.Stop()
		start, last := time.Now(), uint64(0)
		for {
			select {
			case <-quit:
				fmt.Fprint(b.stderr, "\r\x1b[K")
				return
			case now := <-tick.C:
				n := requests.Load()
				rate := float64(max(n, last)-last) / interval.Seconds() // the count starts anew after the warm-up
				last = n
				fmt.Fprintf(b.stderr, "\r\x1b[K%5.1fs  %s requests/s", now.Sub(start).Seconds(), thousands(rate))
			}
		}
	}()
	return func() { close(quit); <-gone }
}

// measureEcho runs the plan against a bare echo server that is started for it.
func (b *bench) measureEcho(ctx context.Context, pl plan) (result, error) {
	echo, err := startEcho(b.process, b.serverCPUs)
	if err != nil {
		return result{}, err
	}
	defer echo.stop()
	pl.keys = 0
	return b.measure(ctx, "bare echo", pl, target{addrs: []string{echo.addr}, child: echo, bare: true})
}

// runPrefix begins every key of a run, so that two runs do not wait for each other's locks.
func runPrefix() string {
	var b [2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// slowestShare returns the grants of the slowest connection as a share of the mean.
func slowestShare(conns []*loadConn) float64 {
	least, sum := conns[0].grants, uint64(0)
	for _, c := range conns {
		least = min(least, c.grants)
		sum += c.grants
	}
	if sum == 0 {
		return 0
	}
	return float64(least) * float64(len(conns)) / float64(sum)
}

// result is what one plan gave. Times are in microseconds.
type result struct {
	Name        string            `json:"name"`
	Connections int               `json:"connections"`
	InFlight    int               `json:"in_flight"`
	Keys        int               `json:"keys"`
	Seconds     float64           `json:"seconds"`
	Rate        float64           `json:"requests_per_second"` // granted and released alone
	Granted     uint64            `json:"granted"`
	Released    uint64            `json:"released"`
	TimedOut    uint64            `json:"timed_out"`
	Refused     map[string]uint64 `json:"refused"` // by code; N as not_held
	Latency     latencies         `json:"latency_us"`
	Slowest     float64           `json:"slowest_client_share,omitempty"` // of the mean
	Server      *serverResult     `json:"server,omitempty"`
	OwnCores    float64           `json:"load_cores"`
	OtherCores  float64           `json:"other_cores"`
}

type latencies struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// serverResult is what a server that bench started has used.
type serverResult struct {
	Cores      float64 `json:"cores"`
	MicrosEach float64 `json:"us_per_request"`
	RSS        int64   `json:"rss_bytes"`
	PeakRSS    int64   `json:"peak_rss_bytes"`
}

func newResult(name string, pl plan, keys int, m *measured) result {
	micros := func(q float64) float64 { return float64(m.latency.quantile(q)) / 1000 }
	return result{
		Name: name, Connections: pl.connections, InFlight: pl.inFlight, Keys: keys,
		Seconds:  m.elapsed.Seconds(),
		Rate:     float64(m.count.requests()) / m.elapsed.Seconds(),
		Granted:  m.count.granted,
		Released: m.count.released,
		TimedOut: m.count.timedOut,
		Refused:  m.count.refusals(),
		Latency:  latencies{micros(0.5), micros(0.99), micros(0.999), float64(m.latency.longest) / 1000},
		OwnCores: cores(m.after.own-m.before.own, m.elapsed), OtherCores: m.after.others(m.before, m.elapsed),
	}
}

// refusals names what was refused.
func (t *tally) refusals() map[string]uint64 {
	named := map[string]uint64{}
	add := func(name string, n uint64) {
		if n > 0 {
			named[name] += n
		}
	}
	add("not_held", t.notHeld)
	for code, n := range t.busy {
		add(wire.Busy(code).String(), n)
	}
	for code, n := range t.failed {
		add(wire.Failure(code).String(), n)
	}
	return named
}

func processResult(c *child, m *measured) *serverResult {
	if c == nil {
		return nil
	}
	used := m.after.server - m.before.server
	s := &serverResult{Cores: cores(used, m.elapsed), MicrosEach: float64(used.Microseconds()) / float64(max(1, m.count.requests()))}
	s.RSS, s.PeakRSS = residentBytes(c.pid())
	return s
}
