package rafttest

import (
	"ticketing.internal/lock"
	"ticketing.internal/raft"
)

// model is what the committed entries mean, told in the simplest way: who is a member, and who holds which key. It is
// advanced by the first node that applies an entry; every other must come to the same.
type model struct {
	s       *sim
	applied uint64

	bootstrapped, open, burned bool
	issued                     raft.NodeID
	voters                     map[raft.Seat]raft.Member // present voters
	names                      map[raft.NodeID]life      // of pairs that were ever admitted
	replacement                *modelReplacement
	voids                      map[raft.NodeID]uint64 // NodeIDs that nobody took, and when that was sure

	token   uint64
	holders map[string]holder
	grants  map[uint64]grant // by token
	owners  map[uint64]bool  // that were ever granted
}

// life is when a pair was admitted and retired, as log indices.
type life struct {
	member            raft.Member
	admitted, retired uint64
}

type modelReplacement struct {
	seat                  raft.Seat
	predecessor, newcomer raft.Member // the incarnation is zero until it is admitted
	joint                 bool
}

type holder struct {
	owner, token uint64
}

// grant is a grant that was applied: the lease may not end before its time has passed for everybody.
type grant struct {
	key   string
	owner uint64
	ended uint64 // the index that ended it
}

func newModel(s *sim) *model {
	m := &model{
		s: s, voters: map[raft.Seat]raft.Member{}, names: map[raft.NodeID]life{}, voids: map[raft.NodeID]uint64{},
		holders: map[string]holder{}, grants: map[uint64]grant{}, owners: map[uint64]bool{},
	}
	return m
}

// birth fills in the first voters.
func (m *model) birth(initial *raft.InitialConfig) {
	for i := range initial.Members {
		row := &initial.Members[i]
		m.voters[row.Seat] = row.Member
		m.names[row.Member.NodeID] = life{member: row.Member}
		m.issued = max(m.issued, row.Member.NodeID)
	}
}

func (m *model) voterOf(s raft.Seat) raft.Member { return m.voters[s] }

func (m *model) newcomer() raft.Member {
	if m.replacement == nil {
		return raft.Member{}
	}
	return m.replacement.newcomer
}

func (m *model) predecessor() raft.Member {
	if m.replacement == nil {
		return raft.Member{}
	}
	return m.replacement.predecessor
}

// named returns the pair that has, or had, that NodeID.
func (m *model) named(id raft.NodeID) raft.Member { return m.names[id].member }

func (m *model) admittedAt(x raft.Member) uint64 { return m.names[x.NodeID].admitted }

// retiredAt returns the index at which x was retired; 0: it was not.
func (m *model) retiredAt(x raft.Member) uint64 {
	if l := m.names[x.NodeID]; l.member == x {
		return l.retired
	}
	return 0
}

func (m *model) wasAdmitted(x raft.Member) bool { return m.names[x.NodeID].member == x }

func (m *model) isMember(x raft.Member) bool { return m.wasAdmitted(x) && m.retiredAt(x) == 0 }

// voidAt reports whether at that index it was sure that nobody has, or will have, the NodeID.
func (m *model) voidAt(id raft.NodeID, applied uint64) bool {
	at := m.voids[id]
	return at > 0 && at <= applied
}

func (m *model) retire(x raft.Member, index uint64) {
	if x.Incarnation == (raft.Incarnation{}) {
		m.voids[x.NodeID] = index
		return
	}
	l := m.names[x.NodeID]
	l.retired = index
	m.names[x.NodeID] = l
}

func (m *model) admit(x raft.Member, index uint64) {
	if had := m.named(x.NodeID); !had.IsZero() && had != x {
		m.s.fail("NodeIds are used once", "%v is admitted at %d, %v was before", x, index, had)
	}
	m.names[x.NodeID] = life{member: x, admitted: index}
	m.replacement.newcomer = x
}

// issue notes the NodeID that an entry gave out: each is the next.
func (m *model) issue(x raft.Member, index uint64) {
	if x.NodeID != m.issued+1 {
		m.s.fail("NodeIds are used once", "entry %d gives out NodeId %d after %d", index, x.NodeID, m.issued)
	}
	m.issued = x.NodeID
}

