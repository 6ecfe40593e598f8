package raft

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
)

// ConnectionRole is what a side of a peer connection wants to be proven as. Each has a key of its own.
type ConnectionRole uint8

// The roles of a connection.
const (
	RolePeer    ConnectionRole = 1
	RoleJoin    ConnectionRole = 2
	RoleControl ConnectionRole = 3
)

// Hello is the body of Hello and of HelloReply.
type Hello struct {
	Version  uint16 // the protocol version spoken
	Lowest   uint16 // the lowest accepted
	Role     ConnectionRole
	Domain   Domain
	Own      Member
	Expected Member // of the other side; zero: unknown yet
	Nonce    [32]byte
}

// AppendHello appends h's encoding: 93 bytes.
func AppendHello(dst []byte, h *Hello) []byte {
	dst = binary.BigEndian.AppendUint16(dst, h.Version)
	dst = binary.BigEndian.AppendUint16(dst, h.Lowest)
	dst = append(append(dst, byte(h.Role)), h.Domain[:]...)
	dst = appendMember(appendMember(dst, h.Own), h.Expected)
	return append(dst, h.Nonce[:]...)
}

// DecodeHello decodes all of b.
func DecodeHello(b []byte) (Hello, error) {
	s := cryptobyte.String(b)
	var h Hello
	if !s.ReadUint16(&h.Version) || !s.ReadUint16(&h.Lowest) || !s.ReadUint8((*uint8)(&h.Role)) ||
		!s.CopyBytes(h.Domain[:]) || !readMember(&s, &h.Own) || !readMember(&s, &h.Expected) ||
		!s.CopyBytes(h.Nonce[:]) || !s.Empty() {
		return Hello{}, fmt.Errorf("%w of Hello, %d bytes", ErrMalformed, len(b))
	}
	return h, nil
}

// Life says what a process is doing in the domain.
type Life uint8

// The lives that a Proof shows.
const (
	LifeNone      Life = 0 // a control connection
	LifeBootstrap Life = 1 // it has the bootstrap credential, and no marker of the domain
	LifeRaft      Life = 2 // it runs Raft
	LifeJoin      Life = 3 // it joins, or asks to replace itself
)

// Proof is the body of Proof.
type Proof struct {
	MAC        [32]byte // over both Hellos, the rest of this body and the TLS exporter
	Term       uint64   // the sender's
	Life       Life
	Seat       Seat
	PeerAddr   string
	ClientAddr string
	Credential CredentialID // of LifeBootstrap
}

// AppendProof appends p's encoding. What follows the first 32 bytes is what MAC covers of it.
func AppendProof(dst []byte, p *Proof) []byte {
	dst = append(dst, p.MAC[:]...)
	dst = binary.BigEndian.AppendUint64(dst, p.Term)
	dst = append(dst, byte(p.Life), byte(p.Seat))
	dst = append8(append8(dst, p.PeerAddr), p.ClientAddr)
	return append(dst, p.Credential[:]...)
}

// DecodeProof decodes all of b.
func DecodeProof(b []byte) (Proof, error) {
	s := cryptobyte.String(b)
	var p Proof
	if !s.CopyBytes(p.MAC[:]) || !s.ReadUint64(&p.Term) || !s.ReadUint8((*uint8)(&p.Life)) || !s.ReadUint8((*uint8)(&p.Seat)) ||
		!read8(&s, &p.PeerAddr) || !read8(&s, &p.ClientAddr) || !s.CopyBytes(p.Credential[:]) || !s.Empty() {
		return Proof{}, fmt.Errorf("%w of Proof, %d bytes", ErrMalformed, len(b))
	}
	return p, nil
}

// Refuse is the body of Refuse.
type Refuse struct {
	Reason Refusal
	// Voter is, for RefuseRetired, the present voter of the sender's seat; zero if unknown.
	Voter Member
	// Version and Lowest are those of the sender of the Refuse.
	Version, Lowest uint16
}

// AppendRefuse appends r's encoding: 25 bytes.
func AppendRefuse(dst []byte, r *Refuse) []byte {
	dst = appendMember(append(dst, byte(r.Reason)), r.Voter)
	dst = binary.BigEndian.AppendUint16(dst, r.Version)
	return binary.BigEndian.AppendUint16(dst, r.Lowest)
}

// DecodeRefuse decodes all of b.
func DecodeRefuse(b []byte) (Refuse, error) {
	s := cryptobyte.String(b)
	var r Refuse
	if !s.ReadUint8((*uint8)(&r.Reason)) || !readMember(&s, &r.Voter) || !s.ReadUint16(&r.Version) ||
		!s.ReadUint16(&r.Lowest) || !s.Empty() {
		return Refuse{}, fmt.Errorf("%w of Refuse, %d bytes", ErrMalformed, len(b))
	}
	return r, nil
}

