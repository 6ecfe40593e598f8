package wire

import (
	"encoding/binary"

	"golang.org/x/crypto/cryptobyte"
)

// The versions of the protocol between nodes that this code speaks. The layout of Hello is the same in all of them.
const (
	PeerVersion       = 1 // the highest
	PeerVersionLowest = 1
)

// PeerProofSize is the size of a proof, in bytes.
const PeerProofSize = 32

// PeerRole is what a connection between nodes is for. Each role has keys of its own.
type PeerRole uint8

// The roles.
const (
	PeerRolePeer    PeerRole = 1 // Raft and bootstrap, from the dialing side to the accepting one
	PeerRoleJoin    PeerRole = 2 // requests of a process that wants to become a member
	PeerRoleControl PeerRole = 3 // requests of an operator's commands; domain and pair may be zero
)

// String returns the role's name.
func (r PeerRole) String() string {
	switch r {
	case PeerRolePeer:
		return "peer"
	case PeerRoleJoin:
		return "join"
	case PeerRoleControl:
		return "control"
	}
	return "unknown"
}

func (r PeerRole) known() bool { return PeerRolePeer <= r && r <= PeerRoleControl }

// PeerPair names a member: NodeId and incarnation. The zero pair names nobody.
type PeerPair struct {
	NodeID      uint32
	Incarnation [16]byte
}

// PeerHello is the body of Hello and of HelloReply.
type PeerHello struct {
	Version  uint16 // the highest that the sender speaks
	Lowest   uint16 // the lowest that it accepts
	Role     PeerRole
	Domain   [16]byte
	Self     PeerPair // the sender
	Expected PeerPair // whom it wants to talk to; zero: whoever is there
	Nonce    [32]byte
}

// AppendPeerHello appends the body of h.
func AppendPeerHello(dst []byte, h *PeerHello) []byte {
	dst = binary.BigEndian.AppendUint16(dst, h.Version)
	dst = binary.BigEndian.AppendUint16(dst, h.Lowest)
	dst = append(dst, byte(h.Role))
	dst = append(dst, h.Domain[:]...)
	dst = appendPair(appendPair(dst, h.Self), h.Expected)
	return append(dst, h.Nonce[:]...)
}

// DecodePeerHello decodes all of b into h. The error is PeerMalformed.
func DecodePeerHello(b []byte, h *PeerHello) error {
	s := cryptobyte.String(b)
	if !s.ReadUint16(&h.Version) || !s.ReadUint16(&h.Lowest) || !s.ReadUint8((*uint8)(&h.Role)) || !s.CopyBytes(h.Domain[:]) ||
		!readPair(&s, &h.Self) || !readPair(&s, &h.Expected) || !s.CopyBytes(h.Nonce[:]) || !s.Empty() {
		return PeerMalformed
	}
	if !h.Role.known() || h.Lowest > h.Version {
		return PeerMalformed
	}
	return nil
}

// PeerProof is the body of Proof without the proof at its end.
type PeerProof struct {
	Term       uint64   // the sender's present one
	Seat       uint8    // 0: none yet
	Credential [16]byte // id of the bootstrap credential that the sender was given; zero: none
	ClientAddr string   // where clients reach the sender, at most MaxText bytes
}

// AppendPeerProof appends the body of p up to the proof, which covers it: the caller makes it and appends it.
func AppendPeerProof(dst []byte, p *PeerProof) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.Term)
	dst = append(dst, p.Seat)
	dst = append(dst, p.Credential[:]...)
	return appendText(dst, p.ClientAddr)
}

// DecodePeerProof decodes all of b into p. It returns what the proof covers, and the proof; both alias b. The error is
// PeerMalformed.
func DecodePeerProof(b []byte, p *PeerProof) (covered, proof []byte, err error) {
	s := cryptobyte.String(b)
	if !s.ReadUint64(&p.Term) || !s.ReadUint8(&p.Seat) || !s.CopyBytes(p.Credential[:]) || !readText(&s, &p.ClientAddr) ||
		len(s) != PeerProofSize {
		return nil, nil, PeerMalformed
	}
	return b[:len(b)-PeerProofSize], s, nil
}

// PeerRefusal is the body of Refuse without the proof at its end.
type PeerRefusal struct {
	Reason uint8    // raft.Refusal
	Voter  PeerPair // with "retired": the present voter of the retired one's seat; else zero
	Text   string   // for people, at most MaxText bytes
}

// AppendPeerRefusal appends the body of r up to the proof, which covers it: the caller makes it and appends it, zeros if it
// cannot be made yet.
func AppendPeerRefusal(dst []byte, r *PeerRefusal) []byte {
	return appendText(appendPair(append(dst, r.Reason), r.Voter), r.Text)
}

// DecodePeerRefusal decodes all of b into r, as DecodePeerProof does.
func DecodePeerRefusal(b []byte, r *PeerRefusal) (covered, proof []byte, err error) {
	s := cryptobyte.String(b)
	if !s.ReadUint8(&r.Reason) || !readPair(&s, &r.Voter) || !readText(&s, &r.Text) || len(s) != PeerProofSize {
		return nil, nil, PeerMalformed
	}
	return b[:len(b)-PeerProofSize], s, nil
}

func appendPair(dst []byte, p PeerPair) []byte {
	return append(binary.BigEndian.AppendUint32(dst, p.NodeID), p.Incarnation[:]...)
}

func readPair(s *cryptobyte.String, p *PeerPair) bool {
	return s.ReadUint32(&p.NodeID) && s.CopyBytes(p.Incarnation[:])
}

// appendText appends text, cut to MaxText bytes, behind its length.
func appendText(dst []byte, text string) []byte {
	text = text[:min(len(text), MaxText)]
	return append(append(dst, byte(len(text))), text...)
}

func readText(s *cryptobyte.String, text *string) bool {
	var b cryptobyte.String
	if !s.ReadUint8LengthPrefixed(&b) {
		return false
	}
	*text = string(b)
	return true
}
