package wire

import (
	"encoding/binary"
	"strconv"

	"golang.org/x/crypto/cryptobyte"
)

// Bounds of a Control request.
const (
	MaxPeerMarker     = 1024    // pairs in a rejoining process's marker
	MaxPeerCredential = 4 << 10 // bytes of a credential's text
)

// ControlKind is what a Control frame asks for.
type ControlKind uint8

// The kinds, with the fields of ControlRequest that each uses.
const (
	ControlStatus   ControlKind = 1 // none
	ControlPrepare  ControlKind = 2 // Seat, PeerAddr, ValidMillis
	ControlAbort    ControlKind = 3 // none
	ControlTransfer ControlKind = 4 // Seat; 0: the most up-to-date voter
	ControlCanStop  ControlKind = 5 // Seat; 0: the node that is asked
	ControlAdmit    ControlKind = 6 // Self, PeerAddr, ClientAddr, Credential
	ControlRejoin   ControlKind = 7 // Seat, Self (NodeID 0), PeerAddr, ClientAddr, Marker
)

// String returns the kind's name.
func (k ControlKind) String() string {
	switch k {
	case ControlStatus:
		return "status"
	case ControlPrepare:
		return "prepare"
	case ControlAbort:
		return "abort"
	case ControlTransfer:
		return "transfer"
	case ControlCanStop:
		return "can-stop"
	case ControlAdmit:
		return "admit"
	case ControlRejoin:
		return "rejoin"
	}
	return "control_" + strconv.Itoa(int(k))
}

// AllowedIn reports whether requests of the kind may come over a connection of the role: a joining process may ask for the
// status too, to see whether a cluster is there.
func (k ControlKind) AllowedIn(role PeerRole) bool {
	switch k {
	case ControlStatus:
		return role == PeerRoleControl || role == PeerRoleJoin
	case ControlAdmit, ControlRejoin:
		return role == PeerRoleJoin
	}
	return role == PeerRoleControl
}

// ControlRequest is the body of Control: a request of an operator's command or of a joining process.
type ControlRequest struct {
	Kind        ControlKind
	Seat        uint8
	ValidMillis uint64   // how long the join credential to be issued holds
	Self        PeerPair // the newcomer
	PeerAddr    string   // host:port, at most MaxText bytes
	ClientAddr  string   // host:port, at most MaxText bytes
	Credential  string   // the text of the join credential
	Marker      []PeerPair
}

// AppendControlRequest appends the body of r. What is beyond a bound is left out.
func AppendControlRequest(dst []byte, r *ControlRequest) []byte {
	dst = append(dst, byte(r.Kind))
	switch r.Kind {
	case ControlPrepare:
		dst = appendText(append(dst, r.Seat), r.PeerAddr)
		dst = binary.BigEndian.AppendUint64(dst, r.ValidMillis)
	case ControlTransfer, ControlCanStop:
		dst = append(dst, r.Seat)
	case ControlAdmit:
		dst = appendText(appendText(appendPair(dst, r.Self), r.PeerAddr), r.ClientAddr)
		dst = appendLong(dst, r.Credential[:min(len(r.Credential), MaxPeerCredential)])
	case ControlRejoin:
		dst = appendText(appendText(appendPair(append(dst, r.Seat), r.Self), r.PeerAddr), r.ClientAddr)
		marker := r.Marker[max(0, len(r.Marker)-MaxPeerMarker):]
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(marker)))
		for _, p := range marker {
			dst = appendPair(dst, p)
		}
	}
	return dst
}

// DecodeControlRequest decodes all of b. The error is PeerMalformed.
func DecodeControlRequest(b []byte) (*ControlRequest, error) {
	s, r := cryptobyte.String(b), new(ControlRequest)
	if !s.ReadUint8((*uint8)(&r.Kind)) || !readControlRequest(&s, r) || !s.Empty() {
		return nil, PeerMalformed
	}
	return r, nil
}

