package rafttest

import (
	"math/rand/v2"
	"slices"
	"time"
)

// settled is when a calm cluster surely serves: directed schedules begin here.
const settled = 6 * time.Second

// drawSchedule draws the actions of a run.
func drawSchedule(seed uint64, o options) []action {
	g := &generator{Rand: stream(seed, "schedule"), opt: o}
	switch o.profile {
	case profileCalm:
		g.calm()
	case profileStorm:
		g.storm(settled, o.chaos, 4+g.IntN(60))
	case profileJoint:
		g.joint()
	case profileRejoin:
		g.rejoin()
	case profileBootstrap:
		g.bootstrap()
	case profileLeaders:
		g.leaders()
	case profileLaggard:
		g.laggard()
	case profileLoss:
		g.loss()
	case profileRolling:
		g.add(action{delay: settled, op: opRolling, n: g.IntN(2)})
	}
	slices.SortStableFunc(g.actions, func(a, b action) int {
		if a.on != b.on {
			return int(a.on) - int(b.on)
		}
		return int(a.delay - b.delay)
	})
	return g.actions
}

// generator builds a schedule.
type generator struct {
	*rand.Rand
	opt     options
	actions []action
}

func (g *generator) add(a ...action) { g.actions = append(g.actions, a...) }

// between draws a time.
func (g *generator) between(low, high time.Duration) time.Duration {
	return low + time.Duration(g.Int64N(int64(high-low)))
}

func (g *generator) seat() who { return who{voter, 1 + g.IntN(g.opt.size)} }

func (g *generator) someone() who {
	return pick(g.Rand, who{part: leader}, who{part: leader}, who{follower, g.IntN(4)}, who{part: newcomer}, g.seat())
}

// disturbance draws what may hit somebody at any time. Crashes are rare: each may be the end of a majority.
func (g *generator) disturbance(whom who) action {
	a := action{who: whom, other: g.someone(), span: g.between(50*time.Millisecond, 4*time.Second)}
	a.op = pick(g.Rand, opPause, opIsolate, opIsolate, opIsolatePair, opDeafen, opMute, opCutLink, opCutPair, opCutPair, opSplit,
		opSplit, opClog, opReset, opClock, opTransfer, opHeal, opRequests, opFill, opCloseSessions, opCrash)
	switch a.op {
	case opSplit:
		a.n = 1 + g.IntN(1<<(g.opt.size+g.opt.spares)-1)
	case opClock:
		a.n = pick(g.Rand, g.IntN(400_000)-200_000, -900_000)
	case opRequests:
		a.n = 1 + g.IntN(40)
	case opFill:
		a.n = 1 + g.IntN(6)
	case opCrash:
		a.n, a.span = g.IntN(4), g.downtime()
	case opIsolatePair, opCutLink, opCutPair:
		return a
	}
	a.other = who{}
	return a
}

// downtime draws how long a crashed process is down; 0: for good.
func (g *generator) downtime() time.Duration {
	if chance(g.Rand, g.opt.restartPerMille) {
		return g.between(10*time.Millisecond, 8*time.Second)
	}
	return 0
}

func (g *generator) calm() {
	g.add(action{delay: settled, op: opTransfer})
	g.add(action{delay: settled + 3*time.Second, op: opReplace, who: g.seat()})
}

func (g *generator) storm(from, to time.Duration, count int) {
	for range count {
		a := g.disturbance(g.someone())
		a.delay = g.between(from, to)
		g.add(a)
	}
	for range 1 + g.IntN(3) {
		g.add(action{delay: g.between(from, to), op: pick(g.Rand, opReplace, opReplace, opPrepare, opAbort, opReplaceTwice),
			who: g.seat(), other: g.seat(), n: g.IntN(2)})
	}
}

