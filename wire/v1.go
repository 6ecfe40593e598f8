package wire

import (
	"encoding/binary"
	"slices"
)

// Op is the first byte of a frame. Requests and replies are told apart by direction, not by value.
type Op byte

// Requests.
const (
	OpAcquire Op = 'A'
	OpRelease Op = 'R' // with token 0: a withdrawal
	OpPing    Op = 'P'
)

// Replies.
const (
	OpGranted  Op = 'A'
	OpTimeout  Op = 'T'
	OpReleased Op = 'R'
	OpNotHeld  Op = 'N'
	OpBusy     Op = 'B'
	OpError    Op = 'E'
	OpMoved    Op = 'M'
	OpPong     Op = 'P'
)

// String returns the letter that stands for o in the protocol.
func (o Op) String() string { return string(rune(o)) }

// HeaderSize is the size of a v1 frame without its key or text, in bytes.
const HeaderSize = 24

// Request is a v1 frame from client to server. A field that the op does not have is 0.
type Request struct {
	Op    Op
	Wait  uint32 // acquire: ms
	Lease uint32 // acquire: ms
	Owner uint64 // acquire, release: the acquire's; ping: any
	Token uint64 // release: the granted one; 0 withdraws
	Key   []byte // acquire, release; aliases the buffer that it was decoded from
}

// DecodeRequest reads the frame at the start of b into r and returns its length.
//
//	n > 0             r is the frame, and r.Key aliases b
//	n = 0, err = nil  b ends before the frame does
//	err = Malformed   the stream cannot be trusted any more
//
// A malformed header is reported as soon as the header is whole. r is undefined unless n > 0.
// Ranges are not checked: see CheckAcquire and CheckRelease.
func DecodeRequest(b []byte, r *Request) (n int, err error) {
	if len(b) < HeaderSize {
		return 0, nil
	}
	h := (*[HeaderSize]byte)(b)
	head := binary.BigEndian.Uint64(h[0:8])
	tail := binary.BigEndian.Uint64(h[16:24])
	r.Op = Op(h[0])
	r.Owner = binary.BigEndian.Uint64(h[8:16])
	switch r.Op {
	case OpAcquire:
		if h[1]-1 >= MaxKey || head&0x0000_ffff_0000_0000 != 0 || uint32(tail) != 0 {
			return 0, Malformed
		}
		r.Wait, r.Lease, r.Token = uint32(head), uint32(tail>>32), 0
	case OpRelease:
		if h[1]-1 >= MaxKey || head&0x0000_ffff_ffff_ffff != 0 {
			return 0, Malformed
		}
		r.Wait, r.Lease, r.Token = 0, 0, tail
	case OpPing:
		if head&0x00ff_ffff_ffff_ffff != 0 || tail != 0 {
			return 0, Malformed
		}
		r.Wait, r.Lease, r.Token = 0, 0, 0
	default:
		return 0, Malformed
	}
	n = HeaderSize + int(h[1])
	if n > len(b) {
		return 0, nil
	}
	r.Key = b[HeaderSize:n:n]
	return n, nil
}

// AppendRequest appends r to dst. The fields that r.Op does not have are written as 0.
// Nothing is appended for an op that is no request, or a key length outside 1..MaxKey (ping: its key is ignored):
// callers check with CheckAcquire or CheckRelease first.
func AppendRequest(dst []byte, r *Request) []byte {
	key := r.Key
	var head, tail uint64
	switch r.Op {
	case OpAcquire:
		head, tail = uint64(r.Wait), uint64(r.Lease)<<32
	case OpRelease:
		tail = r.Token
	case OpPing:
		return appendFrame(dst, uint64(OpPing)<<56, r.Owner, 0, nil)
	default:
		return dst
	}
	if uint(len(key)-1) >= MaxKey {
		return dst
	}
	return appendFrame(dst, head|uint64(r.Op)<<56|uint64(len(key))<<48, r.Owner, tail, key)
}

// appendFrame appends a header of three words and what follows it. It grows dst once: this is a client's hot path.
func appendFrame(dst []byte, head, owner, tail uint64, text []byte) []byte {
	n := len(dst)
	dst = slices.Grow(dst, HeaderSize+len(text))[:n+HeaderSize+len(text)]
	h := dst[n:]
	binary.BigEndian.PutUint64(h[0:8], head)
	binary.BigEndian.PutUint64(h[8:16], owner)
	binary.BigEndian.PutUint64(h[16:24], tail)
	copy(h[HeaderSize:], text)
	return dst
}

// Reply is a v1 frame from server to client. A field that the op does not have is 0.
type Reply struct {
	Op     Op
	Code   uint16 // B: a Busy; E: a Failure
	Millis uint32 // A: ms waited, rounded down; B: ms after which a retry makes sense, or 0
	Owner  uint64 // of the request that is answered; 0 for M and for an E that answers none
	Token  uint64 // A, R, N: the lock's; M: the Raft term
	Text   []byte // M: the leader's address; E: the reason; at most MaxText bytes; aliases the buffer
}

// DecodeReply reads the frame at the start of b into r and returns its length, as DecodeRequest does.
// Codes that this version does not know are not malformed.
func DecodeReply(b []byte, r *Reply) (n int, err error) {
	if len(b) < HeaderSize {
		return 0, nil
	}
	h := (*[HeaderSize]byte)(b)
	r.Op = Op(h[0])
	r.Code = binary.BigEndian.Uint16(h[2:4])
	r.Millis = binary.BigEndian.Uint32(h[4:8])
	r.Owner = binary.BigEndian.Uint64(h[8:16])
	r.Token = binary.BigEndian.Uint64(h[16:24])
	ok := false
	switch r.Op {
	case OpGranted:
		ok = h[1] == 0 && r.Code == 0
	case OpReleased, OpNotHeld:
		ok = h[1] == 0 && r.Code == 0 && r.Millis == 0
	case OpTimeout, OpPong:
		ok = h[1] == 0 && r.Code == 0 && r.Millis == 0 && r.Token == 0
	case OpBusy:
		ok = h[1] == 0 && r.Token == 0
	case OpError:
		ok = r.Millis == 0 && r.Token == 0
	case OpMoved:
		ok = r.Code == 0 && r.Millis == 0 && r.Owner == 0
	}
	if !ok {
		return 0, Malformed
	}
	n = HeaderSize + int(h[1])
	if n > len(b) {
		return 0, nil
	}
	r.Text = b[HeaderSize:n:n]
	return n, nil
}

// AppendReply appends r to dst. Text beyond MaxText bytes is cut off; for ops other than M and E it is left out.
func AppendReply(dst []byte, r *Reply) []byte {
	var text []byte
	if r.Op == OpMoved || r.Op == OpError {
		text = r.Text[:min(len(r.Text), MaxText)]
	}
	head := uint64(r.Op)<<56 | uint64(len(text))<<48 | uint64(r.Code)<<32 | uint64(r.Millis)
	return appendFrame(dst, head, r.Owner, r.Token, text)
}

// PutReplyHeader writes a reply without text into dst.
func PutReplyHeader(dst *[HeaderSize]byte, op Op, code uint16, millis uint32, owner, token uint64) {
	binary.BigEndian.PutUint64(dst[0:8], uint64(op)<<56|uint64(code)<<32|uint64(millis))
	binary.BigEndian.PutUint64(dst[8:16], owner)
	binary.BigEndian.PutUint64(dst[16:24], token)
}
