package client

import (
	"sync"
	"time"
)

// A clock is the Broker's time: durations since an arbitrary moment, on a clock that also runs while the machine is
// suspended. Nothing in this package reads time otherwise.
type clock interface {
	Now() time.Duration
	// Wall is for people. It may be stepped, so nothing is decided by it.
	Wall() time.Time
	// NewAlarm returns an alarm that is not set. It calls ring from a goroutine of its own, never two at a time.
	NewAlarm(ring func()) alarm
}

// An alarm rings at a time on its clock, or a little later; after a suspension at once. It may also ring early.
type alarm interface {
	Set(at time.Duration)
	// Stop ends the alarm. When it returns, ring is not running and will not be called.
	Stop()
}

// systemClock is the clock of the machine. Now and NewAlarm are in a file for each system.
type systemClock struct {
	start time.Time // for systems that offer nothing better than Go's monotonic clock
}

func newSystemClock() systemClock { return systemClock{start: time.Now()} }

func (c systemClock) Wall() time.Time { return time.Now() }

// recheck is how often a recheckAlarm looks at its clock.
const recheck = 250 * time.Millisecond

// recheckAlarm is an alarm for systems whose timers stand still while the machine is suspended: it compares with the
// clock at least every recheck.
type recheckAlarm struct {
	clock clock
	ring  func()

	mu      sync.Mutex
	at      time.Duration
	set     bool
	timer   *time.Timer
	stopped bool
	running sync.WaitGroup
}

func newRecheckAlarm(c clock, ring func()) *recheckAlarm { return &recheckAlarm{clock: c, ring: ring} }

func (a *recheckAlarm) Set(at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	a.at, a.set = at, true
	a.arm()
}

// arm starts the timer for the next look. a.mu is held.
func (a *recheckAlarm) arm() {
	in := max(0, min(a.at-a.clock.Now(), recheck))
	if a.timer == nil {
		a.timer = time.AfterFunc(in, a.look)
		return
	}
	a.timer.Reset(in)
}

func (a *recheckAlarm) look() {
	a.mu.Lock()
	if a.stopped || !a.set {
		a.mu.Unlock()
		return
	}
	if a.clock.Now() < a.at {
		a.arm()
		a.mu.Unlock()
		return
	}
	a.set = false
	a.running.Add(1)
	a.mu.Unlock()
	a.ring()
	a.running.Done()
}

func (a *recheckAlarm) Stop() {
	a.mu.Lock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
	a.mu.Unlock()
	a.running.Wait()
}
