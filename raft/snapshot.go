package raft

// StateMachine is the application's side of snapshots. The core calls it from within Step, Ready and Tick, when every
// entry that was handed out is applied, so that its state is exactly the one at Node's applied index.
//
// Both directions are streams of opaque bytes: the receiver's chunks are the sender's, in order, with none missing.
type StateMachine interface {
	// Capture begins a snapshot of the state as applied so far. The state may move on while the capture is read;
	// what is read does not. At most one Capture is open at a time.
	Capture() Capture
	// Restore begins to build a state beside the present one, which stays in use until Restore.Install. At most one
	// Restore is open at a time.
	Restore() Restore
}

// Capture is a snapshot being read.
type Capture interface {
	// AppendChunk appends the next bytes of the snapshot, at most limit, and reports whether they were the last. It
	// may append fewer, or none, to bound the time that one call takes: the core asks again at the next tick.
	AppendChunk(dst []byte, limit int) (chunk []byte, last bool)
	// Close ends the capture, read to its end or not.
	Close()
}

// Restore is a state being built.
type Restore interface {
	// Chunk takes the next bytes. They are valid during the call alone. An error ends the attempt.
	Chunk(data []byte) error
	// Install replaces the application's state by the one built. With an error the old state stays.
	Install() error
	// Close ends a restore that is not installed.
	Close()
}

// SnapshotState is Raft's part of a snapshot.
type SnapshotState struct {
	Index         uint64
	Term          uint64
	Configuration Configuration // in force at Index, joint or not
	ConfigIndex   uint64        // the index of the entry that made it; 0: the bootstrap's
	Registry      Registry      // as applied at Index
}

// Installed says that a snapshot has replaced the application's state.
type Installed struct {
	Index uint64
	Term  uint64
	// Unknown is how many of the oldest undecided proposals of this node the snapshot covers: whether they took
	// effect cannot be known.
	Unknown int
}
