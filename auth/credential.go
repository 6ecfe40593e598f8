package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/cryptobyte"
)

// The prefixes of the credentials' texts.
const (
	BootstrapPrefix = "tkb1."
	JoinPrefix      = "tkj1."
)

// MaxCredentialAddr is the longest address in a credential, in bytes.
const MaxCredentialAddr = 255

var (
	// ErrCredentialForm says that a text is no credential of the kind: it was cut, altered or mistaken for another.
	ErrCredentialForm = errors.New("malformed credential")
	// ErrCredentialSecret says that a credential was made with none of the cluster secrets given, or altered.
	ErrCredentialSecret = errors.New("credential made with another cluster secret, or altered")
)

// CredentialID identifies a credential: the first 16 bytes of its MAC.
type CredentialID [16]byte

// CredentialSeat is a seat of a bootstrap credential.
type CredentialSeat struct {
	Seat     uint8  // 1..n
	PeerAddr string // host:port, 1 to MaxCredentialAddr bytes
}

// BootstrapCredential lets the first nodes of a domain find each other.
type BootstrapCredential struct {
	Domain          [16]byte
	Seats           []CredentialSeat // 3 or 5: seat i+1 at index i
	TokenBase       uint64           // tokens are above it
	NotBeforeMillis int64            // Unix milliseconds
	NotAfterMillis  int64            // Unix milliseconds: from then on it counts as not given
	AfterLoss       bool             // leases of a lost domain may still run
}

// JoinCredential lets one process become the replacement in a seat.
type JoinCredential struct {
	Domain         [16]byte
	Seat           uint8
	NodeID         uint32
	PeerAddr       string // host:port, 1 to MaxCredentialAddr bytes
	NotAfterMillis int64  // Unix milliseconds: from then on it counts as not given
}

// Expired reports whether c counts as not given any more at nowMillis, Unix milliseconds.
func (c *BootstrapCredential) Expired(nowMillis int64) bool { return nowMillis >= c.NotAfterMillis }

// Early reports whether c is not valid yet at nowMillis, Unix milliseconds.
func (c *BootstrapCredential) Early(nowMillis int64) bool { return nowMillis < c.NotBeforeMillis }

// Expired reports whether c counts as not given any more at nowMillis, Unix milliseconds.
func (c *JoinCredential) Expired(nowMillis int64) bool { return nowMillis >= c.NotAfterMillis }

// Mint returns c as text, made with the first of the secrets. The error is ErrCredentialForm: a field is out of range.
func (c *BootstrapCredential) Mint(s *ClusterSecrets) (string, error) {
	if problem := c.problem(); problem != "" {
		return "", fmt.Errorf("%w: %s", ErrCredentialForm, problem)
	}
	b := append([]byte(nil), c.Domain[:]...)
	b = append(b, byte(len(c.Seats)))
	for _, seat := range c.Seats {
		b = append(append(append(b, seat.Seat), byte(len(seat.PeerAddr))), seat.PeerAddr...)
	}
	b = binary.BigEndian.AppendUint64(b, c.TokenBase)
	b = binary.BigEndian.AppendUint64(b, uint64(c.NotBeforeMillis))
	b = binary.BigEndian.AppendUint64(b, uint64(c.NotAfterMillis))
	if c.AfterLoss {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return s.seal(BootstrapPrefix, bootstrapCredentialKey, b), nil
}

// ParseBootstrap returns the credential in text and its id. Whether it has expired is the caller's to judge. The error is
// ErrCredentialForm or ErrCredentialSecret, and never shows the text.
func ParseBootstrap(s *ClusterSecrets, text string) (*BootstrapCredential, CredentialID, error) {
	payload, id, err := s.unseal(BootstrapPrefix, bootstrapCredentialKey, text)
	if err != nil {
		return nil, id, fmt.Errorf("bootstrap credential: %w; copy what `ticketing cluster init` printed, with the cluster secret that it ran with", err)
	}
	c := new(BootstrapCredential)
	if !c.read(payload) || c.problem() != "" {
		return nil, id, fmt.Errorf("bootstrap credential: %w; make a new one with `ticketing cluster init` of this version", ErrCredentialForm)
	}
	return c, id, nil
}

// problem says what is out of range, "" if nothing is.
func (c *BootstrapCredential) problem() string {
	if len(c.Seats) != 3 && len(c.Seats) != 5 {
		return fmt.Sprintf("%d seats; a cluster has 3 or 5", len(c.Seats))
	}
	for i, seat := range c.Seats {
		if int(seat.Seat) != i+1 {
			return fmt.Sprintf("seat %d in place %d; seats are numbered from 1, in order", seat.Seat, i+1)
		}
		if n := len(seat.PeerAddr); n == 0 || n > MaxCredentialAddr {
			return fmt.Sprintf("the peer address of seat %d has %d bytes; 1 to %d are allowed", seat.Seat, n, MaxCredentialAddr)
		}
		for _, other := range c.Seats[:i] {
			if other.PeerAddr == seat.PeerAddr {
				return fmt.Sprintf("seats %d and %d have one peer address", other.Seat, seat.Seat)
			}
		}
	}
	if c.NotAfterMillis <= c.NotBeforeMillis {
		return "it ends before it begins"
	}
	return ""
}

func (c *BootstrapCredential) read(payload []byte) bool {
	s := cryptobyte.String(payload)
	var count, afterLoss uint8
	var notBefore, notAfter uint64
	if !s.CopyBytes(c.Domain[:]) || !s.ReadUint8(&count) {
		return false
	}
	for range count {
		var seat CredentialSeat
		if !s.ReadUint8(&seat.Seat) || !readAddr(&s, &seat.PeerAddr) {
			return false
		}
		c.Seats = append(c.Seats, seat)
	}
	if !s.ReadUint64(&c.TokenBase) || !s.ReadUint64(&notBefore) || !s.ReadUint64(&notAfter) || !s.ReadUint8(&afterLoss) {
		return false
	}
	c.NotBeforeMillis, c.NotAfterMillis, c.AfterLoss = int64(notBefore), int64(notAfter), afterLoss == 1
	return s.Empty() && afterLoss <= 1
}

// Mint returns c as text, made with the first of the secrets. The error is ErrCredentialForm: a field is out of range.
func (c *JoinCredential) Mint(s *ClusterSecrets) (string, error) {
	if problem := c.problem(); problem != "" {
		return "", fmt.Errorf("%w: %s", ErrCredentialForm, problem)
	}
	b := append([]byte(nil), c.Domain[:]...)
	b = binary.BigEndian.AppendUint32(append(b, c.Seat), c.NodeID)
	b = append(append(b, byte(len(c.PeerAddr))), c.PeerAddr...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.NotAfterMillis))
	return s.seal(JoinPrefix, joinCredentialKey, b), nil
}