// joint replaces voters, most of them alive and only believed dead, and disturbs each step of it: whom the step happened
// to, or whoever matters then. Uniform chance would find what goes wrong there once in a million runs.
func (g *generator) joint() {
	if chance(g.Rand, 100) {
		g.learnerTrap()
		return
	}
	at := settled
	for at < g.opt.chaos-10*time.Second {
		replace := action{delay: at, op: opReplace, who: g.seat(), n: pick(g.Rand, 0, 0, 0, 1)}
		if chance(g.Rand, 250) {
			replace.who = who{part: leader}
		}
		if chance(g.Rand, 80) {
			replace.op, replace.other = opReplaceTwice, g.seat()
		}
		g.add(replace)
		at += g.between(6*time.Second, 15*time.Second)
	}
	steps := []trigger{whenPrepared, whenAdmitted, whenSnapshotStarted, whenSnapshotInstalled, whenJointProposed, whenJointProposed,
		whenJointReceived, whenJointReceived, whenJointCommitted, whenJointCommitted, whenFinalProposed, whenFinalProposed,
		whenFinalReceived, whenFinalReceived, whenFinalCommitted, whenElected, whenVoted}
	for range 2 + g.IntN(8) {
		a := g.disturbance(pick(g.Rand, who{part: subject}, who{part: subject}, who{part: leader}, who{part: newcomer}, who{part: predecessor}))
		a.on, a.nth = steps[g.IntN(len(steps))], 1+g.IntN(5)
		a.delay = pick(g.Rand, 0, 0, g.between(time.Microsecond, 50*time.Millisecond), g.between(0, 2*time.Second))
		g.add(a)
	}
	if chance(g.Rand, 400) {
		g.abortRace()
	}
	if chance(g.Rand, 500) {
		g.thrash(pick(g.Rand, whenAdmitted, whenJointProposed, whenJointReceived, whenJointCommitted))
		g.thrash(pick(g.Rand, whenJointReceived, whenFinalProposed, whenFinalReceived))
	}
	if chance(g.Rand, 200) {
		g.storm(settled, g.opt.chaos, 1+g.IntN(6))
	}
	if chance(g.Rand, 150) { // the credential is used, and used again
		g.add(action{on: whenAdmitted, nth: 1 + g.IntN(2), delay: g.between(0, 50*time.Millisecond), op: opCrash, who: who{part: newcomer}, span: g.between(time.Millisecond, time.Second)})
	}
	if chance(g.Rand, 100) {
		g.restarts()
	}
}

// learnerTrap makes three logs that refuse each other, if a learner is ever sent what is not committed: the joint entry is on
// its leader alone; the next leader lacks it, is heard by the learner alone, and dies (package raft, Divergences:
// "a member that is no voter in its own configuration is sent committed entries only").
func (g *generator) learnerTrap() {
	g.add(
		action{delay: settled, op: opReplace, who: who{follower, g.IntN(4)}},
		action{on: whenJointProposed, nth: 1, op: opIsolate, who: who{part: subject}, span: g.between(3*time.Second, 8*time.Second)},
		action{on: whenElected, nth: 2, op: opIsolatePair, who: who{part: subject}, other: who{part: newcomer}, span: 2 * time.Second},
		action{on: whenElected, nth: 2, delay: g.between(20*time.Millisecond, 400*time.Millisecond), op: opCrash, who: who{part: subject}},
	)
}

// abortRace takes the leader away in the joint phase, so that the predecessor may come to lead; it cannot hand over at once;
// and an operator asks for an abort all the time.
func (g *generator) abortRace() {
	all := g.opt.size // the other voters and the newcomer
	nth := pick(g.Rand, all, all, 1+g.IntN(2*all))
	g.add(
		action{on: whenJointReceived, nth: nth, op: opIsolate, who: who{part: leader}, span: g.between(2*time.Second, 8*time.Second)},
		action{on: whenTransferStarted, nth: 1 + g.IntN(2), op: opMute, who: who{part: subject}, span: g.between(20*time.Millisecond, 450*time.Millisecond)},
	)
	if chance(g.Rand, 600) { // the predecessor shall win
		g.add(action{on: whenJointReceived, nth: nth, op: opClock, who: who{part: predecessor}, span: 3 * time.Second, n: 1_500_000})
	}
	if chance(g.Rand, 400) { // somebody will need a snapshot in the midst of it
		g.add(
			action{on: whenAdmitted, nth: 1, op: opPause, who: who{follower, g.IntN(4)}, span: g.between(time.Second, 6*time.Second)},
			action{on: whenJointReceived, nth: nth, delay: g.between(500*time.Millisecond, 2*time.Second), op: opFill, who: who{part: leader}, n: 4},
		)
	}
	for delay := g.between(0, 700*time.Millisecond); delay < 4*time.Second; delay += 250 * time.Millisecond {
		g.add(action{on: whenJointReceived, nth: nth, delay: delay, op: opAbort})
	}
}

