package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/wire"
)

// chaosLoad keeps a cluster busy until stop: workers that contend for a few keys through one Broker, and auditors.
type chaosLoad struct {
	*history
	t        *testing.T
	name     string
	place    place
	addrs    []string // the nodes that it knows
	broker   *client.Broker
	quit     atomic.Bool
	wg       sync.WaitGroup
	auditors []*auditor
}

const (
	loadKeys  = 4
	loadWait  = 2 * time.Second
	loadLease = 3 * time.Second
	keptLease = time.Second // of a lock that is kept to its end, so that nobody else may have it earlier
	kept      = time.Duration(-1)
	// loadPatience is how long a worker waits for the reply to an acquire.
	loadPatience = 2 * loadWait
)

// startLoad starts workers, and half as many auditors, in a place. patience is how long an auditor waits for a reply.
func startLoad(t *testing.T, h *history, name string, place place, workers int, patience time.Duration, addrs ...string) *chaosLoad {
	t.Helper()
	b, err := client.New(client.Config{Addrs: addrs, Name: name, Dialer: place.dial})
	if err != nil {
		t.Fatal(err)
	}
	l := &chaosLoad{history: h, t: t, name: name, place: place, addrs: addrs, broker: b}
	for w := range workers {
		l.wg.Go(func() { l.work(rand.New(rand.NewPCG(uint64(w), 7))) })
	}
	for range workers / 2 {
		a := newAuditor(h, name, patience)
		l.auditors = append(l.auditors, a)
		l.wg.Go(func() { a.work(l, rand.New(rand.NewPCG(a.first, 8))) })
	}
	t.Cleanup(l.stop)
	return l
}

// stop ends the load and waits for what is under way.
func (l *chaosLoad) stop() {
	if !l.quit.Swap(true) {
		l.wg.Wait()
		l.broker.Close()
	}
}

// progress waits for more grants than there were.
func (l *chaosLoad) progress() {
	l.t.Helper()
	before := len(l.grantsOf(l.name))
	eventually(l.t, "grants to go on", func() bool { return len(l.grantsOf(l.name)) > before+20 })
}

func (l *chaosLoad) work(random *rand.Rand) {
	for !l.quit.Load() {
		n := random.IntN(loadKeys)
		served := false
		if random.IntN(100) == 0 {
			served = l.once(fmt.Sprintf("kept-%d", n), loadWait, keptLease, kept)
		} else {
			served = l.once(fmt.Sprintf("chaos-%d", n), loadWait, loadLease, time.Duration(random.IntN(2_000))*time.Microsecond)
		}
		if !served {
			pause(5 * time.Millisecond)
		}
	}
}

// once acquires a key, holds it for a while, and releases it unless it is to be kept. It reports whether a server that serves has
// answered.
func (l *chaosLoad) once(key string, wait, lease, hold time.Duration) bool {
	e := event{key: key, by: l.name, asked: l.now()}
	ctx, cancel := context.WithTimeout(context.Background(), loadPatience)
	defer cancel()
	ticket, err := l.broker.Acquire(ctx, key, wait, lease)
	if err != nil {
		l.count(outcomeOf(err))
		if errors.Is(err, client.ErrIndeterminate) {
			l.addUnknown(e.asked)
		}
		return errors.Is(err, client.ErrTimeout)
	}
	e.granted, e.token = l.now(), ticket.Token()
	e.deadline = l.now() + time.Until(ticket.Deadline())
	if hold == kept {
		l.count("kept")
		l.add(e)
		return true
	}
	pause(hold)
	e.releasing = l.now()
	switch err := ticket.Release(context.Background()); {
	case err == nil:
		l.count("released")
	case errors.Is(err, client.ErrNotHeld):
		l.count("not held")
		if now := l.now(); now < e.deadline {
			l.report("%s: token %d was not held any more at %v, it is said, before its deadline %v", key, e.token, now, e.deadline)
		}
	default:
		l.count("release " + outcomeOf(err))
	}
	l.add(e)
	return true
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
	case errors.Is(err, context.DeadlineExceeded):
		return "not sent"
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
