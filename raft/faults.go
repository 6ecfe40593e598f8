package raft

// Faults switches single rules off. It exists to prove that the checkers of rafttest find what each rule prevents; a
// server never sets it. The zero value keeps every rule.
type Faults struct {
	// Elections.
	VoteTwice          bool // grant a second vote in a term
	VoteForShorterLog  bool // leave out the up-to-date check of RequestVote and PreVote
	HideTermInReject   bool // a rejection of PreVote, RequestVote and AppendEntries carries term 0
	IgnoreStickiness   bool // a voter that hears a leader grants votes all the same
	NoCheckQuorum      bool // a leader without a quorum goes on leading
	TransferToLaggard  bool // TimeoutNow is sent before the target has the whole log
	TransferNeverEnds  bool // a transfer has no timeout
	RankWithoutVoter   bool // a learner stands for election
	CandidateKeepsTerm bool // a candidate stands in its present term

	// Log.
	CommitOldTermByCount bool // a leader commits an entry of an earlier term by counting
	SkipLogCheck         bool // AppendEntries does not compare the previous entry
	CountOldTermAcks     bool // acknowledgements of earlier terms count
	ApplyOutOfOrder      bool // two neighbouring commands of one batch are swapped as they are applied
	CommitBeyondMatch    bool // a follower takes the leader's commit index without bounding it by what it was sent
	KeepConflicting      bool // a follower keeps its own entry where the leader's differs

	// Membership.
	CountLearner            bool // a learner's acknowledgements count towards the quorum
	FinalEarly              bool // the final configuration is appended before its two conditions hold
	AbortAfterJoint         bool // abort is allowed when the joint entry is in the log
	OldMajorityOnly         bool // a joint decision needs the old majority alone
	NewMajorityOnly         bool // a joint decision needs the new majority alone
	KeepTruncatedConfig     bool // a configuration stays in force when its entry is truncated
	UncommittedToLearner    bool // learners and the leaving predecessor are sent uncommitted entries
	ControlConcurrently     bool // Control entries are appended while another is unapplied
	ReuseNodeID             bool // an aborted replacement's NodeID is issued again
	ReadmitOtherIncarnation bool // a consumed join credential admits another incarnation
	PromoteWithoutCatchUp   bool // the joint entry does not wait for the learner
	RejoinOverLiving        bool // a rejoin may replace a voter that is none of its own incarnations

	// Identity: see CheckPeer.
	AcceptRetired bool // a retired incarnation is let in
	RefuseUnknown bool // a sender that the registry does not know yet is refused

	// Bootstrap.
	StartBeforeUnanimity bool // Raft starts when a majority has accepted the InitialConfig
	AcceptTwice          bool // a node accepts another InitialConfig later
	OpenByMajority       bool // ServiceOpen is proposed when a majority has acknowledged Bootstrap
	ServeBeforeOpen      bool // State.Serving does not wait for ServiceOpen
	TokenMarksIgnored    bool // the Bootstrap entry's base leaves the acceptors' token marks out

	// Snapshots.
	SnapshotWithoutRegistry bool // an installed snapshot keeps the old registry
	SnapshotBackwards       bool // a snapshot at or below the commit index is installed
}
