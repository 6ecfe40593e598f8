package server

import (
	"errors"
	"fmt"
	"maps"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// identity implements peerDriver.
func (m *member) identity(other raft.Member) peerIdentity {
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	return peerIdentity{
		domain: m.plan.domain, self: m.self, seat: m.plan.seat, credential: m.bootstrapCredential(), clientAddr: m.clientAddr,
		term: m.replica.state.Term, shown: m.shown[other],
	}
}

// bootstrapCredential is what the node shows of its bootstrap; zero without one.
func (m *member) bootstrapCredential() raft.CredentialID {
	if m.plan.mode != startBootstrap {
		return raft.CredentialID{}
	}
	return m.plan.credential
}

// admit implements peerDriver.
func (m *member) admit(in *peerIntroduction) peerRefusal {
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	var registry *raft.Registry
	if m.node != nil {
		registry = m.node.Registry()
	}
	if in.own != m.self {
		// This process has got its NodeID since its Hello, so the connection is bound to a pair that no message is for.
		return refusalOf(registry, in.Sender, raft.RefuseReceiver)
	}
	why := raft.CheckPeer(registry, m.plan.domain, m.self, in.Introduction, nil)
	if why == raft.RefuseNone && m.boot != nil && m.boot.Excludes(in.Sender) {
		why = raft.RefuseOtherIncarnation
	}
	if why != raft.RefuseNone {
		refusal := refusalOf(registry, in.Sender, why)
		if why == raft.RefuseDomain && m.boot != nil && in.credential != (raft.CredentialID{}) {
			m.otherCredential = in.seat
			m.tell()
			refusal.text = "another bootstrap credential: " + sameCredential
		}
		return refusal
	}
	m.noteTerm(in.Sender, in.Term)
	if m.boot != nil && in.role == wire.PeerRolePeer && in.dialled == "" && in.credential == m.plan.credential {
		m.boot.PeerShown(m.bootstrapInfo(in))
		if m.otherCredential == in.seat {
			m.otherCredential = 0
		}
		m.tell()
	}
	return peerRefusal{}
}

// refusalOf words a refusal.
func refusalOf(registry *raft.Registry, sender raft.Member, why raft.Refusal) peerRefusal {
	refusal := peerRefusal{reason: why, text: why.Error()}
	if why == raft.RefuseRetired {
		if voter := registry.Voter(registry.RetiredSeat(sender)); voter != nil {
			refusal.voter = voter.Member
		}
	}
	return refusal
}

// mostShown is how many pairs noteTerm remembers before it forgets those that are no members.
const mostShown = 256

// noteTerm remembers the highest term that a member has shown. A lower one later shows that the process is a copy.
func (m *member) noteTerm(from raft.Member, term uint64) {
	if from.NodeID == 0 || term <= m.shown[from] {
		return
	}
	if len(m.shown) >= mostShown {
		maps.DeleteFunc(m.shown, func(other raft.Member, _ uint64) bool { return m.node == nil || m.node.Registry().Member(other) == nil })
	}
	m.shown[from] = term
}

// connected implements peerDriver.
func (m *member) connected(in *peerIntroduction) {
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	if m.boot != nil {
		m.tell() // what is known of the bootstrap is told again on each new connection
	}
}

// received implements peerDriver.
func (m *member) received(from *peerIntroduction, frames []wire.PeerFrame) (err error) {
	m.engine.batch(&m.own, func(now lock.Time) { err = m.take(now, from, frames) })
	return err
}

// take implements peerDriver.
func (m *member) take(now lock.Time, from *peerIntroduction, frames []wire.PeerFrame) error {
	for i := range frames {
		if err := m.takeFrame(now, from, &frames[i]); err != nil {
			return err
		}
	}
	return nil
}

// takeFrame handles one frame of another member.
func (m *member) takeFrame(now lock.Time, from *peerIntroduction, f *wire.PeerFrame) error {
	switch f.Type {
	case wire.PeerTypeInitialConfig:
		return m.takeInitialConfig(f.Body)
	case wire.PeerTypeAccepted:
		return m.takeAccepted(f.Body)
	}
	msg := &m.message
	if err := raft.DecodeMessage(raft.MessageKind(f.Type), f.Body, msg); err != nil {
		return err
	}
	msg.From, msg.To = from.Sender, m.self
	if msg.Kind != raft.MsgPreVote && msg.Kind != raft.MsgPreVoteReply { // these name a term that may never be
		m.noteTerm(from.Sender, msg.Term)
	}
	m.step(now, msg)
	return nil
}

// ended implements peerDriver: a process that dies has its connections closed, so this is a hint that it did.
func (m *member) ended(from *peerIntroduction) {
	m.engine.batch(&m.own, func(lock.Time) {
		if m.boot != nil {
			m.boot.PeerGone(from.Sender)
		}
		if m.node != nil && from.bound() {
			m.node.ReportConnectionLoss(from.Sender)
		}
	})
}

// errAnotherLife says that this process can no longer be a member, but that the next one may.
var errAnotherLife = errors.New("this process can be no member any more; the supervisor shall start it again")

// refused implements peerDriver. Two refusals end the process, and one more during a bootstrap.
func (m *member) refused(by *peerIntroduction, why peerRefusal) {
	m.engine.mu.Lock()
	bootstrapping := m.boot != nil && m.node == nil
	m.engine.mu.Unlock()
	switch {
	case why.reason == raft.RefuseRetired && why.voter.IsZero(): // the NodeId, of another process
		m.fail(m.hadALife())
	case why.reason == raft.RefuseRetired:
		m.fail(m.retired(why.voter))
	case why.reason == raft.RefuseRegressed:
		m.fail(fmt.Errorf("%w: member %v has seen it in a later term, so its memory was restored or copied, which is forbidden", errAnotherLife, by.Sender))
	case why.reason == raft.RefuseOtherIncarnation && bootstrapping:
		m.fail(m.hadALife())
	}
}

// hadALife is the end of a process that was given the credential of a bootstrap that is over.
func (m *member) hadALife() error {
	return nodeErrorf("TICKETING_SEAT=%d: this seat had a life: use `ticketing cluster replace`", m.plan.seat)
}

// errGivenUp ends a learner that was given up: its seat's voter is an earlier process of its own, so that the next one can ask again.
var errGivenUp = fmt.Errorf("%w: it was given up before it became a voter", errAnotherLife)

// retired is the end of a node whose seat has another voter.
func (m *member) retired(voter raft.Member) error {
	if kept, ok := m.marker.read(); ok && kept.has(voter.Incarnation) {
		return errGivenUp
	}
	return nodeErrorf("this node is retired: member %v has taken over seat %d; switch it off, or give it the seat back with "+
		"`ticketing cluster replace --seat %d`", voter, m.plan.seat, m.plan.seat)
}