// thrash draws a new partition about every election timeout for a while: leaders change in the midst of a replacement, and
// each knows another part of it.
func (g *generator) thrash(from trigger) {
	at, nth := time.Duration(0), 1+g.IntN(3)
	for range 3 + g.IntN(8) {
		span := g.between(300*time.Millisecond, 2500*time.Millisecond)
		g.add(action{on: from, nth: nth, delay: at, op: opSplit, span: span, n: 1 + g.IntN(1<<(g.opt.size+g.opt.spares)-1)})
		at += span
	}
}

// rejoin crashes processes one after another, most of them soon started again by their supervisors.
func (g *generator) rejoin() {
	at := settled
	if chance(g.Rand, 300) { // an operator starts what was replaced
		g.storm(settled, g.opt.chaos, 4)
		g.restarts()
	}
	for at < g.opt.chaos {
		g.add(action{delay: at, op: opCrash, who: pick(g.Rand, g.seat(), g.seat(), who{part: leader}, who{part: newcomer}),
			span: g.between(5*time.Millisecond, 6*time.Second), n: g.IntN(4)})
		at += g.between(2*time.Second, 25*time.Second)
	}
	for range g.IntN(4) {
		a := g.disturbance(who{part: subject})
		a.on, a.nth = pick(g.Rand, whenAdmitted, whenJointProposed, whenFinalProposed, whenElected), 1+g.IntN(4)
		g.add(a)
	}
}

// restarts starts machines again, whatever became of their processes.
func (g *generator) restarts() {
	for range 2 + g.IntN(6) {
		g.add(action{delay: g.between(settled, g.opt.chaos), op: opRestart, who: who{machine, g.IntN(g.opt.size + g.opt.spares)}})
	}
}

// bootstrap disturbs the birth of the domain.
func (g *generator) bootstrap() {
	steps := []trigger{whenAccepted, whenAccepted, whenElected, whenBootstrapProposed, whenOpenProposed}
	for range 1 + g.IntN(3) {
		a := g.disturbance(pick(g.Rand, who{part: subject}, who{machine, g.IntN(g.opt.size)}))
		a.span = g.between(100*time.Millisecond, 15*time.Second)
		a.on, a.nth = steps[g.IntN(len(steps))], 1+g.IntN(4)
		g.add(a)
	}
	if chance(g.Rand, 400) { // a machine comes back with an empty disk
		g.add(action{on: whenAccepted, nth: 1 + g.IntN(g.opt.size), delay: g.between(0, time.Second), op: opCrash, n: 4,
			who: pick(g.Rand, who{machine, 0}, who{part: subject}), span: g.between(time.Millisecond, 2*time.Second)})
	}
	g.add(action{delay: g.between(0, 10*time.Second), op: pick(g.Rand, opPrepare, opReplace, opIsolate, opCrash), who: who{machine, g.IntN(g.opt.size)},
		span: g.between(time.Second, 12*time.Second)})
	if chance(g.Rand, 400) { // who has accepted is heard by a majority alone
		at := g.IntN(g.opt.size)
		g.add(action{delay: g.between(0, time.Second), op: opMute, who: who{machine, at}, span: g.between(time.Second, 20*time.Second)})
	}
}

