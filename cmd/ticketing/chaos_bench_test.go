package main

import (
	"encoding/json"
	"runtime"
	"testing"
)

// bench --cluster kills, stops and deposes leaders of its own, and has a figure for each budget.
func TestChaosBench(t *testing.T) {
	requireChaos(t)
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux: the echo server uses epoll, and memory is read from /proc")
	}
	if runtime.NumCPU() < 2 {
		t.Skip("needs two processors")
	}
	cmd := prepare(t, nil, "bench", "--cluster", "--json", "--duration", "500ms", "--kills", "1", "--stops", "1", "--transfers", "1")
	var stderr syncBuffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	var rows []suiteRow
	if code := cmd.ProcessState.ExitCode(); json.Unmarshal(stdout, &rows) != nil || code != exitOK && code != exitNegative {
		t.Fatalf("%v\nstdout: %s\nstderr: %s", err, stdout, stderr.String())
	}
	measured := map[string]bool{}
	for _, r := range rows {
		measured[r.What] = r.Measured != "" && (r.Met != nil || r.Budget == "-")
	}
	for _, what := range []string{
		"three nodes, 4 connections x 512 in flight", "RSS of each node in that load, peak", "three nodes, 1 worker",
		"three nodes, one client, nothing pipelined, p50 against a bare echo, one processor", "three nodes, 64 workers, a connection each",
		"leader killed (-9) to next grant", "leader stopped (SIGSTOP) to next grant", "planned transfer to next grant",
	} {
		if !measured[what] {
			t.Errorf("no row for %q in %s", what, stdout)
		}
	}
}