func readControlRequest(s *cryptobyte.String, r *ControlRequest) bool {
	switch r.Kind {
	case ControlStatus, ControlAbort:
		return true
	case ControlPrepare:
		return s.ReadUint8(&r.Seat) && readText(s, &r.PeerAddr) && s.ReadUint64(&r.ValidMillis)
	case ControlTransfer, ControlCanStop:
		return s.ReadUint8(&r.Seat)
	case ControlAdmit:
		return readPair(s, &r.Self) && readText(s, &r.PeerAddr) && readText(s, &r.ClientAddr) &&
			readLong(s, &r.Credential) && len(r.Credential) <= MaxPeerCredential
	case ControlRejoin:
		return s.ReadUint8(&r.Seat) && readPair(s, &r.Self) && readText(s, &r.PeerAddr) && readText(s, &r.ClientAddr) &&
			readMarker(s, &r.Marker)
	}
	return false
}

func readMarker(s *cryptobyte.String, marker *[]PeerPair) bool {
	var count uint16
	if !s.ReadUint16(&count) || count > MaxPeerMarker || int(count)*20 > len(*s) {
		return false
	}
	for range count {
		var p PeerPair
		if !readPair(s, &p) {
			return false
		}
		*marker = append(*marker, p)
	}
	return true
}

// ControlStatusCode says what became of a Control request.
type ControlStatusCode uint8

// The codes, with the fields of ControlReply that each uses beside Text.
const (
	ControlDone        ControlStatusCode = 1 // what the request asked for
	ControlRejected    ControlStatusCode = 2 // Reason: it had no effect
	ControlNotLeader   ControlStatusCode = 3 // Leader: ask there; empty: nobody is known to lead
	ControlUnavailable ControlStatusCode = 4 // it had no effect; the same may succeed later
	ControlUnknown     ControlStatusCode = 5 // it may or may not take effect: look at the status
)

// ControlReply is the body of ControlReply.
type ControlReply struct {
	Code          ControlStatusCode
	Reason        uint8  // raft.Reason, or 0
	Leader        string // peer address of the leader, at most MaxText bytes
	Text          string // for people, at most 64 KiB
	Domain        [16]byte
	Seat          uint8
	Member        PeerPair // prepare: its NodeID; admit, rejoin: the newcomer's pair
	PeerAddr      string   // that the newcomer is bound to
	ExpiresMillis int64    // end of the join credential, Unix milliseconds
	Data          []byte   // status: JSON; aliases the buffer that it was decoded from
}

// AppendControlReply appends the body of r.
func AppendControlReply(dst []byte, r *ControlReply) []byte {
	dst = append(dst, byte(r.Code), r.Reason)
	dst = appendLong(appendText(dst, r.Leader), r.Text)
	dst = append(append(dst, r.Domain[:]...), r.Seat)
	dst = appendText(appendPair(dst, r.Member), r.PeerAddr)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.ExpiresMillis))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.Data)))
	return append(dst, r.Data...)
}

// DecodeControlReply decodes all of b. The error is PeerMalformed.
func DecodeControlReply(b []byte) (*ControlReply, error) {
	s, r := cryptobyte.String(b), new(ControlReply)
	var expires uint64
	var size uint32
	if !s.ReadUint8((*uint8)(&r.Code)) || !s.ReadUint8(&r.Reason) || !readText(&s, &r.Leader) || !readLong(&s, &r.Text) ||
		!s.CopyBytes(r.Domain[:]) || !s.ReadUint8(&r.Seat) || !readPair(&s, &r.Member) || !readText(&s, &r.PeerAddr) ||
		!s.ReadUint64(&expires) || !s.ReadUint32(&size) || uint64(size) != uint64(len(s)) {
		return nil, PeerMalformed
	}
	if r.Code < ControlDone || r.Code > ControlUnknown {
		return nil, PeerMalformed
	}
	r.ExpiresMillis, r.Data = int64(expires), s
	return r, nil
}

// appendLong appends text, cut to 65,535 bytes, behind its length in two bytes.
func appendLong(dst []byte, text string) []byte {
	text = text[:min(len(text), 1<<16-1)]
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(text))), text...)
}

func readLong(s *cryptobyte.String, text *string) bool {
	var b cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&b) {
		return false
	}
	*text = string(b)
	return true
}
