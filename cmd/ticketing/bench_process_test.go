package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestBenchMeasuresAServer(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	var results []result
	bench := func(args ...string) result {
		t.Helper()
		out := s.run(append([]string{"bench", "--json", "--duration", "100ms", "--warmup", "20ms"}, args...)...).expect(t, exitOK).stdout
		results = nil
		if err := json.Unmarshal([]byte(out), &results); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		r := results[0]
		if r.Granted == 0 || r.Released == 0 || r.Rate <= 0 || r.Latency.P50 <= 0 || r.Latency.P50 > r.Latency.P99 || r.Latency.P99 > r.Latency.Max {
			t.Errorf("bench %v: %+v", args, r)
		}
		return r
	}
	if r := bench("--connections", "3", "--in-flight", "100", "--key-size", "40"); r.Keys != 300 || r.Slowest != 0 {
		t.Errorf("distinct keys: %+v", r)
	}
	if r := bench("--contended", "--connections", "5"); r.Keys != 1 || r.Slowest <= 0 || r.Slowest > 1 || r.InFlight != 1 {
		t.Errorf("one key: %+v", r)
	}
	if r := bench("--latency"); r.Connections != 1 || r.InFlight != 1 {
		t.Errorf("latency: %+v", r)
	}
	var status struct {
		Held int `json:"held_keys"`
	}
	json.Unmarshal([]byte(s.run("status", "--json").stdout), &status)
	if status.Held != 0 {
		t.Errorf("bench leaves %d keys held", status.Held)
	}
}

// Of the addresses of a cluster, the one of its leader is measured.
func TestBenchFindsTheLeader(t *testing.T) {
	t.Parallel()
	c := newChaosCluster(t, 3)
	c.startAll()
	leader := c.leader()
	args := []string{"bench", "--duration", "100ms", "--warmup", "0s", "--connections", "2", "--addr", "127.0.0.1:1"}
	run(t, nil, append(args, "--addr", "127.0.0.1:2")...).said(t, "nobody", exitUnreachable, "127.0.0.1:2: connect: connection refused", "name a server that serves")
	for _, n := range append(c.others(leader), leader) {
		args = append(args, "--addr", n.client)
	}
	eventually(t, "bench to measure the leader", func() bool { // it may change meanwhile
		o := run(t, nil, args...)
		return o.code == exitOK && strings.Contains(o.stderr, "the server does not lead") && strings.Contains(o.stderr, "left out: 127.0.0.1:1: ")
	})
}

func TestBenchDoesNotCallFailuresSpeed(t *testing.T) {
	t.Parallel()
	s := startTestServer(t, "TICKETING_MAX_KEYS=10")
	got := s.run("bench", "--duration", "100ms", "--warmup", "0s", "--in-flight", "16").expect(t, exitNegative)
	if !strings.Contains(got.stderr, "too_many_keys") {
		t.Errorf("stderr: %s", got.stderr)
	}
	s.run("bench", "--hold", "20", "--lease", "5s").expect(t, exitNegative)
}

func TestBenchHoldsKeysUntilTheyExpire(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	var r holdResult
	out := s.run("bench", "--hold", "3000", "--lease", "3s", "--json").expect(t, exitOK).stdout
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Regranted != 3000 || r.FillRate <= 0 || r.Expiring.Longest <= 0 {
		t.Errorf("%+v (%v)", r, err)
	}
}

func TestBenchKeepsIdleConnections(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	var r idleResult
	out := s.run("bench", "--idle", "50", "--duration", "200ms", "--json").expect(t, exitOK).stdout
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Pings < 50 {
		t.Errorf("%+v (%v)", r, err)
	}
}

func TestBenchStartsItsOwnServerAndEcho(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux: the echo server uses epoll, and memory is read from /proc")
	}
	var results []result
	out := run(t, nil, "bench", "--server", "self", "--echo", "--json", "--duration", "100ms", "--warmup", "20ms", "--cpu", "0", "--server-cpu", "0").
		expect(t, exitOK).stdout
	if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range results {
		if r.Granted == 0 || r.Released == 0 || r.Server == nil || r.Server.RSS == 0 || r.Server.PeakRSS < r.Server.RSS {
			t.Errorf("%s: %+v %+v", r.Name, r, r.Server)
		}
	}
	if results[1].Name != "bare echo" {
		t.Errorf("the second is %q", results[1].Name)
	}
}

func TestBenchFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--in-flight", "0"}, {"--connections", "0"}, {"--key-size", "8"}, {"--lease", "1ms"}, {"--wait", "2h"}, {"--duration", "0s"},
		{"--server", "other"}, {"--kills", "0"}, {"--cpu", "one"}, {"somewhere:5225"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			run(t, nil, append([]string{"bench"}, args...)...).expect(t, exitUsage)
		})
	}
}
