package raft

// incoming is a snapshot being received. The application builds its state beside the present one, so that this node
// remains what it was until all of it is there.
type incoming struct {
	restore  Restore
	from     Member
	term     uint64
	attempt  uint32
	state    *SnapshotState
	received uint64 // bytes of the application's
}

// close gives up what was received.
func (in *incoming) close() {
	if in.restore != nil {
		in.restore.Close()
	}
	*in = incoming{}
}

// handleInstallSnapshot takes a chunk. Chunks of other attempts, terms or leaders never mix.
func (n *Node) handleInstallSnapshot(m *Message) {
	reply := Message{
		Kind: MsgInstallSnapshotReply, To: m.From, Term: n.term, Index: m.Index, LogTerm: m.LogTerm, Attempt: m.Attempt,
	}
	switch {
	case m.Index <= n.commit && !n.faults.SnapshotBackwards:
		n.incoming.close()
		reply.Last, reply.Offset = true, m.Offset+uint64(len(m.Data))
	case !n.beginIncoming(m) || !n.takeChunk(m):
		n.incoming.close()
		reply.Reject = true
	case n.incoming.restore == nil: // installed
		reply.Last, reply.Offset = true, m.Offset+uint64(len(m.Data))
	default:
		reply.Offset = n.incoming.received
	}
	n.send(reply)
}

// beginIncoming makes m's attempt the present one. A chunk from the middle of an unknown attempt is refused.
func (n *Node) beginIncoming(m *Message) bool {
	in := &n.incoming
	if in.restore != nil && in.from == m.From && in.term == m.Term && in.attempt == m.Attempt {
		return true
	}
	in.close()
	if m.Offset != 0 {
		return false
	}
	state, err := DecodeSnapshotState(m.Raft)
	if err != nil || state.Index != m.Index || state.Term != m.LogTerm || state.Registry.Domain != n.cfg.Domain {
		n.impossible(m, "a snapshot that does not decode, or of another position or domain")
		return false
	}
	*in = incoming{restore: n.cfg.StateMachine.Restore(), from: m.From, term: m.Term, attempt: m.Attempt, state: state}
	return true
}

// takeChunk hands the chunk to the application, unless it has it, and installs after the last.
func (n *Node) takeChunk(m *Message) bool {
	in := &n.incoming
	if m.Offset != in.received {
		return m.Offset < in.received // a duplicate
	}
	if len(m.Data) > 0 {
		if in.restore.Chunk(m.Data) != nil {
			return false
		}
		in.received += uint64(len(m.Data))
	}
	if !m.Last {
		return true
	}
	if in.restore.Install() != nil {
		return false
	}
	state := in.state
	*in = incoming{}
	n.install(state)
	return true
}

// install makes Raft's part follow the application's new state. Entries after the snapshot are kept if the log agrees
// with it; the commit index never falls.
func (n *Node) install(state *SnapshotState) {
	if !n.log.matches(state.Index, state.Term) {
		n.trace(Event{Kind: EventTruncated, Index: n.log.base + 1, Detail: "a snapshot takes its place"})
		n.log.reset(state.Index, state.Term)
		n.confs.install(configurationAt{index: state.ConfigIndex, conf: state.Configuration})
	}
	n.commit, n.applied = max(n.commit, state.Index), state.Index
	if !n.faults.SnapshotWithoutRegistry || n.blank {
		n.registry = state.Registry
	}
	n.blank = false
	installed := Installed{Index: state.Index, Term: state.Term, Unknown: n.proposals.covered(state.Index)}
	if n.installed != nil {
		installed.Unknown += n.installed.Unknown
	}
	n.installed = &installed
	n.trace(Event{Kind: EventSnapshotInstalled, Index: state.Index, LogTerm: state.Term, Configuration: state.Configuration})
	at := n.confs.current()
	n.trace(Event{Kind: EventConfiguration, Index: at.index, Configuration: at.conf})
}
