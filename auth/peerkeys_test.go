package auth

import (
	"bytes"
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

// peerVectors were made independently of this code, from docs/protocol-peer.md.
type peerVectors struct {
	Secret string `json:"secret"`
	Keys   []struct {
		Label string `json:"label"`
		Hex   unhex  `json:"hex"`
	} `json:"keys"`
	Proofs []struct {
		Key        PeerKey `json:"key"`
		Hello      unhex   `json:"hello_hex"`
		HelloReply unhex   `json:"hello_reply_hex"`
		Binding    unhex   `json:"binding_hex"`
		FrameType  byte    `json:"frame_type"`
		Statement  unhex   `json:"statement_hex"`
		Proof      unhex   `json:"proof_hex"`
	} `json:"proofs"`
	Bootstrap credentialVector `json:"bootstrap"`
	Join      credentialVector `json:"join"`
}

type credentialVector struct {
	Text string `json:"text"`
	ID   unhex  `json:"id_hex"`
}

func readPeer(t *testing.T) (v peerVectors) {
	t.Helper()
	readVectors(t, "testdata/peer-proofs.json", &v)
	if len(v.Keys) != int(peerKeys) || len(v.Proofs) == 0 || v.Bootstrap.Text == "" || v.Join.Text == "" {
		t.Fatal("the vectors are not whole")
	}
	return v
}

func TestPeerKeyVectors(t *testing.T) {
	v := readPeer(t)
	s := newSecrets(t, v.Secret)
	for k, want := range v.Keys {
		if got := PeerKey(k); got.label() != want.Label || !bytes.Equal(s.sets[0][k], want.Hex) {
			t.Errorf("key %d, %q: %x; want %q: %x", k, got.label(), s.sets[0][k], want.Label, want.Hex)
		}
	}
}

func TestPeerProofVectors(t *testing.T) {
	v := readPeer(t)
	s := newSecrets(t, v.Secret)
	for i, p := range v.Proofs {
		tr := &PeerTranscript{Hello: p.Hello, HelloReply: p.HelloReply, Binding: p.Binding}
		if got := s.ProvePeer(p.Key, tr, p.FrameType, p.Statement); !bytes.Equal(got[:], p.Proof) {
			t.Errorf("proof %d: %x; want %x", i, got, p.Proof)
		}
		if !s.VerifyPeer(p.Proof, p.Key, tr, p.FrameType, p.Statement) {
			t.Errorf("proof %d does not verify", i)
		}
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
