package raft

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"
	"strconv"
)

// NodeID numbers a member: 1..n at bootstrap, then one more for every replacement. It is never reused. 0 is none.
type NodeID uint32

// Incarnation is 16 random bytes drawn when a process starts.
type Incarnation [16]byte

// Domain is 16 random bytes that name one life of a cluster.
type Domain [16]byte

// Seat is the stable place 1..n of a member; a replacement takes its predecessor's. 0 is none.
type Seat uint8

// Member names one process for its whole life. Everything that counts, remembers or compares members is keyed by
// the pair, never by NodeID or address alone.
type Member struct {
	NodeID      NodeID
	Incarnation Incarnation
}

// IsZero reports whether m names nobody.
func (m Member) IsZero() bool { return m == Member{} }

// String returns the NodeID and the first four bytes of the incarnation in hex, as in "3/0a1b2c3d".
func (m Member) String() string {
	return strconv.FormatUint(uint64(m.NodeID), 10) + "/" + hex.EncodeToString(m.Incarnation[:4])
}

// Compare orders members by NodeID, then by incarnation.
func (m Member) Compare(o Member) int {
	if c := cmp.Compare(m.NodeID, o.NodeID); c != 0 {
		return c
	}
	return bytes.Compare(m.Incarnation[:], o.Incarnation[:])
}

// MemberInfo is a member's row in the registry.
type MemberInfo struct {
	Member     Member
	Seat       Seat
	Learner    bool
	PeerAddr   string // host:port, at most MaxAddr bytes
	ClientAddr string // host:port, at most MaxAddr bytes
}

// MaxAddr is the longest address that a registry holds, in bytes.
const MaxAddr = 255

// Configuration is who votes. While it is joint, a decision needs a majority of Voters and a majority of Next.
// Its slices are sorted and never modified once they are in use.
type Configuration struct {
	Voters []Member // the old half while joint
	Next   []Member // the new half; empty unless joint
}

// Joint reports whether two majorities are needed.
func (c Configuration) Joint() bool { return len(c.Next) > 0 }

// IsVoter reports whether m is in either half.
func (c Configuration) IsVoter(m Member) bool {
	return slices.Contains(c.Voters, m) || slices.Contains(c.Next, m)
}

// each visits the voters of either half, each once.
func (c Configuration) each(visit func(Member)) {
	for _, m := range c.Voters {
		visit(m)
	}
	for _, m := range c.Next {
		if !slices.Contains(c.Voters, m) {
			visit(m)
		}
	}
}

// Target returns the half that stays: Next while joint, else Voters.
func (c Configuration) Target() []Member {
	if c.Joint() {
		return c.Next
	}
	return c.Voters
}

// Equal reports whether both halves are equal.
func (c Configuration) Equal(o Configuration) bool {
	return slices.Equal(c.Voters, o.Voters) && slices.Equal(c.Next, o.Next)
}

// valid reports whether c can be in force: three or five voters in each half, sorted, no NodeID twice in a half, and
// halves that differ in exactly one member.
func (c Configuration) valid() bool {
	if !validVoters(c.Voters) {
		return false
	}
	if !c.Joint() {
		return true
	}
	if !validVoters(c.Next) || len(c.Next) != len(c.Voters) {
		return false
	}
	common := 0
	for _, m := range c.Next {
		if slices.Contains(c.Voters, m) {
			common++
		}
	}
	return common == len(c.Voters)-1
}

func validVoters(voters []Member) bool {
	if !ValidSize(len(voters)) {
		return false
	}
	for i, m := range voters {
		if m.NodeID == 0 || i > 0 && voters[i-1].NodeID >= m.NodeID {
			return false
		}
	}
	return true
}

// ValidSize reports whether a cluster may have n voters: 3 or 5.
func ValidSize(n int) bool { return n == 3 || n == 5 }

// replaced returns voters without old and with newcomer, sorted.
func replaced(voters []Member, old, newcomer Member) []Member {
	next := make([]Member, 0, len(voters))
	for _, m := range voters {
		if m != old {
			next = append(next, m)
		}
	}
	next = append(next, newcomer)
	slices.SortFunc(next, Member.Compare)
	return next
}
