package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/wire"
)

// event is what one worker did with one acquire, on the clock of the test process, which all workers share.
type event struct {
	key, by             string
	token               uint64
	asked, granted      time.Duration // the acquire was called, and its grant arrived
	releasing, released time.Duration // the release was called, and confirmed; 0: not
	lease               time.Duration
}

// history is what all workers saw.
type history struct {
	t     *testing.T
	start time.Time

	mu     sync.Mutex
	events []event
	counts map[string]int
}

func newHistory(t *testing.T) *history {
	return &history{t: t, start: time.Now(), counts: map[string]int{}}
}

func (h *history) now() time.Duration { return time.Since(h.start) }

func (h *history) count(outcome string) {
	h.mu.Lock()
	h.counts[outcome]++
	h.mu.Unlock()
}

func (h *history) add(e event) {
	h.mu.Lock()
	h.events = append(h.events, e)
	h.mu.Unlock()
}

// grantsOf returns the grants of the loads of that name so far.
func (h *history) grantsOf(name string) []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.events), func(e event) bool { return e.by != name })
}

// check verifies what must hold whatever happened: one holder of a key at a time, and tokens that only grow.
func (h *history) check() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	byKey := map[string][]event{}
	tokens := map[uint64]string{}
	for _, e := range h.events {
		byKey[e.key] = append(byKey[e.key], e)
		if key, twice := tokens[e.token]; twice {
			h.t.Errorf("token %d was granted twice: for %s and %s", e.token, key, e.key)
		}
		tokens[e.token] = e.key
	}
	for key, list := range byKey {
		slices.SortFunc(list, func(a, b event) int { return cmp.Compare(a.token, b.token) })
		for i := 1; i < len(list); i++ {
			h.checkPair(key, &list[i-1], &list[i])
		}
	}
	// A grant that arrived before another was asked for has the smaller token, whatever the keys.
	byArrival := slices.Clone(h.events)
	slices.SortFunc(byArrival, func(a, b event) int { return cmp.Compare(a.granted, b.granted) })
	byAsking := slices.Clone(h.events)
	slices.SortFunc(byAsking, func(a, b event) int { return cmp.Compare(a.asked, b.asked) })
	largest, i := uint64(0), 0
	for _, e := range byAsking {
		for ; i < len(byArrival) && byArrival[i].granted < e.asked; i++ {
			largest = max(largest, byArrival[i].token)
		}
		if e.token <= largest {
			h.t.Errorf("%s: token %d was asked for after token %d had arrived", e.key, e.token, largest)
		}
	}
	h.t.Logf("%d grants of %d keys; outcomes %v", len(h.events), len(byKey), h.counts)
}

// checkPair verifies that a, the grant of the key before b, was over before b arrived: given back, or out of its lease, which
// did not begin before it was asked for.
func (h *history) checkPair(key string, a, b *event) {
	h.t.Helper()
	gaveBack := a.releasing != 0 && b.granted >= a.releasing
	expired := b.granted >= a.asked+a.lease
	if !gaveBack && !expired {
		h.t.Errorf("%s: token %d arrived at %v, while token %d of %v was held (asked %v, lease %v, released %v)",
			key, b.token, b.granted, a.token, a.granted, a.asked, a.lease, a.releasing)
	}
}

// checkTokens verifies that every T, N and B was true: a grant takes one token, and after the load has stopped there are no more
// tokens than grants that arrived and acquires whose fate is unknown. Who was told T or B was not granted the key then.
func (h *history) checkTokens(before, after uint64) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	taken, arrived, unknown := int(after-before), len(h.events), h.counts["indeterminate"]
	if taken < arrived || taken > arrived+unknown {
		h.t.Errorf("%d tokens were taken, for %d grants that arrived and %d acquires whose fate is unknown", taken, arrived, unknown)
	}
}

// chaosLoad keeps a cluster busy until stop, through one Broker a worker group.
type chaosLoad struct {
	*history
	name   string
	broker *client.Broker
	quit   atomic.Bool
	wg     sync.WaitGroup
	keys   int
	lease  time.Duration
}

func startLoad(h *history, addrs []string, workers, keys int) *chaosLoad {
	h.t.Helper()
	return startLoadAs(h, client.Config{Addrs: addrs, Name: "chaos"}, workers, keys)
}

// startLoadAs is startLoad of clients that differ from others in their configuration.
func startLoadAs(h *history, config client.Config, workers, keys int) *chaosLoad {
	h.t.Helper()
	b, err := client.New(config)
	if err != nil {
		h.t.Fatal(err)
	}
	l := &chaosLoad{history: h, name: config.Name, broker: b, keys: keys, lease: 3 * time.Second}
	for w := range workers {
		l.wg.Add(1)
		go l.work(rand.New(rand.NewPCG(uint64(w), 7)))
	}
	return l
}

// stop ends the load and waits for what is under way.
func (l *chaosLoad) stop() {
	l.quit.Store(true)
	l.wg.Wait()
	l.broker.Close()
}

func (l *chaosLoad) work(random *rand.Rand) {
	defer l.wg.Done()
	for !l.quit.Load() {
		key := fmt.Sprintf("chaos-%d", random.IntN(l.keys))
		l.once(key, time.Duration(random.IntN(2_000))*time.Microsecond)
	}
}

// patience is how long a worker waits for the reply to an acquire that may wait for 2 s in the queue.
const patience = 4 * time.Second

// once acquires, holds and releases key.
func (l *chaosLoad) once(key string, hold time.Duration) {
	e := event{key: key, by: l.name, lease: l.lease, asked: l.now()}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ticket, err := l.broker.Acquire(ctx, key, 2*time.Second, l.lease)
	if err != nil {
		l.count(outcomeOf(err))
		if !errors.Is(err, client.ErrTimeout) {
			pause(5 * time.Millisecond)
		}
		return
	}
	e.granted, e.token = l.now(), ticket.Token()
	pause(hold)
	e.releasing = l.now()
	switch err := ticket.Release(context.Background()); {
	case err == nil:
		e.released = l.now()
		l.count("released")
	case errors.Is(err, client.ErrNotHeld):
		l.count("not held")
		if l.now() < e.granted+l.lease/2 {
			l.t.Errorf("%s: token %d was not held any more %v after its grant, long before the end of its lease", key, e.token, l.now()-e.granted)
		}
	default:
		l.count("release " + outcomeOf(err))
	}
	l.add(e)
}

func outcomeOf(err error) string {
	var busy *client.BusyError
	switch {
	case errors.As(err, &busy):
		return "busy " + wire.Busy(busy.Code).String()
	case errors.Is(err, client.ErrTimeout):
		return "timeout"
	case errors.Is(err, client.ErrIndeterminate):
		return "indeterminate"
	case errors.Is(err, client.ErrUnconfirmed):
		return "unconfirmed"
	}
	return err.Error()
}

// pause lets time pass: real processes have no other clock.
func pause(d time.Duration) {
	if d > 0 {
		timer := time.NewTimer(d)
		<-timer.C
	}
}
