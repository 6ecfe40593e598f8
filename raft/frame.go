package raft

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// FrameType is the type byte of a frame on the peer port: a MessageKind, or one of these.
type FrameType uint8

// The frames that are no Raft message.
const (
	FrameHello         FrameType = 1
	FrameHelloReply    FrameType = 2
	FrameProof         FrameType = 3
	FrameRefuse        FrameType = 4
	FrameInitialConfig FrameType = 20
	FrameAccepted      FrameType = 21
	FrameControl       FrameType = 30
	FrameControlReply  FrameType = 31
)

// Sizes of frames, in bytes.
const (
	FrameHeaderBytes    = 16
	MaxFrameBody        = 1 << 20
	MaxFrameBodyNoProof = 1 << 10 // before the sender's Proof
)

// Known reports whether the protocol has the type.
func (t FrameType) Known() bool {
	switch t {
	case FrameHello, FrameHelloReply, FrameProof, FrameRefuse, FrameInitialConfig, FrameAccepted, FrameControl, FrameControlReply:
		return true
	}
	return t.IsRaft()
}

// IsRaft reports whether the frame carries a Message of that kind.
func (t FrameType) IsRaft() bool { return FrameType(MsgPreVote) <= t && t <= FrameType(MsgTimeoutNow) }

// FrameHeader is what precedes a body.
type FrameHeader struct {
	BodyBytes int
	Type      FrameType
	CRC       uint32 // CRC-32C of the body
	Request   uint32 // request id of a Control and its reply, else 0
}

// ReserveFrame appends room for a header. The body is appended behind it, and FinishFrame fills the header in.
func ReserveFrame(dst []byte) []byte {
	return append(dst, make([]byte, FrameHeaderBytes)...)
}

// FinishFrame fills in the header at start, for the body that reaches to the end of frame.
func FinishFrame(frame []byte, start int, t FrameType, request uint32) {
	h, body := frame[start:start+FrameHeaderBytes], frame[start+FrameHeaderBytes:]
	binary.BigEndian.PutUint32(h, uint32(len(body)))
	h[4], h[5], h[6], h[7] = byte(t), 0, 0, 0
	binary.BigEndian.PutUint32(h[8:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	binary.BigEndian.PutUint32(h[12:], request)
}

// DecodeFrameHeader decodes the first FrameHeaderBytes of b. maxBody is MaxFrameBody, or MaxFrameBodyNoProof. The error
// is ErrMalformed: the stream cannot be trusted any more.
func DecodeFrameHeader(b []byte, maxBody int) (FrameHeader, error) {
	if len(b) < FrameHeaderBytes {
		return FrameHeader{}, fmt.Errorf("%w: %d bytes of a frame's header", ErrMalformed, len(b))
	}
	h := FrameHeader{
		BodyBytes: int(binary.BigEndian.Uint32(b)),
		Type:      FrameType(b[4]),
		CRC:       binary.BigEndian.Uint32(b[8:]),
		Request:   binary.BigEndian.Uint32(b[12:]),
	}
	control := h.Type == FrameControl || h.Type == FrameControlReply
	switch {
	case h.BodyBytes > maxBody:
		return h, fmt.Errorf("%w: frame of %d bytes, allowed are %d", ErrMalformed, h.BodyBytes, maxBody)
	case !h.Type.Known():
		return h, fmt.Errorf("%w: frame of unknown type %d", ErrMalformed, h.Type)
	case b[5] != 0 || b[6] != 0 || b[7] != 0 || h.Request != 0 && !control:
		return h, fmt.Errorf("%w: frame of type %d with a reserved field set", ErrMalformed, h.Type)
	}
	return h, nil
}

// Check compares the body with the header's checksum.
func (h FrameHeader) Check(body []byte) error {
	if got := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)); got != h.CRC || len(body) != h.BodyBytes {
		return fmt.Errorf("%w: frame of type %d, checksum %08x in the header and %08x of the body", ErrMalformed, h.Type, h.CRC, got)
	}
	return nil
}
