package rafttest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "the seed that TestSeed runs")
	onlyFlag   = flag.String("only", "", "TestSeed keeps only these actions of the schedule, comma-separated")
	mutantFlag = flag.String("mutant", "", "TestSeed runs with this rule switched off")
)

// TestSeed replays one seed and prints every step:
//
//	go test ./raft/rafttest -run 'TestSeed$' -seed=N -v
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed")
	}
	c := RunConfig{Log: t.Output()}
	for _, m := range Mutants() {
		if m.Name == *mutantFlag {
			m.Faults(&c.Faults)
		}
	}
	if *onlyFlag != "" {
		c.Only = []int{}
	}
	for text := range strings.SplitSeq(*onlyFlag, ",") {
		if i, err := strconv.Atoi(text); err == nil {
			c.Only = append(c.Only, i)
		}
	}
	opt := drawOptions(*seedFlag)
	t.Logf("options: %v", opt)
	for i, a := range drawSchedule(*seedFlag, opt) {
		t.Logf("action %d: %v", i, a)
	}
	r := Run(*seedFlag, c)
	t.Logf("%d events, hash %016x, seen:\n%v", r.Events, r.Hash, &r.Cover)
	if r.Failure != nil {
		t.Fatal(r.Failure)
	}
}

// TestSeedsOnceRed runs seeds that a version of the core, or of the checkers, did not pass.
func TestSeedsOnceRed(t *testing.T) {
	for seed, what := range map[uint64]string{
		95996: "a control request at an index that the next leader's log does not reach for long",
		65419: "a learner that crashes and comes back at once replaces itself at once",
		60843: "a silent learner is given up, and another is admitted at once",
		48109: "a member of an older term removes, for a leader of that term, what a later term has committed without it",
	} {
		if r := Run(seed, RunConfig{}); r.Failure != nil {
			t.Errorf("%s: %s", what, explain(r, RunConfig{}, ""))
		}
	}
}

// TestSeeds runs many seeds: a few by default, SEEDS of them if that is set, from FIRST on.
func TestSeeds(t *testing.T) {
	count := number(t, "SEEDS", 100)
	if underRace {
		count = min(count, 10)
	}
	first := number(t, "FIRST", 1)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a run's garbage is small and short-lived
	began := time.Now()
	var cover Cover
	for done := uint64(0); done < count && !t.Failed(); {
		batch := min(count-done, 5000)
		seen, failed := runSeeds(first+done, batch, RunConfig{})
		cover.Add(&seen)
		for _, r := range failed {
			t.Error(explain(r, RunConfig{}, ""))
		}
		done += batch
		spent := time.Since(began)
		t.Logf("%d seeds from %d in %v, %.0f a second", done, first, spent.Round(time.Millisecond), float64(done)/spent.Seconds())
	}
	t.Logf("seen:\n%v", &cover)
	if count >= 100 {
		checkCover(t, &cover)
	}
}

// checkCover fails if something that a simulation is for has not been seen.
func checkCover(t *testing.T, cover *Cover) {
	rare := map[Counter]bool{CoverImpossible: true, CoverBurned: true, CoverLeftOut: true, CoverMajorityLost: true,
		CoverSnapshotInJoint: true, CoverProposalUnknown: true, CoverIndeterminate: true,
		CoverControlRejected: true}
	for c := range counters {
		if cover[c] == 0 && !rare[c] {
			t.Errorf("no %v in any run", c)
		}
	}
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// runSeeds runs seeds on all processors and returns what was seen and the first few failures, by seed.
func runSeeds(first, count uint64, c RunConfig) (cover Cover, failed []Result) {
	var next atomic.Uint64
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			var seen Cover
			for i := next.Add(1) - 1; i < count; i = next.Add(1) - 1 {
				r := Run(first+i, c)
				seen.Add(&r.Cover)
				if r.Failure != nil {
					mu.Lock()
					failed = append(failed, r)
					enough := len(failed) >= 5
					mu.Unlock()
					if enough {
						next.Store(count)
					}
				}
			}
			mu.Lock()
			cover.Add(&seen)
			mu.Unlock()
		})
	}
	wait.Wait()
	return cover, failed
}

// explain renders a failure: what broke, the command that replays it, and the shortest schedule that breaks the same.
func explain(r Result, c RunConfig, mutant string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v\n", r.Seed, r.Failure)
	kept := Shrink(r.Seed, c, r.Failure.Rule)
	schedule := drawSchedule(r.Seed, drawOptions(r.Seed))
	text := make([]string, len(kept))
	for i, index := range kept {
		text[i] = strconv.Itoa(index)
	}
	with := ""
	if mutant != "" {
		with = " -mutant=" + mutant
	}
	fmt.Fprintf(&b, "replay:  go test ./raft/rafttest -run 'TestSeed$' -seed=%d%s -v\n", r.Seed, with)
	fmt.Fprintf(&b, "shrunk:  go test ./raft/rafttest -run 'TestSeed$' -seed=%d%s -only=%s, -v\n", r.Seed, with, strings.Join(text, ","))
	for _, index := range kept {
		fmt.Fprintf(&b, "  %v\n", schedule[index])
	}
	c.Only = append([]int{}, kept...)
	if again := Run(r.Seed, c); again.Failure != nil {
		fmt.Fprintf(&b, "which ends with: %v\n", again.Failure)
	}
	return b.String()
}

// TestSameSeedSameRun runs seeds twice: nothing but the seed may matter.
func TestSameSeedSameRun(t *testing.T) {
	for seed := uint64(1); seed <= 12; seed++ {
		a, b := Run(seed, RunConfig{}), Run(seed, RunConfig{})
		if a.Hash != b.Hash || a.Events != b.Events {
			t.Errorf("seed %d: %d events with hash %016x, then %d with %016x", seed, a.Events, a.Hash, b.Events, b.Hash)
		}
	}
}
