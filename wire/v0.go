package wire

import (
	"bytes"
	"encoding/binary"
)

// OpKeepAlive is a lone newline, either way. Version 0 only.
const OpKeepAlive Op = '\n'

// LegacyDigestSize is the size of a v0 client's digest without its newline, in bytes.
const LegacyDigestSize = 43

// Reasons of a v0 E line that are no Failure's name.
const (
	LegacyNotActive = "not_active" // this server cannot serve now: try another
	LegacyNoLeader  = "no_leader"
)

// ParseLegacyDigest reads the line at the start of b with which a v0 client answers the greeting. It returns the
// digest, which aliases b, and the line's length n; n = 0 without an error: the line is not whole yet.
// A line of another length is AuthFailed, which is returned as soon as the line is too long.
func ParseLegacyDigest(b []byte) (digest []byte, n int, err error) {
	end := bytes.IndexByte(b[:min(len(b), LegacyDigestSize+1)], '\n')
	switch {
	case end == LegacyDigestSize:
		return b[:end:end], end + 1, nil
	case end < 0 && len(b) <= LegacyDigestSize:
		return nil, 0, nil
	}
	return nil, 0, AuthFailed
}

// LegacyRequest is a v0 frame from client to server.
type LegacyRequest struct {
	Op           Op     // OpAcquire, OpRelease or OpKeepAlive
	WaitSeconds  uint16 // acquire; 0: as long as it takes
	LeaseSeconds uint16 // acquire
	Key          []byte // acquire, release: 0..MaxLegacyKey bytes; aliases the buffer that it was decoded from
}

// DecodeLegacyRequest reads the frame at the start of b into r and returns its length, as DecodeRequest does.
// Neither the key nor the lease is checked.
func DecodeLegacyRequest(b []byte, r *LegacyRequest) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	*r = LegacyRequest{Op: Op(b[0])}
	fixed := 1
	switch r.Op {
	case OpKeepAlive:
		return 1, nil
	case OpRelease:
	case OpAcquire:
		fixed = 5
		if len(b) < fixed {
			return 0, nil
		}
		r.WaitSeconds = binary.BigEndian.Uint16(b[1:3])
		r.LeaseSeconds = binary.BigEndian.Uint16(b[3:5])
	default:
		return 0, Malformed
	}
	r.Key, n, err = cutLine(b, fixed, MaxLegacyKey)
	return n, err
}

// cutLine returns what is between offset from and the next newline, at most limit bytes, and the offset behind the newline.
func cutLine(b []byte, from, limit int) (text []byte, n int, err error) {
	size := bytes.IndexByte(b[from:min(len(b), from+limit+1)], '\n')
	if size >= 0 {
		return b[from : from+size : from+size], from + size + 1, nil
	}
	if len(b)-from > limit {
		return nil, 0, Malformed
	}
	return nil, 0, nil
}

// AppendLegacyRequest appends r to dst. Nothing is appended for an op that is no v0 request, or for a key that
// the line cannot carry (over MaxLegacyKey bytes, or with a newline): callers check with ValidKey.
func AppendLegacyRequest(dst []byte, r *LegacyRequest) []byte {
	if len(r.Key) > MaxLegacyKey || bytes.IndexByte(r.Key, '\n') >= 0 {
		return dst
	}
	switch r.Op {
	case OpKeepAlive:
		return append(dst, '\n')
	case OpRelease:
		dst = append(dst, byte(r.Op))
	case OpAcquire:
		dst = append(dst, byte(r.Op))
		dst = binary.BigEndian.AppendUint16(dst, r.WaitSeconds)
		dst = binary.BigEndian.AppendUint16(dst, r.LeaseSeconds)
	default:
		return dst
	}
	return append(append(dst, r.Key...), '\n')
}

// LegacyReply is a v0 frame from server to client.
type LegacyReply struct {
	Op    Op     // OpGranted, OpTimeout, OpReleased, OpNotHeld, OpMoved, OpError or OpKeepAlive
	Token uint64 // A
	Text  []byte // A, T, R, N: the key; M: the leader's address; E: the reason; aliases the buffer
}

// DecodeLegacyReply reads the frame at the start of b into r and returns its length, as DecodeRequest does.
func DecodeLegacyReply(b []byte, r *LegacyReply) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	*r = LegacyReply{Op: Op(b[0])}
	fixed, limit := 1, MaxLegacyKey
	switch r.Op {
	case OpKeepAlive:
		return 1, nil
	case OpGranted:
		fixed = 9
		if len(b) < fixed {
			return 0, nil
		}
		r.Token = binary.BigEndian.Uint64(b[1:9])
	case OpTimeout, OpReleased, OpNotHeld:
	case OpMoved, OpError:
		limit = MaxText
	default:
		return 0, Malformed
	}
	r.Text, n, err = cutLine(b, fixed, limit)
	return n, err
}

// AppendLegacyReply appends r to dst. r.Text holds no newline: it came out of a v0 request, an address or a reason.
func AppendLegacyReply(dst []byte, r *LegacyReply) []byte {
	if r.Op == OpKeepAlive {
		return append(dst, '\n')
	}
	dst = append(dst, byte(r.Op))
	if r.Op == OpGranted {
		dst = binary.BigEndian.AppendUint64(dst, r.Token)
	}
	return append(append(dst, r.Text...), '\n')
}

// AppendLegacyError appends an E line: a Failure's name, LegacyNotActive or LegacyNoLeader.
func AppendLegacyError(dst []byte, reason string) []byte {
	return append(append(append(dst, byte(OpError)), reason...), '\n')
}
