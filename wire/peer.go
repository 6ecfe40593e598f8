package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// Sizes of the frames between nodes, in bytes.
const (
	PeerHeaderSize         = 16
	MaxPeerBody            = 1 << 20
	MaxPeerBodyBeforeProof = 1 << 10 // as long as the other side has not proved the cluster secret
)

// PeerType is the type of a frame between nodes.
type PeerType uint8

// The types. The bodies of 10 to 21 are package raft's.
const (
	PeerTypeHello                PeerType = 1
	PeerTypeHelloReply           PeerType = 2
	PeerTypeProof                PeerType = 3
	PeerTypeRefuse               PeerType = 4
	PeerTypePreVote              PeerType = 10
	PeerTypePreVoteReply         PeerType = 11
	PeerTypeRequestVote          PeerType = 12
	PeerTypeRequestVoteReply     PeerType = 13
	PeerTypeAppendEntries        PeerType = 14
	PeerTypeAppendEntriesReply   PeerType = 15
	PeerTypeInstallSnapshot      PeerType = 16
	PeerTypeInstallSnapshotReply PeerType = 17
	PeerTypeTimeoutNow           PeerType = 18
	PeerTypeInitialConfig        PeerType = 20
	PeerTypeAccepted             PeerType = 21
	PeerTypeControl              PeerType = 30
	PeerTypeControlReply         PeerType = 31
)

// IsRaftReply reports whether t is a message of Raft that answers another.
func (t PeerType) IsRaftReply() bool {
	return t == PeerTypePreVoteReply || t == PeerTypeRequestVoteReply || t == PeerTypeAppendEntriesReply || t == PeerTypeInstallSnapshotReply
}

// IsRaft reports whether t is a message of Raft, which needs a connection bound to two known pairs.
func (t PeerType) IsRaft() bool { return PeerTypePreVote <= t && t <= PeerTypeTimeoutNow }

// IsControl reports whether frames of t have a request id.
func (t PeerType) IsControl() bool { return t == PeerTypeControl || t == PeerTypeControlReply }

func (t PeerType) known() bool {
	return PeerTypeHello <= t && t <= PeerTypeRefuse || t.IsRaft() || t == PeerTypeInitialConfig || t == PeerTypeAccepted || t.IsControl()
}

// PeerFault says what is wrong with a frame between nodes. It is an error value: the connection cannot be trusted any more.
type PeerFault uint8

// The faults.
const (
	PeerTooLong     PeerFault = 1 // a body longer than is allowed at this point
	PeerUnknownType PeerFault = 2
	PeerReserved    PeerFault = 3 // flags, reserved bytes or the request id are not 0 where they must be
	PeerChecksum    PeerFault = 4
	PeerMalformed   PeerFault = 5 // a body that does not decode to its last byte
)

// Error returns the fault in words.
func (f PeerFault) Error() string {
	switch f {
	case PeerTooLong:
		return "peer frame: the body is too long"
	case PeerUnknownType:
		return "peer frame: unknown type"
	case PeerReserved:
		return "peer frame: reserved bytes are not 0"
	case PeerChecksum:
		return "peer frame: the checksum does not match"
	case PeerMalformed:
		return "peer frame: malformed body"
	}
	return "peer frame: unknown fault"
}

// PeerHeader is the head of a frame between nodes.
type PeerHeader struct {
	Length    int // of the body, in bytes
	Type      PeerType
	Checksum  uint32 // CRC-32C of the body
	RequestID uint32 // of PeerTypeControl and its reply, else 0
}

// peerChecksums is the table of CRC-32C (RFC 3720, appendix B.4).
var peerChecksums = crc32.MakeTable(crc32.Castagnoli)

// DecodePeerHeader reads the header at the start of b into h and returns its size; 0 without an error: it is not whole yet.
// A body longer than maxBody bytes is a fault. The error is a PeerFault.
func DecodePeerHeader(b []byte, maxBody int, h *PeerHeader) (n int, err error) {
	if len(b) < PeerHeaderSize {
		return 0, nil
	}
	length := binary.BigEndian.Uint32(b)
	h.Type = PeerType(b[4])
	h.Checksum = binary.BigEndian.Uint32(b[8:])
	h.RequestID = binary.BigEndian.Uint32(b[12:])
	switch {
	case uint64(length) > uint64(maxBody):
		return 0, PeerTooLong
	case !h.Type.known():
		return 0, PeerUnknownType
	case b[5]|b[6]|b[7] != 0 || h.RequestID != 0 && !h.Type.IsControl():
		return 0, PeerReserved
	}
	h.Length = int(length)
	return PeerHeaderSize, nil
}

// CheckPeerBody returns PeerChecksum if body, of h.Length bytes, is not the one that the header was made for.
func CheckPeerBody(h *PeerHeader, body []byte) error {
	if crc32.Checksum(body, peerChecksums) != h.Checksum {
		return PeerChecksum
	}
	return nil
}

// PeerFrame is a frame between nodes.
type PeerFrame struct {
	Type      PeerType
	RequestID uint32
	Body      []byte // aliases the buffer
}

// DecodePeerFrame reads the frame at the start of b into f and returns its size, as DecodePeerHeader does; its body is
// checked against the header.
func DecodePeerFrame(b []byte, maxBody int, f *PeerFrame) (n int, err error) {
	var h PeerHeader
	n, err = DecodePeerHeader(b, maxBody, &h)
	if n == 0 || h.Length > len(b)-n {
		return 0, err
	}
	end := n + h.Length
	body := b[n:end:end]
	if err := CheckPeerBody(&h, body); err != nil {
		return 0, err
	}
	*f = PeerFrame{Type: h.Type, RequestID: h.RequestID, Body: body}
	return end, nil
}

// BeginPeerFrame appends a header without length and checksum. The caller appends the body to the returned buffer and then
// calls FinishPeerFrame with it and start.
func BeginPeerFrame(dst []byte, t PeerType, requestID uint32) (buf []byte, start int) {
	start = len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(t), 0, 0, 0, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(dst, requestID), start
}

// FinishPeerFrame fills in the header of the frame that begins at start and goes to the end of buf. If the body is longer
// than MaxPeerBody, the frame is removed from buf and ok is false.
func FinishPeerFrame(buf []byte, start int) (frame []byte, ok bool) {
	body := buf[start+PeerHeaderSize:]
	if len(body) > MaxPeerBody {
		return buf[:start], false
	}
	binary.BigEndian.PutUint32(buf[start:], uint32(len(body)))
	binary.BigEndian.PutUint32(buf[start+8:], crc32.Checksum(body, peerChecksums))
	return buf, true
}
