package raft

import "fmt"

// EventKind says what happened inside the core.
type EventKind uint8

// The events, with the fields of Event that each sets beside Kind, Self and Term.
const (
	EventRoleChanged       EventKind = 1  // Role; Peer: the leader, if known
	EventElectionWon       EventKind = 2  // Quorum, Configuration; Index, LogTerm: last entry at the victory
	EventVoteGranted       EventKind = 3  // Peer: the candidate
	EventCommitted         EventKind = 4  // Index: the new commit index; Quorum, Configuration: by counting here. A follower's has none
	EventQuorumHeard       EventKind = 5  // CheckQuorum passed: Quorum, Configuration
	EventQuorumLost        EventKind = 6  // CheckQuorum failed; the leader steps down
	EventAppended          EventKind = 7  // Index, LogTerm: an entry was put into the log here; Entry
	EventTruncated         EventKind = 8  // Index: the first entry removed; Detail, if a snapshot takes the place of all
	EventApplied           EventKind = 9  // Index, LogTerm, Entry; Outcome of a Control
	EventConfiguration     EventKind = 10 // Index; Configuration now in force (appended, rolled back or installed)
	EventTransferStarted   EventKind = 11 // Peer: the target
	EventTransferEnded     EventKind = 12 // Peer; Detail
	EventSnapshotStarted   EventKind = 13 // Peer, Index, Attempt in Count
	EventSnapshotEnded     EventKind = 14 // Peer, Index; Detail; Count: bytes sent
	EventSnapshotInstalled EventKind = 15 // Index, LogTerm, Configuration
	EventCompacted         EventKind = 16 // Index: the last entry dropped from the front of the log
	EventHint              EventKind = 17 // Peer: the leader whose connection ended
	EventControlProposed   EventKind = 18 // Index; Control
	EventImpossible        EventKind = 19 // Detail: a message that the rules exclude was ignored; Peer
	EventProposalsLost     EventKind = 20 // Count
	EventTimeoutNow        EventKind = 21 // Peer: the leader that asked
)

var eventNames = [...]string{
	EventRoleChanged: "role", EventElectionWon: "elected", EventVoteGranted: "vote", EventCommitted: "commit",
	EventQuorumHeard: "quorum", EventQuorumLost: "quorum lost", EventAppended: "append", EventTruncated: "truncate",
	EventApplied: "apply", EventConfiguration: "configuration", EventTransferStarted: "transfer",
	EventTransferEnded: "transfer ended", EventSnapshotStarted: "snapshot", EventSnapshotEnded: "snapshot ended",
	EventSnapshotInstalled: "installed", EventCompacted: "compact", EventHint: "hint",
	EventControlProposed: "control", EventImpossible: "impossible", EventProposalsLost: "lost",
	EventTimeoutNow: "timeout now",
}

// String returns a short name.
func (k EventKind) String() string {
	if int(k) < len(eventNames) && eventNames[k] != "" {
		return eventNames[k]
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event is one step of the core for a log line, a transcript or a checker. Whatever it points to is valid during the
// call alone.
type Event struct {
	Kind          EventKind
	Self          Member
	Term          uint64
	Role          Role
	Peer          Member
	Index         uint64
	LogTerm       uint64
	Count         uint64
	Detail        string
	Entry         *Entry
	Control       *Control
	Outcome       *Outcome
	Quorum        []Member // who was counted
	Configuration Configuration
}
