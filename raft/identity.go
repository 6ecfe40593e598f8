package raft

// Refusal says why a peer connection is refused. It is an error value; 0 lets the sender in.
type Refusal uint8

// The refusals (docs/protocol-peer.md, Reasons of Refuse).
const (
	RefuseNone             Refusal = 0
	RefuseDomain           Refusal = 1  // another domain
	RefuseReceiver         Refusal = 2  // the pair named is not this process
	RefuseRetired          Refusal = 3  // committed state knows the sender as retired
	RefuseOtherIncarnation Refusal = 4  // a known NodeID with another incarnation
	RefuseSelf             Refusal = 5  // one's own pair on the other side
	RefuseRegressed        Refusal = 6  // the sender's term is lower than one that this pair has shown
	RefuseVersion          Refusal = 7  // no protocol version in common
	RefuseSecret           Refusal = 8  // the proof does not verify
	RefuseOverloaded       Refusal = 9  // too many connections
	RefuseTLS              Refusal = 10 // the sender speaks plaintext, and the receiver TLS
)

// Error returns the refusal in words.
func (r Refusal) Error() string {
	switch r {
	case RefuseNone:
		return "not refused"
	case RefuseDomain:
		return "another domain"
	case RefuseReceiver:
		return "meant for another process"
	case RefuseRetired:
		return "retired"
	case RefuseOtherIncarnation:
		return "another process has this NodeId"
	case RefuseSelf:
		return "connected to oneself"
	case RefuseRegressed:
		return "regressed: this identity had a later term before"
	case RefuseVersion:
		return "no protocol version in common"
	case RefuseSecret:
		return "proof does not verify"
	case RefuseOverloaded:
		return "too many connections"
	case RefuseTLS:
		return "TLS is required"
	}
	return "unknown refusal"
}

// Introduction is what a proven handshake says of both ends.
type Introduction struct {
	Domain   Domain
	Sender   Member
	Receiver Member // as the sender names it; zero: unknown to it yet
	// Term is the sender's, as its Proof names it; ShownTerm the highest that this pair had shown to the receiver
	// before the receiver's Hello went out (0: none).
	Term      uint64
	ShownTerm uint64
}

// CheckPeer decides whether a sender is let in by the process self, whose applied registry is r (nil while it has
// none). Unknown is not retired: a sender that r does not know yet is let in, for it may be a newcomer that a lagging
// voter has not heard of. self and r may be anything that the process knows; nothing else is consulted.
func CheckPeer(r *Registry, domain Domain, self Member, in Introduction, faults *Faults) Refusal {
	switch {
	case in.Domain != domain:
		return RefuseDomain
	case in.Sender == self:
		return RefuseSelf
	case !in.Receiver.IsZero() && in.Receiver != self:
		return RefuseReceiver
	case in.Term < in.ShownTerm:
		return RefuseRegressed
	}
	if r == nil || in.Sender.NodeID == 0 {
		return RefuseNone
	}
	if refusal := r.refuses(in.Sender); refusal != RefuseNone && !(faults != nil && faults.AcceptRetired) {
		return refusal
	}
	if faults != nil && faults.RefuseUnknown && r.Member(in.Sender) == nil {
		return RefuseRetired
	}
	return RefuseNone
}

// refuses reports whether applied state excludes m.
func (r *Registry) refuses(m Member) Refusal {
	if known := r.byNodeID(m.NodeID); known != nil {
		if known.Member != m {
			return RefuseOtherIncarnation
		}
		return RefuseNone
	}
	if r.RetiredSeat(m) != 0 || r.IsRetired(m.NodeID) {
		return RefuseRetired
	}
	return RefuseNone
}
