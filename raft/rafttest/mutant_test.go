package rafttest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestMutants switches off one rule at a time: the simulator finds each within the stated number of seeds.
func TestMutants(t *testing.T) {
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			if underRace && m.Seeds > 50 {
				t.Skip("takes too long under the race detector")
			}
			var c RunConfig
			m.Faults(&c.Faults)
			r, found := firstFailure(uint64(m.Seeds), c)
			if !found {
				t.Fatalf("%s: not found in %d seeds", m.Rule, m.Seeds)
			}
			t.Logf("%s: found by seed %d of at most %d: %v", m.Rule, r.Seed, m.Seeds, r.Failure)
			if testing.Verbose() {
				t.Log(explain(r, c, m.Name))
			}
		})
	}
}

// TestMutantOutcomes looks for the harm alone, with OUTCOMES seeds for each mutant. It asserts nothing: what a rule prevents
// may be rare.
func TestMutantOutcomes(t *testing.T) {
	seeds := number(t, "OUTCOMES", 0)
	if seeds == 0 {
		t.Skip("no OUTCOMES")
	}
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			c := RunConfig{OutcomesOnly: true}
			m.Faults(&c.Faults)
			if r, found := firstFailure(seeds, c); found {
				t.Logf("seed %d: %v", r.Seed, r.Failure)
			} else {
				t.Logf("no harm in %d seeds", seeds)
			}
		})
	}
}

// firstFailure returns the failure with the lowest seed among the first count.
func firstFailure(count uint64, c RunConfig) (first Result, found bool) {
	var next atomic.Uint64
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for seed := next.Add(1); seed <= count; seed = next.Add(1) {
				r := Run(seed, c)
				if r.Failure == nil {
					continue
				}
				mu.Lock()
				if !found || r.Seed < first.Seed {
					first, found = r, true
				}
				mu.Unlock()
				next.Store(count)
			}
		})
	}
	wait.Wait()
	return first, found
}
