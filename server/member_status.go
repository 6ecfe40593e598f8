package server

import (
	"cmp"
	"encoding/hex"
	"slices"

	"ticketing.internal/raft"
)

// describe implements authority.
func (m *member) describe(s *Status) {
	s.Mode, s.Role = "cluster", "joining"
	seat, id, incarnation := int(m.plan.seat), uint32(m.self.NodeID), hex.EncodeToString(m.self.Incarnation[:])
	s.Seat, s.NodeID, s.Incarnation = &seat, &id, &incarnation
	if m.node == nil {
		return
	}
	st, registry := m.node.Status(), m.node.Registry()
	s.Role = roleName(&st)
	if registry.RetiredSeat(m.self) != 0 {
		s.Role = "retired"
	}
	s.Term, s.CommitIndex, s.AppliedIndex = &st.State.Term, &st.Commit, &st.Applied
	if info := registry.Member(st.State.Leader); info != nil {
		s.Leader = &StatusLeader{NodeID: uint32(info.Member.NodeID), Seat: int(info.Seat), ClientAddr: info.ClientAddr}
	}
	for i := range registry.Members {
		s.Members = append(s.Members, m.memberStatus(&registry.Members[i], &st))
	}
	slices.SortFunc(s.Members, func(a, b StatusMember) int { return cmp.Or(a.Seat-b.Seat, int(a.NodeID)-int(b.NodeID)) })
	if r := registry.Replacement; r != nil {
		s.Replacement = &StatusReplacement{Seat: int(r.Seat), NodeID: uint32(r.Newcomer.NodeID), Phase: phaseName(r)}
	}
}

func roleName(st *raft.Status) string {
	switch {
	case st.State.Role == raft.RoleLeader:
		return "leader"
	case st.State.Role == raft.RoleCandidate || st.State.Role == raft.RolePreCandidate:
		return "candidate"
	case !st.State.Voter:
		return "learner"
	}
	return "follower"
}

func phaseName(r *raft.Replacement) string {
	switch {
	case r.Joint:
		return "joint"
	case r.Admitted():
		return "learner"
	}
	return "prepared"
}

// memberStatus describes a member as this node sees it: only a leader knows how far another has come, or that it has itself come
// furthest.
func (m *member) memberStatus(info *raft.MemberInfo, st *raft.Status) StatusMember {
	s := StatusMember{
		Seat: int(info.Seat), NodeID: uint32(info.Member.NodeID), Incarnation: hex.EncodeToString(info.Member.Incarnation[:]), Role: "voter",
		PeerAddr: info.PeerAddr, ClientAddr: info.ClientAddr,
	}
	if info.Learner {
		s.Role = "learner"
	}
	if info.Member == m.self {
		last, heard := st.Last, int64(0)
		s.MatchIndex, s.LastHeardMs = &last, &heard
		if st.State.Role == raft.RoleLeader {
			s.Lag = new(uint64)
		}
		return s
	}
	for _, p := range st.Peers {
		if p.Member == info.Member && st.State.Role == raft.RoleLeader {
			match, lag, heard := p.Match, st.Last-min(p.Match, st.Last), int64(p.HeardTicks)*raftTick.Milliseconds()
			if p.Match > 0 || p.Heard { // in this reign: before, HeardTicks counts from its beginning
				s.MatchIndex, s.Lag, s.LastHeardMs = &match, &lag, &heard
			}
		}
	}
	return s
}

// target is the member that s describes, as one to be connected to.
func (s *StatusMember) target() peerTarget {
	t := peerTarget{member: raft.Member{NodeID: raft.NodeID(s.NodeID)}, addr: s.PeerAddr}
	hex.Decode(t.member.Incarnation[:], []byte(s.Incarnation)[:min(len(s.Incarnation), 2*len(t.member.Incarnation))])
	return t
}
