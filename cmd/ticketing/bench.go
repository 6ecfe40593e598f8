package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/wire"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	addrs                      listFlag
	server                     string
	cpus, serverCPUs           listFlag
	connections, inFlight      int
	keys, keySize              int
	contended, latency         bool
	wait, lease                time.Duration
	duration, warmup           time.Duration
	hold, idle                 int
	kills, stops, transfers    int
	echo, redis, suite, asJSON bool
	cluster                    bool
}

func benchCommand() *command {
	var o benchOptions
	c := &command{
		name:    "bench",
		summary: "load a server and measure it",
		details: `Acquires and releases over raw pipelined connections from one thread, and checks every reply: what was not
granted or not released is counted as such and makes the exit code 1. Tokens must rise per key, or the run fails.

With --server self, bench starts a server of its own on a free port, measures its memory and processor time
too, and ends it. Times on one machine depend on whether both ends share a processor: bind them with --cpu and
--server-cpu, and compare figures of the same run only. --echo measures a bare TCP echo server with the same
loop beside it.

--contended puts one connection per client on one key and counts hand-offs. --latency is one connection with
one request in flight. --hold acquires N keys, lets all expire and looks for stalls meanwhile. --idle opens N
connections that only ping. Plaintext only.

--suite and --cluster measure budget after budget, print a table, and make the exit code 1 where one is missed. --cluster
starts clusters of three nodes on loopback, and does to their leaders what happens to leaders.`,
		environ: []string{
			"TICKETING_ADDRS addresses, with commas between them (--addr)",
			"TICKETING_TOKEN the secret (or TICKETING_TOKEN_FILE)",
		},
		exits: []string{"0 done, and every reply was as it should be", "1 some were not", "64 usage", "69 no server reachable",
			"77 authentication", "78 configuration"},
		example: "ticketing bench --server self --server-cpu 0 --cpu 1 --in-flight 512 --echo\nticketing bench --addr 127.0.0.1:5225 --contended --connections 8",
		flags:   newFlags("bench"),
	}
	f := c.flags
	f.Var(&o.addrs, "addr", "`HOST:PORT` of the server; of several, those that serve share the connections")
	f.StringVar(&o.server, "server", "", "`self` starts a server and ends it")
	f.Var(&o.cpus, "cpu", "`processors` for the load, such as 1 or 0,1")
	f.Var(&o.serverCPUs, "server-cpu", "`processors` for the server and the echo server that bench starts")
	f.IntVar(&o.connections, "connections", 4, "`number` of connections")
	f.IntVar(&o.inFlight, "in-flight", 64, "`number` of requests in flight on each connection")
	f.IntVar(&o.keys, "keys", 0, "`number` of keys; 0: one for each request in flight")
	f.IntVar(&o.keySize, "key-size", 16, "`bytes` of a key, 16 to 128")
	f.BoolVar(&o.contended, "contended", false, "one request in flight per connection, all on one key")
	f.BoolVar(&o.latency, "latency", false, "one connection with one request in flight")
	f.DurationVar(&o.wait, "wait", 10*time.Second, "`duration` that an acquire waits")
	f.DurationVar(&o.lease, "lease", 30*time.Second, "`duration` of a grant")
	f.DurationVar(&o.duration, "duration", 5*time.Second, "`duration` that is measured")
	f.DurationVar(&o.warmup, "warmup", 500*time.Millisecond, "`duration` ahead of it that is not")
	f.IntVar(&o.hold, "hold", 0, "`number` of keys to hold until they expire")
	f.IntVar(&o.idle, "idle", 0, "`number` of idle connections")
	f.BoolVar(&o.echo, "echo", false, "measure a bare echo server too")
	f.BoolVar(&o.redis, "redis", false, "measure redis-server too, if it is installed")
	f.BoolVar(&o.suite, "suite", false, "every budget of a standalone server, as a table in Markdown")
	f.BoolVar(&o.cluster, "cluster", false, "every budget of a cluster of three nodes; with --suite all in one table")
	f.IntVar(&o.kills, "kills", 20, "with --cluster, `how often` a leader is killed")
	f.IntVar(&o.stops, "stops", 5, "with --cluster, `how often` a leader is stopped (SIGSTOP)")
	f.IntVar(&o.transfers, "transfers", 10, "with --cluster, `how often` a leader is told to hand over")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	c.run = func(p *process, args arguments) error {
		if err := noArguments(args); err != nil {
			return err
		}
		return runBench(p, &o)
	}
	return c
}

// bench is one run of the command.
type bench struct {
	*process
	options    *benchOptions
	token      []byte
	cpus       []int
	serverCPUs []int
}

