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
		{"AbortAfterJoint", "no abort behind the joint entry", func(f *Faults) { f.AbortAfterJoint = true }, 100},
		{"StartBeforeUnanimity", "Raft starts when all have accepted", func(f *Faults) { f.StartBeforeUnanimity = true }, 50},
		{"RefuseUnknown", "unknown newcomers are let in", func(f *Faults) { f.RefuseUnknown = true }, 50},
		{"HideTermInReject", "rejections carry the term", func(f *Faults) { f.HideTermInReject = true }, 300},
		{"ApplyOutOfOrder", "entries are applied in order", func(f *Faults) { f.ApplyOutOfOrder = true }, 50},
		{"TokensFromLeader", "tokens come from the state machine", func(f *Faults) { f.TokensFromLeader = true }, 50},
		{"ExpireAnyToken", "Expire removes only its own token", func(f *Faults) { f.ExpireAnyToken = true }, 100},
	}
}
