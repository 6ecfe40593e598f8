package server

import (
	"log/slog"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
)

// followControl does what a Control entry means for this process: whom it talks to, what its marker says, and whether it goes
// on at all.
func (m *member) followControl(_ lock.Time, c *raft.Committed) {
	registry := m.node.Registry()
	switch c.Control.Kind {
	case raft.ControlServiceOpen:
		m.ahead.opened()
	case raft.ControlBurn:
		m.fail(m.burned(nil))
	}
	m.aim()
	m.ahead.members(m.peerAddrs())
	if gone := c.Outcome.Retired; !gone.IsZero() {
		refusal := refusalOf(registry, gone, raft.RefuseRetired)
		if gone == m.self {
			m.fail(m.retired(refusal.voter))
			return
		}
		m.link.drop(gone, refusal)
		delete(m.shown, gone)
	}
}

// installedSnapshot follows a snapshot, which brings another registry.
func (m *member) installedSnapshot() {
	m.aim()
	m.ahead.members(m.peerAddrs())
	registry := m.node.Registry()
	if registry.Open {
		m.ahead.opened()
	}
	for _, gone := range registry.Retired { // what retired them was not applied one by one here
		m.link.drop(gone.Member, refusalOf(registry, gone.Member, raft.RefuseRetired))
	}
}

// trace turns the steps of the core that an operator wants to know of into log lines.
func (m *member) trace(e *raft.Event) {
	v := m.engine.events
	switch e.Kind {
	case raft.EventRoleChanged:
		v.write(slog.LevelInfo, "role changed", slog.String("role", e.Role.String()), slog.Uint64("term", e.Term), slog.String("leader", e.Peer.String()))
	case raft.EventQuorumLost:
		v.write(slog.LevelWarn, "the majority is out of reach: this node stops leading", slog.Uint64("term", e.Term))
	case raft.EventConfiguration:
		v.write(slog.LevelInfo, "configuration in force", slog.Uint64("index", e.Index), slog.Int("voters", len(e.Configuration.Voters)),
			slog.Bool("joint", e.Configuration.Joint()))
	case raft.EventSnapshotStarted, raft.EventSnapshotEnded, raft.EventSnapshotInstalled:
		v.write(slog.LevelInfo, e.Kind.String(), slog.Uint64("index", e.Index), slog.String("peer", e.Peer.String()), slog.String("detail", e.Detail))
	case raft.EventTransferStarted, raft.EventTransferEnded:
		v.write(slog.LevelInfo, "leadership "+e.Kind.String(), slog.String("to", e.Peer.String()), slog.String("detail", e.Detail))
	case raft.EventImpossible:
		v.write(slog.LevelError, "a message that the rules exclude was ignored: please report this", slog.String("what", e.Detail), slog.String("from", e.Peer.String()))
	}
}
