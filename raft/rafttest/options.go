package rafttest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ticketing.internal/raft"
)

// Faults are the rules that a run switches off to prove the checkers: those of package raft, and those of its driver
// and state machine, which are the simulator's own here.
type Faults struct {
	raft.Faults
	OldIdentity      bool // a restarted process acts under the identity that it had before
	TokensFromLeader bool // tokens come from the memory of the leader that proposes, not from the state machine
	ExpireAnyToken   bool // Expire removes whatever grant the key has
	ReadyEarly       bool // a rejoining process calls itself ready before it is a voter again
}

// options are what a seed draws once (swarm testing): runs shall differ in kind, not only in order.
type options struct {
	profile profile
	size    int // voters
	spares  int // machines without a seat at first

	tick, heartbeat, election time.Duration
	logBytes, messageBytes    int
	windowMessages            int

	fifo                     bool // links keep the order, as TCP does
	loss, duplicate          int  // per mille
	latency, jitter          time.Duration
	tail                     int           // per mille of packets that take up to a second more
	clockPPM                 int           // processes' clocks differ by up to that much
	wallSkew                 time.Duration // wall clocks differ by up to that much
	restartPerMille          int           // of crashes that a supervisor follows with a restart
	clientEvery              time.Duration // mean time between client requests
	keys                     int
	maxLease, maxWait        time.Duration
	bootstrapEnd             time.Duration // validity of the bootstrap credential
	chaos                    time.Duration // length of the first phase
	bareQuorum               bool          // the second phase heals no more than a quorum
	afterLoss                bool          // the first domain is lost half-way and a second one made
	restartAll               bool          // the second phase starts every process that is down
	proposeInReady           bool          // the driver proposes while it applies, instead of afterwards
	stray, takeBack, session int           // per mille of client events that are of this kind
}

// profile is what kind of schedule a run has.
type profile int

const (
	profileCalm profile = iota
	profileStorm
	profileJoint
	profileRejoin
	profileBootstrap
	profileLeaders
	profileLaggard
	profileLoss
	profileRolling
	profiles
)

func (p profile) String() string {
	return [...]string{"calm", "storm", "joint", "rejoin", "bootstrap", "leaders", "laggard", "loss", "rolling"}[p]
}

// profileWeights are in percent, in the order of the constants.
var profileWeights = [profiles]int{3, 20, 34, 11, 6, 12, 7, 3, 4}

func drawOptions(seed uint64) options {
	r := stream(seed, "options")
	o := options{
		profile: drawProfile(r),
		size:    pick(r, 3, 3, 5),
		spares:  2,
		tick:    pick[time.Duration](r, 20, 50, 50, 100) * time.Millisecond,

		logBytes: pick(r, 64<<10, 64<<10, 256<<10), messageBytes: pick(r, 33<<10, 64<<10),
		windowMessages: pick(r, 1, 2, 8, 64),

		fifo:    chance(r, 400),
		latency: pick(r, 200*time.Microsecond, time.Millisecond, 5*time.Millisecond, 30*time.Millisecond),
		keys:    1 + r.IntN(8), maxLease: pick[time.Duration](r, 1500, 3000, 10_000) * time.Millisecond,
		maxWait:      pick[time.Duration](r, 0, 500, 3000) * time.Millisecond,
		clientEvery:  pick[time.Duration](r, 50, 100, 300) * time.Millisecond,
		bootstrapEnd: 15 * time.Minute,
		chaos:        time.Duration(30+r.IntN(60)) * time.Second,

		restartPerMille: pick(r, 0, 300, 900),
		bareQuorum:      chance(r, 500),
		restartAll:      chance(r, 400),
		proposeInReady:  chance(r, 500),
		stray:           pick(r, 0, 50), takeBack: pick(r, 0, 50), session: pick(r, 0, 20),
	}
	o.jitter = o.latency * pick[time.Duration](r, 0, 1, 4)
	o.heartbeat = max(100*time.Millisecond, o.tick)
	o.election = pick[time.Duration](r, 500, 500, 1000) * time.Millisecond
	if !o.fifo {
		o.loss, o.duplicate, o.tail = pick(r, 0, 10, 100), pick(r, 0, 10, 200), pick(r, 0, 5, 30)
	}
	if chance(r, 300) {
		o.clockPPM = pick(r, 1000, 20_000, 100_000)
	}
	o.wallSkew = pick(r, 0, time.Second, time.Hour)
	o.bootstrapEnd += 2 * o.wallSkew
	switch o.profile {
	case profileCalm:
		o.loss, o.tail = 0, 0
	case profileBootstrap:
		o.bootstrapEnd = time.Duration(4+r.IntN(16)) * time.Second
		o.chaos += 75 * time.Second // nodes that were left out give up 60 s after the end
		o.clientEvery = 300 * time.Millisecond
		o.wallSkew = 0
	case profileRejoin:
		o.chaos += 30 * time.Second
		o.restartPerMille = 900
	case profileLeaders:
		o.messageBytes = 33 << 10
	case profileLoss:
		o.afterLoss = true
	case profileRolling:
		o.chaos += 60 * time.Second
		o.loss, o.tail = min(o.loss, 10), 0
		o.clockPPM = min(o.clockPPM, 20_000)
	}
	return o
}

func drawProfile(r *rand.Rand) profile {
	at := r.IntN(100)
	for p, weight := range profileWeights {
		if at -= weight; at < 0 {
			return profile(p)
		}
	}
	return profileStorm
}

func (o options) String() string {
	return fmt.Sprintf("%v, %d voters, tick %v, election %v, fifo %v, loss %d, duplicate %d, latency %v+%v, log %d, window %d, "+
		"clock %d ppm, bare quorum %v, chaos %v", o.profile, o.size, o.tick, o.election, o.fifo, o.loss, o.duplicate,
		o.latency, o.jitter, o.logBytes, o.windowMessages, o.clockPPM, o.bareQuorum, o.chaos)
}
