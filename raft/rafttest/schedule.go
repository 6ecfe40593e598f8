package rafttest

import (
	"fmt"
	"strings"
	"time"
)

// action is one line of a schedule: what is done to whom, and when. It names processes by their part in the cluster, so
// that it keeps its meaning when other lines are left out.
type action struct {
	on    trigger       // what it waits for; whenTime: nothing
	nth   int           // which occurrence of the trigger, from 1
	delay time.Duration // after the trigger, or after the start of the run
	op    op
	who   who           // on whom
	other who           // and, for some, together with whom
	span  time.Duration // how long it lasts; 0: for good
	n     int           // a number whose meaning depends on op
}

func (a action) String() string {
	var b strings.Builder
	if a.on == whenTime {
		fmt.Fprintf(&b, "at %v", a.delay)
	} else {
		fmt.Fprintf(&b, "%v after %v #%d", a.delay, a.on, a.nth)
	}
	fmt.Fprintf(&b, ": %v %v", a.op, a.who)
	if a.other.part != nobody {
		fmt.Fprintf(&b, ", %v", a.other)
	}
	if a.span > 0 {
		fmt.Fprintf(&b, " for %v", a.span)
	}
	if a.n != 0 {
		fmt.Fprintf(&b, " (%d)", a.n)
	}
	return b.String()
}

// trigger is a step of some node that actions can wait for.
type trigger uint8

const (
	whenTime trigger = iota
	whenElected
	whenJointProposed
	whenJointReceived
	whenJointCommitted
	whenFinalProposed
	whenFinalReceived
	whenFinalCommitted
	whenPrepared
	whenAdmitted
	whenSnapshotStarted
	whenSnapshotInstalled
	whenTimeoutNow
	whenQuorumLost
	whenBootstrapProposed
	whenOpenProposed
	whenAccepted
	whenVoted
	whenTransferStarted
	triggers
)

func (t trigger) String() string {
	return [...]string{"time", "elected", "joint proposed", "joint received", "joint committed", "final proposed", "final received",
		"final committed", "prepared", "admitted", "snapshot started", "snapshot installed", "timeout now", "quorum lost",
		"bootstrap proposed", "open proposed", "initial config accepted", "voted", "transfer started"}[t]
}

// part is what a process is to the cluster.
type part uint8

const (
	nobody part = iota
	leader
	follower // the number says which, by seat
	voter    // the number is a seat
	newcomer
	predecessor
	subject // whom the trigger happened to
	live    // the number says which, by age
	machine // the number is a machine's
)

type who struct {
	part   part
	number int
}

func (w who) String() string {
	name := [...]string{"nobody", "leader", "follower", "voter of seat", "newcomer", "predecessor", "subject", "process", "machine"}[w.part]
	switch w.part {
	case follower, voter, live, machine:
		return fmt.Sprintf("%s %d", name, w.number)
	}
	return name
}

// op is what an action does.
type op uint8

const (
	opCrash         op = iota // n&1: the kernel says nothing to the peers; n&2: what it sent last is lost; n&4: the marker, too; span: until the restart
	opPause                   // stopped, its memory kept
	opClock                   // n: parts per million faster
	opIsolate                 // nothing in or out
	opIsolatePair             // who and other hear nobody but each other
	opDeafen                  // nothing in
	opMute                    // nothing out
	opCutLink                 // nothing from who to other
	opCutPair                 // nothing between who and other
	opSplit                   // machines whose bit is set in n hear nobody else
	opClog                    // packets to who wait
	opReset                   // its connections end although it lives
	opHeal                    // all cuts end
	opTransfer                // leadership, to who; nobody: to whom the leader likes
	opReplace                 // the seat of who gets a new process; n&1: the old one is killed before
	opReplaceTwice            // two operators at once, for the seats of who and other
	opPrepare                 // prepared, but nobody comes
	opAbort                   // the replacement under way
	opRequests                // n acquires at once, at who
	opFill                    // n commands of 24 KiB, at who
	opDropOwnTerm             // who's appends of entries of its own term are lost
	opCloseSessions           // who's client connections end
	opCrashAll                // everybody at once
	opRestart                 // the machine's process starts again
	opRolling                 // every process in turn, as soon as the leader lets it stop
)

func (o op) String() string {
	return [...]string{"crash", "pause", "clock", "isolate", "isolate pair", "deafen", "mute", "cut", "cut both ways", "split",
		"clog", "reset connections of", "heal", "transfer to", "replace", "replace twice", "prepare", "abort", "requests at",
		"fill", "drop own-term appends of", "close sessions of", "crash all", "restart", "rolling restart"}[o]
}