// RequestOp says what a Control frame asks for.
type RequestOp uint8

// The requests.
const (
	RequestStatus   RequestOp = 1
	RequestCanStop  RequestOp = 2 // Seat
	RequestTransfer RequestOp = 3 // Seat; 0: whoever is most up to date
	RequestPrepare  RequestOp = 4 // Seat, PeerAddr, ValidMillis
	RequestAbort    RequestOp = 5
	RequestAdmit    RequestOp = 6 // Seat, Newcomer, PeerAddr, ClientAddr, Credential
	RequestRejoin   RequestOp = 7 // Seat, Newcomer, PeerAddr, ClientAddr, Marker
)

// Request is the body of Control. Every field is always there; the comments at the operations say which count.
type Request struct {
	Op          RequestOp
	Seat        Seat
	Newcomer    Member
	ValidMillis int64
	PeerAddr    string
	ClientAddr  string
	Credential  string   // the join credential, tkj1...
	Marker      []Member // of the requester, newest last
}

// AppendRequest appends r's encoding.
func AppendRequest(dst []byte, r *Request) []byte {
	dst = appendMember(append(dst, byte(r.Op), byte(r.Seat)), r.Newcomer)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.ValidMillis))
	dst = append8(append8(dst, r.PeerAddr), r.ClientAddr)
	dst = append24(dst, []byte(r.Credential))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.Marker)))
	for _, m := range r.Marker {
		dst = appendMember(dst, m)
	}
	return dst
}

// DecodeRequest decodes all of b.
func DecodeRequest(b []byte) (*Request, error) {
	s, r := cryptobyte.String(b), new(Request)
	var credential []byte
	var count uint16
	ok := s.ReadUint8((*uint8)(&r.Op)) && s.ReadUint8((*uint8)(&r.Seat)) && readMember(&s, &r.Newcomer) &&
		readInt64(&s, &r.ValidMillis) && read8(&s, &r.PeerAddr) && read8(&s, &r.ClientAddr) &&
		read24(&s, &credential) && s.ReadUint16(&count)
	r.Credential = string(credential)
	for i := 0; ok && i < int(count); i++ {
		var m Member
		ok = readMember(&s, &m)
		r.Marker = append(r.Marker, m)
	}
	if !ok || !s.Empty() {
		return nil, fmt.Errorf("%w of Control, %d bytes", ErrMalformed, len(b))
	}
	return r, nil
}

// ReplyStatus says how a request ended.
type ReplyStatus uint8

// The ends of a request.
const (
	ReplyDone        ReplyStatus = 1 // Outcome and Text
	ReplyRejected    ReplyStatus = 2 // Outcome.Reason, Text
	ReplyNotLeader   ReplyStatus = 3 // Leader, LeaderAddr: ask there; zero if nobody is known
	ReplyBusy        ReplyStatus = 4 // ask again
	ReplyUnknownFate ReplyStatus = 5 // the entry's fate is unknown: ask for the status
)

// Reply is the body of ControlReply. Every field is always there.
type Reply struct {
	Status     ReplyStatus
	Outcome    Outcome
	Leader     Member
	LeaderAddr string // peer address
	Text       string // words for people, or the data asked for (a credential, JSON)
}

// AppendReply appends r's encoding.
func AppendReply(dst []byte, r *Reply) []byte {
	o := &r.Outcome
	dst = append(dst, byte(r.Status), byte(o.Result), byte(o.Reason), byte(o.Seat))
	dst = appendMember(appendMember(dst, o.Member), o.Retired)
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.ExpiresMillis))
	dst = appendMember(append8(dst, o.PeerAddr), r.Leader)
	return append24(append8(dst, r.LeaderAddr), []byte(r.Text))
}

// DecodeReply decodes all of b.
func DecodeReply(b []byte) (*Reply, error) {
	s, r := cryptobyte.String(b), new(Reply)
	var text []byte
	o := &r.Outcome
	if !s.ReadUint8((*uint8)(&r.Status)) || !s.ReadUint8((*uint8)(&o.Result)) || !s.ReadUint8((*uint8)(&o.Reason)) ||
		!s.ReadUint8((*uint8)(&o.Seat)) || !readMember(&s, &o.Member) || !readMember(&s, &o.Retired) ||
		!readInt64(&s, &o.ExpiresMillis) || !read8(&s, &o.PeerAddr) || !readMember(&s, &r.Leader) ||
		!read8(&s, &r.LeaderAddr) || !read24(&s, &text) || !s.Empty() {
		return nil, fmt.Errorf("%w of ControlReply, %d bytes", ErrMalformed, len(b))
	}
	r.Text = string(text)
	return r, nil
}
