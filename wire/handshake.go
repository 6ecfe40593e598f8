package wire

import (
	"bytes"
	"encoding/binary"
)

// Sizes of the handshake, in bytes.
const (
	NonceTextSize   = 43  // a greeting's nonce: 32 bytes in unpadded base64url
	GreetingSize    = 51  // "SHA256 ", the nonce, a newline
	maxGreetingLine = 256 // how far a client looks for the newline
	HelloSize       = 68  // without the name
	WelcomeSize     = 56  // without the leader's address
)

const greetingPrefix = "SHA256 "

// Protocol is the version that a client chose with its first byte.
type Protocol uint8

// The versions.
const (
	Unsupported Protocol = iota // neither: E unsupported_version
	V0                          // the line protocol of the published clients
	V1
)

// Version returns the protocol that a client's first byte selects.
func Version(first byte) Protocol {
	switch {
	case first == 0x01:
		return V1
	case isBase64URL(first):
		return V0
	}
	return Unsupported
}

func isBase64URL(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// AppendGreeting appends the server's first line. nonce is NonceTextSize characters of base64url.
func AppendGreeting(dst, nonce []byte) []byte {
	return append(append(append(dst, greetingPrefix...), nonce...), '\n')
}

// ParseGreeting reads the server's first line at the start of b. It returns the nonce, which aliases b, and the
// line's length n; n = 0 without an error: the line is not whole yet. A server that refuses the connection with an
// error line gives the Failure of that name; any other line is Malformed.
func ParseGreeting(b []byte) (nonce []byte, n int, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxGreetingLine)], '\n')
	if end < 0 {
		if len(b) >= maxGreetingLine {
			return nil, 0, Malformed
		}
		return nil, 0, nil
	}
	line := b[:end:end]
	if len(line) > 0 && line[0] == byte(OpError) {
		for f := Malformed; f <= TooManyConnections; f++ {
			if string(line[1:]) == f.String() {
				return nil, end + 1, f
			}
		}
		return nil, 0, Malformed
	}
	nonce, ok := bytes.CutPrefix(line, []byte(greetingPrefix))
	if !ok || len(nonce) != NonceTextSize {
		return nil, 0, Malformed
	}
	for _, c := range nonce {
		if !isBase64URL(c) {
			return nil, 0, Malformed
		}
	}
	return nonce, end + 1, nil
}

// Hello is a v1 client's answer to the greeting.
type Hello struct {
	Nonce [32]byte
	Proof [32]byte
	Name  []byte // see ValidName; aliases the buffer that it was decoded from
}

// DecodeHello reads the hello at the start of b into h and returns its length, as DecodeRequest does.
// Reserved bytes and the name's length are checked as soon as 4 bytes are there.
func DecodeHello(b []byte, h *Hello) (n int, err error) {
	if len(b) > 0 && Version(b[0]) != V1 {
		return 0, UnsupportedVersion
	}
	if len(b) < 4 {
		return 0, nil
	}
	n = HelloSize + int(b[1])
	if b[1] > MaxName || b[2]|b[3] != 0 {
		return 0, Malformed
	}
	if n > len(b) {
		return 0, nil
	}
	h.Nonce = [32]byte(b[4:36])
	h.Proof = [32]byte(b[36:68])
	h.Name = b[HelloSize:n:n]
	if !ValidName(h.Name) {
		return 0, Malformed
	}
	return n, nil
}

// AppendHello appends h to dst. A name that is not valid is left out, so that the hello is well-formed
// (its proof then fails): callers check with ValidName.
func AppendHello(dst []byte, h *Hello) []byte {
	name := h.Name
	if !ValidName(name) {
		name = nil
	}
	dst = append(dst, 0x01, byte(len(name)), 0, 0)
	dst = append(dst, h.Nonce[:]...)
	dst = append(dst, h.Proof[:]...)
	return append(dst, name...)
}

// Role is what a node says of itself in its welcome.
type Role byte

// The roles.
const (
	RoleServing   Role = 1 // standalone, or the leader
	RoleNotLeader Role = 2
)

// Welcome is the server's answer to a v1 hello.
type Welcome struct {
	Role     Role
	InFlight uint32 // acquires that this connection may have in flight
	Domain   [16]byte
	Proof    [32]byte
	Leader   []byte // host:port, at most MaxText bytes; empty when unknown or the node serves; aliases the buffer
}

// DecodeWelcome reads the welcome at the start of b into w and returns its length, as DecodeRequest does.
// A server that refuses the hello sends an E frame in its place: look at b[0] first.
func DecodeWelcome(b []byte, w *Welcome) (n int, err error) {
	if len(b) < 4 {
		return 0, nil
	}
	w.Role = Role(b[1])
	size := int(binary.BigEndian.Uint16(b[2:4]))
	if b[0] != 0x01 || w.Role != RoleServing && w.Role != RoleNotLeader || size > MaxText || size > 0 && w.Role == RoleServing {
		return 0, Malformed
	}
	n = WelcomeSize + size
	if n > len(b) {
		return 0, nil
	}
	w.InFlight = binary.BigEndian.Uint32(b[4:8])
	w.Domain = [16]byte(b[8:24])
	w.Proof = [32]byte(b[24:56])
	w.Leader = b[WelcomeSize:n:n]
	return n, nil
}

// AppendWelcome appends w to dst. A leader's address beyond MaxText bytes, or of a node that serves, is left out.
func AppendWelcome(dst []byte, w *Welcome) []byte {
	leader := w.Leader
	if w.Role == RoleServing || len(leader) > MaxText {
		leader = nil
	}
	dst = append(dst, 0x01, byte(w.Role))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(leader)))
	dst = binary.BigEndian.AppendUint32(dst, w.InFlight)
	dst = append(dst, w.Domain[:]...)
	dst = append(dst, w.Proof[:]...)
	return append(dst, leader...)
}
