package auth

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
)

// MinClusterSecret is the least size of a cluster secret, in bytes.
const MinClusterSecret = 16

// ErrClusterSecret says that a cluster secret cannot be used.
var ErrClusterSecret = errors.New("cluster secret")

// PeerKey names one of the keys that are derived from a cluster secret: one for each role of a connection and each of its
// sides, so that a proof can be neither reflected nor used in another role; and one for each kind of credential.
type PeerKey uint8

// The keys.
const (
	PeerDialerKey PeerKey = iota
	PeerAcceptorKey
	JoinDialerKey
	JoinAcceptorKey
	ControlDialerKey
	ControlAcceptorKey
	bootstrapCredentialKey
	joinCredentialKey
	peerKeys // how many there are
)

// label is the info of the key's derivation (HKDF-SHA256 without salt, RFC 5869).
func (k PeerKey) label() string {
	switch k {
	case PeerDialerKey:
		return "ticketing v1 peer dialer"
	case PeerAcceptorKey:
		return "ticketing v1 peer acceptor"
	case JoinDialerKey:
		return "ticketing v1 join dialer"
	case JoinAcceptorKey:
		return "ticketing v1 join acceptor"
	case ControlDialerKey:
		return "ticketing v1 control dialer"
	case ControlAcceptorKey:
		return "ticketing v1 control acceptor"
	case bootstrapCredentialKey:
		return "ticketing v1 bootstrap credential"
	}
	return "ticketing v1 join credential"
}

// ClusterSecrets is the set of cluster secrets of a node: the first makes proofs and credentials, all verify them. It is
// immutable and safe for concurrent use.
type ClusterSecrets struct {
	sets []keySet // one for each secret
}

type keySet [peerKeys][]byte

// NewClusterSecrets derives the keys of each secret. The error is ErrClusterSecret: there is none, or one is shorter than
// MinClusterSecret.
func NewClusterSecrets(list ...[]byte) (*ClusterSecrets, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: none is given; set TICKETING_CLUSTER_SECRET", ErrClusterSecret)
	}
	s := new(ClusterSecrets)
	for i, secret := range list {
		if len(secret) < MinClusterSecret {
			return nil, fmt.Errorf("%w: number %d has %d bytes, and at least %d are needed", ErrClusterSecret, i+1, len(secret), MinClusterSecret)
		}
		var set keySet
		for k := range peerKeys {
			key, err := hkdf.Key(sha256.New, secret, nil, k.label(), sha256.Size)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrClusterSecret, err)
			}
			set[k] = key
		}
		s.sets = append(s.sets, set)
	}
	return s, nil
}

// PeerTranscript is what the proofs of one connection between nodes are made over.
type PeerTranscript struct {
	Hello      []byte // the dialing side's, as sent
	HelloReply []byte
	Binding    []byte // the TLS exporter's 32 bytes; empty on plaintext
}

// ProvePeer returns the proof that the sender of the frame of that type knows the first secret and meant statement, its body
// up to the proof, for this connection.
func (s *ClusterSecrets) ProvePeer(k PeerKey, t *PeerTranscript, frameType byte, statement []byte) [ProofSize]byte {
	return peerProof(s.sets[0][k], t, frameType, statement)
}

// VerifyPeer reports whether proof is ProvePeer's under one of the secrets. The time taken depends on the number of secrets and
// not on which of them matches.
func (s *ClusterSecrets) VerifyPeer(proof []byte, k PeerKey, t *PeerTranscript, frameType byte, statement []byte) bool {
	found := 0
	for i := range s.sets {
		want := peerProof(s.sets[i][k], t, frameType, statement)
		found |= subtle.ConstantTimeCompare(proof, want[:])
	}
	return found == 1
}

// peerProof is HMAC-SHA256 over the parts, each behind its length in four bytes.
func peerProof(key []byte, t *PeerTranscript, frameType byte, statement []byte) [ProofSize]byte {
	h := hmac.New(sha256.New, key)
	for _, part := range [][]byte{t.Hello, t.HelloReply, t.Binding, {frameType}, statement} {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	return [ProofSize]byte(h.Sum(nil))
}