// leaders takes one leader after another away with something in its log that the others lack, and brings it back: the
// schedules of figure 8, and of a longer log at a lower term against a shorter one at a higher.
func (g *generator) leaders() {
	if g.opt.size == 5 && chance(g.Rand, 400) {
		g.figure8()
		return
	}
	for n := 1; n <= 3+g.IntN(8); n++ {
		delay := pick(g.Rand, 0, g.between(0, 100*time.Millisecond), g.between(0, 2*time.Second))
		cut := action{on: whenElected, nth: n, delay: delay, who: who{part: subject},
			op: pick(g.Rand, opIsolate, opIsolate, opDeafen, opMute, opIsolatePair, opPause, opDropOwnTerm), span: g.between(time.Second, 6*time.Second)}
		if cut.op == opIsolatePair {
			cut.other = who{follower, g.IntN(4)}
		}
		fill := action{on: whenElected, nth: n, delay: delay + time.Millisecond, who: who{part: subject}, op: pick(g.Rand, opFill, opRequests)}
		if fill.n = 1 + g.IntN(4); fill.op == opRequests {
			fill.n = 1 + g.IntN(100)
		}
		g.add(cut, fill)
		if chance(g.Rand, 400) { // another leader before the last comes back
			g.add(action{on: whenElected, nth: n, delay: delay + g.between(1500*time.Millisecond, 3*time.Second), op: opTransfer})
		}
	}
	if chance(g.Rand, 500) {
		g.add(action{on: whenElected, nth: 2 + g.IntN(3), delay: g.between(0, 50*time.Millisecond), op: opCrash, who: who{part: subject}, n: 2})
	}
	if chance(g.Rand, 500) {
		g.add(action{delay: g.between(settled, g.opt.chaos), op: opReplace, who: g.seat()})
	}
}

// figure8 is the schedule of figure 8 of the Raft paper, with cut links for crashes: an old entry gets to a majority by the
// hand of a later leader, no entry of that one's own does, and another leader with a newer log comes back.
func (g *generator) figure8() {
	first, taken := g.between(3*time.Second, 5*time.Second), g.between(300*time.Millisecond, 2*time.Second)
	g.add(
		action{delay: settled, op: opIsolatePair, who: who{part: leader}, other: who{follower, g.IntN(4)}, span: first},
		action{delay: settled + time.Millisecond, op: opFill, who: who{part: leader}, n: 2},
		action{on: whenElected, nth: 2, op: opIsolate, who: who{part: subject}},
		action{on: whenElected, nth: 3, op: opDropOwnTerm, who: who{part: subject}, span: 5 * time.Second},
		action{on: whenElected, nth: 3, delay: taken, op: opHeal},
		action{on: whenElected, nth: 3, delay: taken, op: pick(g.Rand, opIsolate, opPause), who: who{part: subject}, span: 8 * time.Second},
	)
}

// laggard keeps one voter in the past while the cluster replaces another: it then meets a leader that it has never heard
// of, and needs a snapshot.
func (g *generator) laggard() {
	late := 1 + g.IntN(g.opt.size)
	old := 1 + (late+g.IntN(g.opt.size-1))%g.opt.size
	away := pick(g.Rand, opPause, opIsolate)
	span := g.between(8*time.Second, 20*time.Second)
	g.add(
		action{on: pick(g.Rand, whenPrepared, whenAdmitted, whenJointProposed, whenJointCommitted), nth: 1, delay: g.between(0, 2*time.Second),
			op: away, who: who{voter, late}, span: span},
		action{delay: settled, op: opReplace, who: who{voter, old}, n: g.IntN(2)},
		action{on: whenFinalCommitted, nth: 1, delay: g.between(0, 3*time.Second), op: opFill, who: who{part: leader}, n: g.IntN(5)},
		action{on: whenFinalCommitted, nth: 1, delay: g.between(0, 3*time.Second), op: opTransfer, who: who{voter, old}},
		action{on: whenFinalCommitted, nth: 1, delay: g.between(0, 6*time.Second), op: opCrash, who: pick(g.Rand, who{part: leader}, g.seat()), n: g.IntN(4)},
	)
}

// loss ends the first domain by force.
func (g *generator) loss() {
	g.storm(settled, g.opt.chaos/2, 3)
	g.add(action{delay: g.opt.chaos / 2, op: opCrashAll})
}