// ParseJoin returns the credential in text and its id, as ParseBootstrap does.
func ParseJoin(s *ClusterSecrets, text string) (*JoinCredential, CredentialID, error) {
	payload, id, err := s.unseal(JoinPrefix, joinCredentialKey, text)
	if err != nil {
		return nil, id, fmt.Errorf("join credential: %w; copy what `ticketing cluster replace` printed, with the cluster secret that it ran with", err)
	}
	c := new(JoinCredential)
	if !c.read(payload) || c.problem() != "" {
		return nil, id, fmt.Errorf("join credential: %w; make a new one with `ticketing cluster replace` of this version", ErrCredentialForm)
	}
	return c, id, nil
}

func (c *JoinCredential) problem() string {
	switch n := len(c.PeerAddr); {
	case c.Seat == 0 || c.Seat > 5:
		return fmt.Sprintf("seat %d; seats are 1 to 5", c.Seat)
	case c.NodeID == 0:
		return "no NodeId"
	case n == 0 || n > MaxCredentialAddr:
		return fmt.Sprintf("the peer address has %d bytes; 1 to %d are allowed", n, MaxCredentialAddr)
	}
	return ""
}

func (c *JoinCredential) read(payload []byte) bool {
	s := cryptobyte.String(payload)
	var notAfter uint64
	ok := s.CopyBytes(c.Domain[:]) && s.ReadUint8(&c.Seat) && s.ReadUint32(&c.NodeID) && readAddr(&s, &c.PeerAddr) &&
		s.ReadUint64(&notAfter) && s.Empty()
	c.NotAfterMillis = int64(notAfter)
	return ok
}

func readAddr(s *cryptobyte.String, addr *string) bool {
	var b cryptobyte.String
	if !s.ReadUint8LengthPrefixed(&b) {
		return false
	}
	*addr = string(b)
	return true
}

// seal returns prefix, payload and MAC as text. The MAC covers the text in front of it.
func (s *ClusterSecrets) seal(prefix string, k PeerKey, payload []byte) string {
	text := prefix + base64.RawURLEncoding.EncodeToString(payload)
	mac := credentialMAC(s.sets[0][k], text)
	return text + "." + base64.RawURLEncoding.EncodeToString(mac[:])
}

// unseal returns the payload of a text that seal made under one of the secrets. Each credential has exactly one text: its id
// must not have another.
func (s *ClusterSecrets) unseal(prefix string, k PeerKey, text string) (payload []byte, id CredentialID, err error) {
	covered, macText, ok := cutLast(text, ".")
	if !ok || !strings.HasPrefix(covered, prefix) {
		return nil, id, fmt.Errorf("%w: it must begin with %s and have three parts", ErrCredentialForm, prefix)
	}
	mac, ok := decodeStrict(macText)
	if !ok || len(mac) != sha256.Size {
		return nil, id, fmt.Errorf("%w: its end is missing or altered", ErrCredentialForm)
	}
	found := false
	for i := range s.sets {
		want := credentialMAC(s.sets[i][k], covered)
		found = hmac.Equal(mac, want[:]) || found
	}
	if !found {
		return nil, id, ErrCredentialSecret
	}
	payload, ok = decodeStrict(covered[len(prefix):])
	if !ok {
		return nil, id, ErrCredentialForm
	}
	return payload, CredentialID(mac[:len(id)]), nil
}

func credentialMAC(key []byte, text string) [sha256.Size]byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return [sha256.Size]byte(h.Sum(nil))
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return "", "", false
	}
	return text[:i], text[i+len(separator):], true
}

// decodeStrict decodes unpadded base64url in its one canonical form: the decoder of the library passes over line ends.
func decodeStrict(text string) ([]byte, bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	return b, err == nil && base64.RawURLEncoding.EncodeToString(b) == text
}
