package raft

// EntryKind says what a log entry carries.
type EntryKind uint8

// The kinds of log entry.
const (
	EntryNoop    EntryKind = 0 // a new leader's first entry
	EntryCommand EntryKind = 1 // the application's; opaque here
	EntryControl EntryKind = 2 // a Control, applied by this package
)

// MaxEntryBytes bounds the data of one entry.
const MaxEntryBytes = 32 << 10

// Entry is one log entry. Data aliases memory of the log or of the decoded frame; see Ready and DecodeMessage.
type Entry struct {
	Index uint64
	Term  uint64
	Kind  EntryKind
	Data  []byte
}

// Committed is an entry that is decided, in log order, exactly once each. Lost comes first: the driver settles those
// proposals before it applies the entry.
type Committed struct {
	Entry
	// Lost is how many of the oldest undecided proposals of this node are now known never to take effect.
	Lost int
	// Own is true when the entry is this node's oldest undecided proposal (after Lost are taken away).
	Own bool
	// Control is the decoded request of an EntryControl that decodes, else nil; Outcome its result, the same on
	// every member. The registry is already as it is after the entry.
	Control *Control
	Outcome Outcome
}
