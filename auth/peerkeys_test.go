package auth

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
)

const (
	clusterA = "the cluster secret A"
	clusterB = "the cluster secret B"
)

func newSecrets(t testing.TB, list ...string) *ClusterSecrets {
	t.Helper()
	var secrets [][]byte
	for _, s := range list {
		secrets = append(secrets, []byte(s))
	}
	s, err := NewClusterSecrets(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sampleTranscript() *PeerTranscript {
	return &PeerTranscript{Hello: []byte("hello"), HelloReply: []byte("reply"), Binding: []byte("exporter")}
}

// TestPeerProofByHand makes one proof from the description in docs/protocol-peer.md.
func TestPeerProofByHand(t *testing.T) {
	key, err := hkdf.Key(sha256.New, []byte(clusterA), nil, "ticketing v1 join acceptor", 32)
	if err != nil {
		t.Fatal(err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte("\x00\x00\x00\x05hello\x00\x00\x00\x05reply\x00\x00\x00\x08exporter\x00\x00\x00\x01\x03\x00\x00\x00\x09statement"))
	got := newSecrets(t, clusterA).ProvePeer(JoinAcceptorKey, sampleTranscript(), 3, []byte("statement"))
	if !bytes.Equal(got[:], h.Sum(nil)) {
		t.Errorf("proof %x; want %x", got, h.Sum(nil))
	}
}

func TestPeerProofCoversEverything(t *testing.T) {
	s := newSecrets(t, clusterA)
	proof := s.ProvePeer(PeerDialerKey, sampleTranscript(), 3, []byte("statement"))
	if !s.VerifyPeer(proof[:], PeerDialerKey, sampleTranscript(), 3, []byte("statement")) {
		t.Fatal("it does not verify")
	}
	refused := func(name string, proof []byte, k PeerKey, tr *PeerTranscript, frameType byte, statement string) {
		t.Helper()
		if s.VerifyPeer(proof, k, tr, frameType, []byte(statement)) {
			t.Errorf("%s: verifies", name)
		}
	}
	for k := range peerKeys {
		if k != PeerDialerKey {
			refused(k.label(), proof[:], k, sampleTranscript(), 3, "statement")
		}
	}
	refused("another frame", proof[:], PeerDialerKey, sampleTranscript(), 4, "statement")
	refused("no proof", nil, PeerDialerKey, sampleTranscript(), 3, "statement")
	refused("half a proof", proof[:16], PeerDialerKey, sampleTranscript(), 3, "statement")
	for i := range proof {
		b := bytes.Clone(proof[:])
		b[i] ^= 1
		refused("altered proof", b, PeerDialerKey, sampleTranscript(), 3, "statement")
	}
	for i := range "statement" {
		b := []byte("statement")
		b[i] ^= 1
		refused("altered statement", proof[:], PeerDialerKey, sampleTranscript(), 3, string(b))
	}
	alter := []func(tr *PeerTranscript) *[]byte{
		func(tr *PeerTranscript) *[]byte { return &tr.Hello },
		func(tr *PeerTranscript) *[]byte { return &tr.HelloReply },
		func(tr *PeerTranscript) *[]byte { return &tr.Binding },
	}
	for _, part := range alter {
		for i := range *part(sampleTranscript()) {
			tr := sampleTranscript()
			(*part(tr))[i] ^= 1
			refused("altered transcript", proof[:], PeerDialerKey, tr, 3, "statement")
		}
		tr := sampleTranscript()
		*part(tr) = nil
		refused("a part left out", proof[:], PeerDialerKey, tr, 3, "statement")
	}
	refused("parts cut elsewhere", proof[:], PeerDialerKey, &PeerTranscript{Hello: []byte("hell"), HelloReply: []byte("oreply"), Binding: []byte("exporter")}, 3, "statement")
}

func TestClusterSecretRotation(t *testing.T) {
	before, both, turned, after := newSecrets(t, clusterA), newSecrets(t, clusterA, clusterB), newSecrets(t, clusterB, clusterA), newSecrets(t, clusterB)
	tests := []struct {
		name             string
		prover, verifier *ClusterSecrets
		ok               bool
	}{
		{"before, both", before, both, true}, {"both, before", both, before, true},
		{"both, turned", both, turned, true}, {"turned, both", turned, both, true},
		{"turned, after", turned, after, true}, {"after, turned", after, turned, true},
		{"before, after", before, after, false}, {"turned, before", turned, before, false},
	}
	for _, tt := range tests {
		proof := tt.prover.ProvePeer(ControlDialerKey, sampleTranscript(), 3, nil)
		if got := tt.verifier.VerifyPeer(proof[:], ControlDialerKey, sampleTranscript(), 3, nil); got != tt.ok {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestClusterSecretsRefused(t *testing.T) {
	for _, list := range [][][]byte{nil, {[]byte("fifteen bytes..")}, {[]byte(clusterA), nil}} {
		if _, err := NewClusterSecrets(list...); !errors.Is(err, ErrClusterSecret) || bytes.Contains([]byte(err.Error()), []byte("fifteen")) {
			t.Errorf("%d secrets: %v", len(list), err)
		}
	}
	if _, err := NewClusterSecrets([]byte("sixteen bytes...")); err != nil {
		t.Error(err)
	}
}

func TestPeerKeysDiffer(t *testing.T) {
	var labels []string
	for k := range peerKeys {
		labels = append(labels, k.label())
	}
	slices.Sort(labels)
	if len(slices.Compact(labels)) != int(peerKeys) {
		t.Errorf("labels %v", labels)
	}
}
