package rafttest

// Mutant is one rule switched off.
type Mutant struct {
	Name   string
	Rule   string // the rule in words
	Faults func(*Faults)
	Seeds  int // within so many seeds the simulator finds it
}

// Mutants returns all of them.
func Mutants() []Mutant {
	return []Mutant{
		{"VoteTwice", "one vote in a term", func(f *Faults) { f.VoteTwice = true }, 50},
		{"VoteForShorterLog", "no vote for a shorter log", func(f *Faults) { f.VoteForShorterLog = true }, 50},
		{"CommitOldTermByCount", "an old-term entry is never committed by count", func(f *Faults) { f.CommitOldTermByCount = true }, 300},
		{"SkipLogCheck", "appends check the entry before", func(f *Faults) { f.SkipLogCheck = true }, 50},
		{"AcceptRetired", "a retired incarnation is not heard", func(f *Faults) { f.AcceptRetired = true }, 50},
		{"CountLearner", "learners are never counted", func(f *Faults) { f.CountLearner = true }, 50},
		{"OldIdentity", "a restarted process is another member", func(f *Faults) { f.OldIdentity = true }, 50},
		{"FinalEarly", "the final configuration waits for joint and own term", func(f *Faults) { f.FinalEarly = true }, 50},
		{"AbortAfterJoint", "no abort behind the joint entry", func(f *Faults) { f.AbortAfterJoint = true }, 300},
		{"StartBeforeUnanimity", "Raft starts when all have accepted", func(f *Faults) { f.StartBeforeUnanimity = true }, 50},
		{"RefuseUnknown", "unknown newcomers are let in", func(f *Faults) { f.RefuseUnknown = true }, 50},
		{"HideTermInReject", "rejections carry the term", func(f *Faults) { f.HideTermInReject = true }, 50},
		{"ApplyOutOfOrder", "entries are applied in order", func(f *Faults) { f.ApplyOutOfOrder = true }, 50},
		{"TokensFromLeader", "tokens come from the state machine", func(f *Faults) { f.TokensFromLeader = true }, 50},
		{"ExpireAnyToken", "Expire removes only its own token", func(f *Faults) { f.ExpireAnyToken = true }, 50},
		{"ReadyEarly", "a rejoining process is ready when it is a voter again", func(f *Faults) { f.ReadyEarly = true }, 300},
		{"IgnoreStickiness", "nobody helps to replace a leader that it hears", func(f *Faults) { f.IgnoreStickiness = true }, 50},
		{"NoCheckQuorum", "a leader without a quorum steps down", func(f *Faults) { f.NoCheckQuorum = true }, 50},
		{"TransferToLaggard", "TimeoutNow waits for the whole log", func(f *Faults) { f.TransferToLaggard = true }, 300},
		{"TransferNeverEnds", "a transfer ends after an election timeout", func(f *Faults) { f.TransferNeverEnds = true }, 50},
		{"RankWithoutVoter", "a learner does not stand for election", func(f *Faults) { f.RankWithoutVoter = true }, 50},
		{"CandidateKeepsTerm", "a candidate stands in a new term", func(f *Faults) { f.CandidateKeepsTerm = true }, 50},
		{"CountOldTermAcks", "only acknowledgements of the present term count", func(f *Faults) { f.CountOldTermAcks = true }, 300},
		{"CommitBeyondMatch", "a follower commits no more than it was sent", func(f *Faults) { f.CommitBeyondMatch = true }, 50},
		{"KeepConflicting", "what conflicts with the leader's log goes", func(f *Faults) { f.KeepConflicting = true }, 50},
		{"OldMajorityOnly", "a joint decision needs both majorities", func(f *Faults) { f.OldMajorityOnly = true }, 50},
		{"NewMajorityOnly", "a joint decision needs both majorities", func(f *Faults) { f.NewMajorityOnly = true }, 50},
		{"KeepTruncatedConfig", "a truncated configuration is rolled back", func(f *Faults) { f.KeepTruncatedConfig = true }, 1000},
		{"UncommittedToLearner", "learners are sent committed entries only", func(f *Faults) { f.UncommittedToLearner = true }, 50},
		{"ControlConcurrently", "one Control entry at a time", func(f *Faults) { f.ControlConcurrently = true }, 50},
		{"ReuseNodeID", "a NodeId is issued once", func(f *Faults) { f.ReuseNodeID = true }, 50},
		{"ReadmitOtherIncarnation", "a join credential admits one incarnation", func(f *Faults) { f.ReadmitOtherIncarnation = true }, 300},
		{"PromoteWithoutCatchUp", "the joint entry waits for the learner", func(f *Faults) { f.PromoteWithoutCatchUp = true }, 50},
		{"RejoinOverLiving", "a rejoin replaces its own past alone", func(f *Faults) { f.RejoinOverLiving = true }, 300},
		{"AcceptTwice", "one InitialConfig in a life", func(f *Faults) { f.AcceptTwice = true }, 300},
		{"OpenByMajority", "the domain opens when all hold Bootstrap", func(f *Faults) { f.OpenByMajority = true }, 300},
		{"ServeBeforeOpen", "nobody is served before ServiceOpen", func(f *Faults) { f.ServeBeforeOpen = true }, 50},
		{"TokenMarksIgnored", "tokens stay above those of the domain before", func(f *Faults) { f.TokenMarksIgnored = true }, 1000},
		{"SnapshotWithoutRegistry", "a snapshot brings the registry", func(f *Faults) { f.SnapshotWithoutRegistry = true }, 300},
		{"SnapshotBackwards", "a snapshot never goes back", func(f *Faults) { f.SnapshotBackwards = true }, 300},
	}
}
