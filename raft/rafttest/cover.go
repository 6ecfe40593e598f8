package rafttest

import (
	"fmt"
	"strings"
)

// Counter names something that runs should see happen: a simulator in which it does not is noticed.
type Counter int

// The counters.
const (
	CoverElection Counter = iota
	CoverTransferAsked
	CoverTransferDone
	CoverHint
	CoverQuorumLost
	CoverTruncated
	CoverConfigTruncated
	CoverSnapshotStarted
	CoverSnapshotInstalled
	CoverSnapshotInJoint
	CoverCompacted
	CoverPrepared
	CoverAdmitted
	CoverRejoinAsked
	CoverRejoined
	CoverJoint
	CoverJointLiveVictim
	CoverElectionInJoint
	CoverLeaderLostInJoint
	CoverFinal
	CoverAborted
	CoverRetired
	CoverControlRefused
	CoverControlRejected
	CoverReplaceAsked
	CoverCrash
	CoverRestart
	CoverPause
	CoverCut
	CoverClogged
	CoverLost
	CoverDuplicated
	CoverRefused
	CoverAcquire
	CoverGranted
	CoverReleased
	CoverExpired
	CoverIndeterminate
	CoverProposalLost
	CoverProposalUnknown
	CoverOpened
	CoverBurned
	CoverLeftOut
	CoverDomain
	CoverHealed
	CoverMajorityLost
	CoverBareQuorum
	CoverRolled
	CoverImpossible
	counters
)

var counterNames = [counters]string{
	"elections", "transfers asked", "transfers done", "loss hints", "quorums lost", "truncations", "configurations truncated",
	"snapshots sent", "snapshots installed", "snapshots while joint", "compactions", "prepared", "admitted", "rejoins asked",
	"rejoined", "joint configurations", "joint with a live predecessor", "elections while joint", "leaders lost while joint",
	"final configurations", "aborts", "retired told so", "controls refused", "controls rejected", "replacements asked", "crashes",
	"restarts", "pauses", "cuts", "clogs", "packets lost", "packets doubled", "connections refused", "acquires", "grants told",
	"releases", "expiries", "indeterminate", "proposals lost", "proposals unknown", "domains opened", "domains burned",
	"nodes left out", "domains begun", "healed runs", "majorities lost", "bare quorums", "rolling restarts", "impossible messages",
}

func (c Counter) String() string { return counterNames[c] }

// Cover counts what was seen.
type Cover [counters]int

// Add adds what another run saw.
func (c *Cover) Add(o *Cover) {
	for i := range c {
		c[i] += o[i]
	}
}

// String returns one line for each counter.
func (c *Cover) String() string {
	var b strings.Builder
	for i, n := range c {
		fmt.Fprintf(&b, "%12d %s\n", n, Counter(i))
	}
	return b.String()
}
