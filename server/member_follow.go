package server

import (
	"fmt"
	"log/slog"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
)

// followControl does what a Control entry means for this process: it changes whom it talks to, what its marker says, and may end it.
func (m *member) followControl(_ lock.Time, c *raft.Committed) {
	registry := m.node.Registry()
	if c.Control.Kind == raft.ControlServiceOpen {
		m.ahead.opened()
	}
	m.engine.events.replacement(c.Control, &c.Outcome)
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
	for _, gone := range registry.Retired { // the entries that retired them were not applied here one by one
		m.link.drop(gone.Member, refusalOf(registry, gone.Member, raft.RefuseRetired))
	}
}

// trace turns the steps of the core that an operator wants to know of into log lines.
func (m *member) trace(e *raft.Event) {
	v := m.engine.events
	switch e.Kind {
	case raft.EventRoleChanged:
		v.write(slog.LevelInfo, "role changed", eventAttrs("leader", e, slog.String("role", e.Role.String()), slog.Uint64("term", e.Term))...)
	case raft.EventQuorumLost:
		v.write(slog.LevelWarn, "the majority is out of reach: this node stops leading; "+majorityAdvice, slog.Uint64("term", e.Term))
	case raft.EventConfiguration:
		v.write(slog.LevelInfo, "configuration in force", slog.Uint64("index", e.Index), slog.Int("voters", len(e.Configuration.Voters)),
			slog.Bool("joint", e.Configuration.Joint()))
	case raft.EventSnapshotStarted:
		v.write(slog.LevelInfo, "a snapshot is sent to another node", eventAttrs("to", e, slog.Uint64("index", e.Index))...)
	case raft.EventSnapshotEnded:
		v.write(slog.LevelInfo, "the sending of a snapshot has ended", eventAttrs("to", e, slog.Uint64("index", e.Index))...)
	case raft.EventSnapshotInstalled:
		v.write(slog.LevelInfo, "a snapshot from the leader was installed", slog.Uint64("index", e.Index))
	case raft.EventTransferStarted, raft.EventTransferEnded:
		v.write(slog.LevelInfo, "leadership "+e.Kind.String(), eventAttrs("to", e)...)
	case raft.EventImpossible:
		v.write(slog.LevelError, "a message that the rules exclude was ignored: please report this", slog.String("what", e.Detail), slog.String("from", e.Peer.String()))
	}
}

// replacement logs a step of a replacement, which each member does as it applies the entry. That it is over shows in the configuration.
func (v *events) replacement(c *raft.Control, o *raft.Outcome) {
	message, newcomer, cause := "", o.Member, ""
	switch c.Kind {
	case raft.ControlPrepare:
		message, cause = "a replacement is prepared", "ticketing cluster replace"
	case raft.ControlAdmit:
		message, cause = "the newcomer of a replacement is admitted", "its join credential"
	case raft.ControlRejoin:
		message, cause = "the newcomer of a replacement is admitted", "a rejoin after a restart"
	case raft.ControlAbort:
		message, newcomer, cause = "a replacement is given up", o.Retired, abortText(c.Cause)
	default:
		return
	}
	v.write(slog.LevelInfo, message, slog.Int("seat", int(o.Seat)), slog.Uint64("node_id", uint64(newcomer.NodeID)), slog.String("peer", o.PeerAddr), slog.String("cause", cause))
}

func abortText(c raft.AbortCause) string {
	switch c {
	case raft.AbortOperator:
		return "ticketing cluster abort"
	case raft.AbortExpired:
		return "the join credential has ended unused"
	case raft.AbortSilent:
		return "the newcomer was silent for 60 s"
	case raft.AbortSlow:
		return "the newcomer did not catch up in 10 min"
	}
	return fmt.Sprintf("cause %d", c)
}

// eventAttrs adds who else an event is about, as role, and its detail, as far as there are any.
func eventAttrs(role string, e *raft.Event, attrs ...slog.Attr) []slog.Attr {
	if !e.Peer.IsZero() {
		attrs = append(attrs, slog.String(role, e.Peer.String()))
	}
	if e.Detail != "" {
		attrs = append(attrs, slog.String("detail", e.Detail))
	}
	return attrs
}
