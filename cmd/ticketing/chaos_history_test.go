package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// event is one grant, on the clock of the test process, which all who ask share.
type event struct {
	key, by        string
	token          uint64
	asked, granted time.Duration // the acquire was sent, and its grant arrived
	deadline       time.Duration // until when the holder may take the lock for its own
	releasing      time.Duration // the first release was sent that had or may have had an effect; 0: none
}

// end is until when nobody else may have been granted the key.
func (e *event) end() time.Duration {
	if e.releasing != 0 {
		return min(e.releasing, e.deadline)
	}
	return e.deadline
}

// history is what all clients saw.
type history struct {
	start time.Time

	mu      sync.Mutex
	events  []event
	unknown []time.Duration // when acquires were sent whose fate nobody knows
	counts  map[string]int
	wrong   []string // replies that were seen to be untrue
}

func newHistory() *history { return &history{start: time.Now(), counts: map[string]int{}} }

func (h *history) now() time.Duration { return time.Since(h.start) }

func (h *history) count(outcome string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[outcome]++
}

func (h *history) add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// addUnknown notes an acquire that may have been granted at any time after it was sent.
func (h *history) addUnknown(asked time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unknown = append(h.unknown, asked)
}

// report notes a reply that is untrue.
func (h *history) report(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// grantsOf returns the grants of the loads of that name so far.
func (h *history) grantsOf(name string) []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.events), func(e event) bool { return e.by != name })
}

// largest is the largest token that arrived.
func (h *history) largest() (token uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		token = max(token, e.token)
	}
	return token
}

// expectNone verifies that the loads of a name were granted nothing that they asked for, from one moment to another.
func (h *history) expectNone(t *testing.T, name string, from, to time.Duration) {
	t.Helper()
	for _, e := range h.grantsOf(name) {
		if e.asked > from && e.granted < to {
			t.Errorf("%s: token %d was granted to %s at %v, asked for at %v, between %v and %v", e.key, e.token, name, e.granted, e.asked, from, to)
		}
	}
}

// check fails the test for everything that must not have happened, whatever was done to the cluster. before is the last token that
// was granted when the history began, and after that when all who ask had stopped.
func (h *history) check(t *testing.T, before, after uint64) {
	t.Helper()
	problems := h.problems(before, after)
	for _, p := range problems[:min(len(problems), 20)] {
		t.Error(p)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.Logf("%d grants, %d acquires of unknown fate; outcomes %v", len(h.events), len(h.unknown), h.counts)
}

// problems returns what must not have happened.
func (h *history) problems(before, after uint64) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := slices.Clone(h.events)
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.token, b.token) })
	return slices.Concat(h.wrong, tokenProblems(events, h.unknown, before, after), holderProblems(events), orderProblems(events))
}

// holderProblems verifies of grants in the order of their tokens that a key has one holder at a time: each grant arrived when those
// before it were over, and early enough to be of use.
func holderProblems(events []event) (problems []string) {
	held := map[string]event{} // by key, the grant that lasts longest so far
	for _, e := range events {
		if last, ok := held[e.key]; ok && e.granted < last.end() {
			problems = append(problems, fmt.Sprintf("%s: token %d arrived at %v, while token %d was held from %v to %v",
				e.key, e.token, e.granted, last.token, last.granted, last.end()))
		}
		if e.granted >= e.deadline {
			problems = append(problems, fmt.Sprintf("%s: token %d was taken for a lock at %v, after its deadline %v", e.key, e.token, e.granted, e.deadline))
		}
		if last, ok := held[e.key]; !ok || e.end() > last.end() {
			held[e.key] = e
		}
	}
	return problems
}

// orderProblems verifies that a grant that arrived before another was asked for has the smaller token, whatever the keys.
func orderProblems(events []event) (problems []string) {
	byArrival, byAsking := slices.Clone(events), slices.Clone(events)
	slices.SortFunc(byArrival, func(a, b event) int { return cmp.Compare(a.granted, b.granted) })
	slices.SortFunc(byAsking, func(a, b event) int { return cmp.Compare(a.asked, b.asked) })
	largest, i := uint64(0), 0
	for _, e := range byAsking {
		for ; i < len(byArrival) && byArrival[i].granted < e.asked; i++ {
			largest = max(largest, byArrival[i].token)
		}
		if e.token <= largest {
			problems = append(problems, fmt.Sprintf("%s: token %d was asked for after token %d had arrived", e.key, e.token, largest))
		}
	}
	return problems
}

// tokenProblems verifies of grants in the order of their tokens that every T and B was true. A grant takes one token, so that each
// token that never arrived is that of an acquire of unknown fate, sent before any grant with a larger token arrived. Who was told T or
// B was not granted the key then.
func tokenProblems(events []event, unknown []time.Duration, before, after uint64) (problems []string) {
	for i := range events {
		if e := &events[i]; e.token <= before || e.token > after || i > 0 && e.token == events[i-1].token {
			problems = append(problems, fmt.Sprintf("%s: token %d of the tokens above %d and up to %d was granted twice, or never", e.key, e.token, before, after))
		}
	}
	if len(problems) > 0 {
		return problems
	}
	// Of the tokens above each grant's, taken from the largest down: how many never arrived, and the first arrival among the others.
	sent := slices.Sorted(slices.Values(unknown))
	missing := make([]time.Duration, 0, len(unknown)) // by when each was granted, latest first
	arrived, next := time.Duration(1<<63-1), after+1
	for i := len(events) - 1; i >= -1; i-- {
		token := before
		if i >= 0 {
			token = events[i].token
		}
		for range next - token - 1 {
			missing = append(missing, arrived)
		}
		if i >= 0 {
			arrived, next = min(arrived, events[i].granted), token
		}
	}
	slices.Reverse(missing)
	for n, by := range missing {
		if could, _ := slices.BinarySearch(sent, by); could <= n {
			return append(problems, fmt.Sprintf("by %v, %d tokens had been granted and never arrived, to %d acquires of unknown fate", by, n+1, could))
		}
	}
	return problems
}