// control advances the model by a Control entry that was not rejected, and fails where it should have been.
func (m *model) control(index uint64, c *raft.Control, o *raft.Outcome) {
	fail := func(rule, text string) { m.s.fail(rule, "entry %d (%v of %v): %s", index, c.Kind, o.Member, text) }
	r := m.replacement
	switch c.Kind {
	case raft.ControlBootstrap:
		if m.bootstrapped {
			fail("bootstrap once", "the domain was bootstrapped")
		}
		m.bootstrapped = true
		m.raise(c.TokenBase)
	case raft.ControlServiceOpen:
		if m.open || m.burned || !m.bootstrapped {
			fail("open once", "open, burned or not bootstrapped")
		}
		m.open = true
		m.s.cover[CoverOpened]++
	case raft.ControlBurn:
		if m.open {
			fail("open domains stay", "it is open")
		}
		m.burned = true
		m.s.cover[CoverBurned]++
	case raft.ControlPrepare:
		if r != nil || !m.open {
			fail("one replacement at a time", "another is under way, or the domain is not open")
		}
		m.issue(o.Member, index)
		m.replacement = &modelReplacement{seat: o.Seat, predecessor: m.voters[o.Seat], newcomer: o.Member}
		m.s.cover[CoverPrepared]++
	case raft.ControlAdmit:
		m.admission(index, o, fail)
	case raft.ControlRejoin:
		m.rejoin(index, c, o, fail)
	case raft.ControlJoint:
		if r == nil || r.joint || r.newcomer.Incarnation == (raft.Incarnation{}) {
			fail("configurations alternate", "no replacement that waits for it")
		}
		r.joint = true
	case raft.ControlFinal:
		if r == nil || !r.joint {
			fail("configurations alternate", "no joint configuration is committed")
		}
		m.voters[r.seat] = r.newcomer
		m.retire(r.predecessor, index)
		m.replacement = nil
	case raft.ControlAbort:
		if r == nil || r.joint {
			fail("forward only", "no replacement that may be aborted")
		}
		m.retire(r.newcomer, index)
		m.replacement = nil
		m.s.cover[CoverAborted]++
	}
}

func (m *model) admission(index uint64, o *raft.Outcome, fail func(rule, text string)) {
	r := m.replacement
	if m.wasAdmitted(o.Member) && m.retiredAt(o.Member) == 0 {
		return // the same incarnation asks again and gets the same answer
	}
	switch {
	case r == nil || r.newcomer.NodeID != o.Member.NodeID:
		fail("one replacement at a time", "nobody waits for it")
	case r.newcomer.Incarnation != raft.Incarnation{}:
		fail("credentials are used once", "another incarnation has used it")
	}
	m.admit(o.Member, index)
	m.s.cover[CoverAdmitted]++
}

func (m *model) rejoin(index uint64, c *raft.Control, o *raft.Outcome, fail func(rule, text string)) {
	r := m.replacement
	if m.wasAdmitted(o.Member) && m.retiredAt(o.Member) == 0 {
		return
	}
	if r != nil && (r.joint || r.seat != c.Seat || r.newcomer != c.Replaces) {
		fail("one replacement at a time", "another is under way")
	}
	if r == nil && c.Replaces != m.voters[c.Seat] {
		fail("rejoin replaces itself", "it replaces somebody who is not the seat's voter")
	}
	p, old := m.s.byIncarnation[o.Member.Incarnation], m.s.byIncarnation[c.Replaces.Incarnation]
	if p == nil || old == nil || p.host != old.host || old.alive && old != p {
		fail("rejoin replaces itself", "it replaces somebody who is none of its own past")
	}
	if r != nil {
		m.retire(r.newcomer, index)
	}
	m.issue(o.Member, index)
	m.replacement = &modelReplacement{seat: c.Seat, predecessor: m.voters[c.Seat], newcomer: raft.Member{NodeID: o.Member.NodeID}}
	m.admit(o.Member, index)
	m.s.cover[CoverRejoined]++
}

// raise lifts the token counter to a base.
func (m *model) raise(base uint64) { m.token = max(m.token, base) }

// command advances the lock table by one command and returns what it must do.
func (m *model) command(index uint64, c *lock.Command) lock.Result {
	key := string(c.Key)
	held, ok := m.holders[key]
	switch c.Kind {
	case lock.KindGrant:
		if ok {
			return lock.Result{Outcome: lock.GrantRejected}
		}
		m.token++
		m.holders[key] = holder{c.Owner, m.token}
		m.grants[m.token] = grant{key: key, owner: c.Owner}
		m.owners[c.Owner] = true
		return lock.Result{Outcome: lock.Granted, Token: m.token}
	case lock.KindRelease:
		if !ok || held != (holder{c.Owner, c.Token}) {
			return lock.Result{Outcome: lock.NotFound}
		}
		m.endGrant(index, key, held.token)
		m.s.cover[CoverReleased]++
		return lock.Result{Outcome: lock.Released}
	}
	if !ok || held.token != c.Token {
		return lock.Result{Outcome: lock.NotExpired}
	}
	m.endGrant(index, key, held.token)
	m.s.cover[CoverExpired]++
	return lock.Result{Outcome: lock.Expired}
}

func (m *model) endGrant(index uint64, key string, token uint64) {
	delete(m.holders, key)
	g := m.grants[token]
	g.ended = index
	m.grants[token] = g
}

// holds reports whether the key is held by that token.
func (m *model) holds(key string, token uint64) bool {
	return m.holders[key].token == token && token > 0
}

// holderBefore is for the fault ExpireAnyToken: the token that holds key when the entry at index is applied.
func (m *model) holderBefore(index uint64, key []byte, token uint64) uint64 {
	if held, ok := m.holders[string(key)]; ok && index > m.applied {
		return held.token
	}
	return token
}
