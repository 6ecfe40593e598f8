package server

import (
	"testing"

	"ticketing.internal/raft"
)

// Right after a failover the new leader has heard nothing of the member that is dead: when it did is not known, not a moment ago.
func TestLastHeardIsNullUntilTheFirstAcknowledgement(t *testing.T) {
	m := &member{self: peerMember(1)}
	for name, test := range map[string]struct {
		peer  raft.PeerStatus
		known bool
	}{
		"nothing in this reign":         {raft.PeerStatus{HeardTicks: 1}, false},
		"a first answer, without match": {raft.PeerStatus{HeardTicks: 1, Heard: true}, true},
		"not since its connection":      {raft.PeerStatus{HeardTicks: 1, Match: 6}, true},
	} {
		test.peer.Member = peerMember(2)
		st := &raft.Status{State: raft.State{Role: raft.RoleLeader}, Last: 7, Peers: []raft.PeerStatus{test.peer}}
		s := m.memberStatus(&raft.MemberInfo{Member: peerMember(2), Seat: 2}, st)
		if (s.LastHeardMs != nil) != test.known || (s.MatchIndex != nil) != test.known || (s.Lag != nil) != test.known {
			t.Errorf("%s: %+v", name, s)
		}
		if test.known && (*s.LastHeardMs != 10 || *s.Lag != 7-test.peer.Match) {
			t.Errorf("%s: heard %d ms ago, lag %d", name, *s.LastHeardMs, *s.Lag)
		}
	}
}
