package rafttest

import (
	"fmt"
	"strings"

	"ticketing.internal/raft"
)

// describe renders a message on one line.
func describe(m *raft.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v term %d", m.Kind, m.Term)
	switch m.Kind {
	case raft.MsgAppendEntries:
		fmt.Fprintf(&b, ", after %d/%d, commit %d", m.Index, m.LogTerm, m.Commit)
		for i := range m.Entries {
			if i == 4 {
				fmt.Fprintf(&b, " .. %d", m.Entries[len(m.Entries)-1].Index)
				break
			}
			fmt.Fprintf(&b, " %s", describeEntry(&m.Entries[i]))
		}
	case raft.MsgAppendEntriesReply:
		fmt.Fprintf(&b, ", index %d", m.Index)
	case raft.MsgPreVote, raft.MsgRequestVote:
		fmt.Fprintf(&b, ", last %d/%d", m.Index, m.LogTerm)
	case raft.MsgInstallSnapshot, raft.MsgInstallSnapshotReply:
		fmt.Fprintf(&b, ", snapshot %d/%d, attempt %d, offset %d", m.Index, m.LogTerm, m.Attempt, m.Offset)
		if m.Last {
			b.WriteString(", last")
		}
	}
	if m.TransferTerm > 0 {
		fmt.Fprintf(&b, ", transfer of term %d", m.TransferTerm)
	}
	if m.Reject {
		b.WriteString(", rejected")
		if m.NeedSnapshot {
			b.WriteString(", needs a snapshot")
		} else if m.Kind == raft.MsgAppendEntriesReply {
			fmt.Fprintf(&b, ", hint %d/%d", m.Hint, m.LogTerm)
		}
	}
	return b.String()
}

func describeEntry(e *raft.Entry) string {
	switch e.Kind {
	case raft.EntryNoop:
		return fmt.Sprintf("%d/%d Noop", e.Index, e.Term)
	case raft.EntryControl:
		if c, err := raft.DecodeControl(e.Data); err == nil {
			return fmt.Sprintf("%d/%d %v", e.Index, e.Term, c.Kind)
		}
	}
	return fmt.Sprintf("%d/%d", e.Index, e.Term)
}

// describeEvent renders one step of a node on one line.
func describeEvent(e *raft.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", e.Kind)
	switch e.Kind {
	case raft.EventRoleChanged:
		fmt.Fprintf(&b, " %v", e.Role)
	case raft.EventAppended:
		fmt.Fprintf(&b, " %s", describeEntry(e.Entry))
	case raft.EventControlProposed:
		fmt.Fprintf(&b, " %v", e.Control.Kind)
	}
	fmt.Fprintf(&b, ", term %d", e.Term)
	if e.Index > 0 && e.Kind != raft.EventAppended {
		fmt.Fprintf(&b, ", index %d", e.Index)
	}
	if !e.Peer.IsZero() {
		fmt.Fprintf(&b, ", peer %v", e.Peer)
	}
	if len(e.Quorum) > 0 {
		fmt.Fprintf(&b, ", by %v", e.Quorum)
	}
	if e.Kind == raft.EventConfiguration {
		fmt.Fprintf(&b, ", %v", e.Configuration)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	return b.String()
}