func runBench(p *process, o *benchOptions) error {
	b, err := newBench(p, o)
	if err != nil {
		return err
	}
	// Children die with the thread that starts them (dieWithParent). And the load's system calls keep their processor
	// (drive), so the runtime needs another one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(b.cpus) > 0 {
		if err := pinProcess(b.cpus); err != nil {
			return err
		}
	}
	if o.suite || o.cluster {
		return b.suite(ctx)
	}
	var server *child
	addrs := o.addrs
	if o.server == "self" {
		if server, err = startServer(p, b.serverCPUs, b.room()...); err != nil {
			return err
		}
		defer server.stop()
		addrs = listFlag{server.addr}
	}
	if addrs, err = b.serving(addrs); err != nil {
		return err
	}
	switch {
	case o.hold > 0:
		return b.reportHold(b.holdKeys(ctx, addrs, server, o.hold, o.lease))
	case o.idle > 0:
		return b.reportIdle(b.idleConnections(ctx, addrs, server, o.idle, o.duration))
	}
	return b.runCycles(ctx, addrs, server)
}

// room returns the variables that let a server of bench's own take what --hold or --idle asks for, and the probe. Limits that are in
// the environment stay.
func (b *bench) room() []string {
	var variables []string
	for name, n := range map[string]int{"TICKETING_MAX_KEYS": b.options.hold, "TICKETING_MAX_CONNECTIONS": b.options.idle} {
		if n > 0 && b.variable(name) == "" {
			variables = append(variables, fmt.Sprintf("%s=%d", name, n+100))
		}
	}
	return variables
}

// runCycles measures the server, and what it is compared with.
func (b *bench) runCycles(ctx context.Context, addrs []string, server *child) error {
	plan := b.options.plan()
	first, err := b.measure(ctx, "ticketing", plan, target{addrs: addrs, child: server})
	if err != nil {
		return err
	}
	results := []result{first}
	if b.options.echo {
		r, err := b.measureEcho(ctx, plan)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if b.options.redis {
		more, err := b.measureRedis(ctx, plan)
		if err != nil {
			return err
		}
		results = append(results, more...)
	}
	return b.reportCycles(results)
}

func newBench(p *process, o *benchOptions) (*bench, error) {
	config, err := client.FromEnv()
	if err != nil {
		return nil, withExit(exitConfig, err)
	}
	if config.TLS != nil && o.server == "" && !o.suite && !o.cluster {
		return nil, usageError("bench speaks plaintext only: unset the TICKETING_TLS_ variables and name a plaintext port")
	}
	if len(o.addrs) == 0 {
		o.addrs = config.Addrs
	}
	b := &bench{process: p, options: o, token: []byte(config.Token)}
	if b.cpus, err = processors("cpu", o.cpus); err != nil {
		return nil, err
	}
	if b.serverCPUs, err = processors("server-cpu", o.serverCPUs); err != nil {
		return nil, err
	}
	o.expand()
	return b, o.check()
}

// maxProcessors is the size of the default CPU set of Linux.
const maxProcessors = 1024

func processors(name string, list listFlag) ([]int, error) {
	var cpus []int
	for _, s := range list {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n >= maxProcessors {
			return nil, usageError("--%s %q: want a processor's number", name, s)
		}
		cpus = append(cpus, n)
	}
	return cpus, nil
}

// expand applies the flags that stand for others.
func (o *benchOptions) expand() {
	if o.latency {
		o.connections, o.inFlight = 1, 1
	}
	if o.contended {
		o.inFlight, o.keys = 1, 1
	}
}

// check reports everything that is wrong with the flags.
func (o *benchOptions) check() error {
	var problems []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	require(o.server == "" || o.server == "self", "--server %q: only self is known; name others with --addr", o.server)
	require(o.connections >= 1 && o.connections <= 100_000, "--connections %d: want 1 to 100000", o.connections)
	require(o.inFlight >= 1 && o.inFlight <= 65536, "--in-flight %d: want 1 to 65536", o.inFlight)
	require(o.keys >= 0 && o.hold >= 0 && o.idle >= 0, "--keys, --hold and --idle cannot be negative")
	require(o.keySize >= 16 && o.keySize <= wire.MaxKey, "--key-size %d: want 16 to %d", o.keySize, wire.MaxKey)
	require(o.wait >= 0 && o.wait <= wire.MaxWaitMillis*time.Millisecond, "--wait %v: want 0s to 1h", o.wait)
	require(o.lease >= wire.MinLeaseMillis*time.Millisecond && o.lease <= wire.MaxLeaseMillis*time.Millisecond, "--lease %v: want 1s to 250s", o.lease)
	require(o.kills >= 1 && o.stops >= 1 && o.transfers >= 1, "--kills, --stops and --transfers must be at least 1")
	require(o.duration > 0 && o.warmup >= 0, "--duration must be over 0s, and --warmup not below")
	if len(problems) > 0 {
		return withExit(exitUsage, errors.Join(problems...))
	}
	return nil
}

// plan is one measurement.
type plan struct {
	connections, inFlight int
	keys                  int // 0: one for each request in flight
	keySize               int
	wait, lease           time.Duration
	warmup, duration      time.Duration
}

func (o *benchOptions) plan() plan {
	return plan{o.connections, o.inFlight, o.keys, o.keySize, o.wait, o.lease, o.warmup, o.duration}
}
