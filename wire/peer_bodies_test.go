package wire

import (
	"bytes"
	"strings"
	"testing"
)

// peerBody is an encoded body, and what decodes and encodes it again.
type peerBody struct {
	name    string
	encoded []byte
	again   func(b []byte) ([]byte, error)
}

func againHello(b []byte) ([]byte, error) {
	var h PeerHello
	err := DecodePeerHello(b, &h)
	return AppendPeerHello(nil, &h), err
}

func againProof(b []byte) ([]byte, error) {
	var p PeerProof
	covered, proof, err := DecodePeerProof(b, &p)
	if err == nil && !bytes.Equal(append(bytes.Clone(covered), proof...), b) {
		panic("what the proof covers and the proof are not the whole body")
	}
	return append(AppendPeerProof(nil, &p), proof...), err
}

func againRefusal(b []byte) ([]byte, error) {
	var r PeerRefusal
	_, proof, err := DecodePeerRefusal(b, &r)
	return append(AppendPeerRefusal(nil, &r), proof...), err
}

func againRequest(b []byte) ([]byte, error) {
	r, err := DecodeControlRequest(b)
	if err != nil {
		return nil, err
	}
	return AppendControlRequest(nil, r), nil
}

func againReply(b []byte) ([]byte, error) {
	r, err := DecodeControlReply(b)
	if err != nil {
		return nil, err
	}
	return AppendControlReply(nil, r), nil
}

func samplePeerBodies() []peerBody {
	mac := bytes.Repeat([]byte{0xaa}, PeerProofSize)
	pair := func(n byte) PeerPair { return PeerPair{NodeID: uint32(n), Incarnation: [16]byte{n, n}} }
	list := []peerBody{
		{"hello", AppendPeerHello(nil, &PeerHello{Version: 3, Lowest: 1, Role: PeerRoleJoin, Nonce: [32]byte{1}, Domain: [16]byte{2}, Self: pair(4), Expected: pair(5)}), againHello},
		{"proof", append(AppendPeerProof(nil, &PeerProof{Term: 9, Seat: 2, Credential: [16]byte{3}, ClientAddr: "node-1:5225"}), mac...), againProof},
		{"refusal", append(AppendPeerRefusal(nil, &PeerRefusal{Reason: 3, Voter: pair(6), Text: "seat 2 was replaced"}), mac...), againRefusal},
		{"reply", AppendControlReply(nil, &ControlReply{
			Code: ControlDone, Reason: 7, Leader: "a:1", Text: "done", Domain: [16]byte{1}, Seat: 2, Member: pair(4), PeerAddr: "b:2",
			ExpiresMillis: 1_900_000_000_000, Data: []byte(`{}`),
		}), againReply},
	}
	for kind := ControlStatus; kind <= ControlRejoin; kind++ {
		list = append(list, peerBody{kind.String(), AppendControlRequest(nil, &ControlRequest{
			Kind: kind, Seat: 2, ValidMillis: 900_000, Self: pair(4), PeerAddr: "a:1", ClientAddr: "b:2", Credential: "tkj1.x.y",
			Marker: []PeerPair{pair(1), pair(2)},
		}), againRequest})
	}
	return list
}

func TestPeerBodies(t *testing.T) {
	for _, body := range samplePeerBodies() {
		t.Run(body.name, func(t *testing.T) {
			if again, err := body.again(body.encoded); err != nil || !bytes.Equal(again, body.encoded) {
				t.Errorf("%x decodes and encodes to %x, %v", body.encoded, again, err)
			}
			for size := range len(body.encoded) {
				if _, err := body.again(body.encoded[:size:size]); err != PeerMalformed {
					t.Errorf("%d of %d bytes: %v", size, len(body.encoded), err)
				}
			}
			if _, err := body.again(append(bytes.Clone(body.encoded), 0)); err != PeerMalformed {
				t.Errorf("a byte more: %v", err)
			}
		})
	}
}

func TestHandshakeBodiesFitBeforeTheProof(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, b := range map[string][]byte{
		"hello":   AppendPeerHello(nil, &PeerHello{}),
		"proof":   AppendPeerProof(nil, &PeerProof{ClientAddr: long}),
		"refusal": AppendPeerRefusal(nil, &PeerRefusal{Text: long}),
	} {
		if size := len(b) + PeerProofSize; size > MaxPeerBodyBeforeProof {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
}

func TestHelloThatCannotBe(t *testing.T) {
	for name, h := range map[string]PeerHello{
		"role 0":               {Version: 1, Lowest: 1},
		"role 4":               {Version: 1, Lowest: 1, Role: 4},
		"lowest above highest": {Version: 1, Lowest: 2, Role: PeerRolePeer},
	} {
		if _, err := againHello(AppendPeerHello(nil, &h)); err != PeerMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestControlBounds(t *testing.T) {
	r := ControlRequest{
		Kind: ControlRejoin, PeerAddr: strings.Repeat("p", MaxText+1), Marker: make([]PeerPair, MaxPeerMarker+1),
	}
	r.Marker[0].NodeID = 1 // the oldest, which is left out
	got, err := DecodeControlRequest(AppendControlRequest(nil, &r))
	if err != nil || len(got.PeerAddr) != MaxText || len(got.Marker) != MaxPeerMarker || got.Marker[0].NodeID != 0 {
		t.Errorf("%v: %+v", err, got)
	}
	for _, kind := range []ControlKind{0, ControlRejoin + 1} {
		if _, err := DecodeControlRequest([]byte{byte(kind)}); err != PeerMalformed {
			t.Errorf("kind %v: %v", kind, err)
		}
	}
	reply := AppendControlReply(nil, &ControlReply{Text: strings.Repeat("t", 1<<17)})
	if reply[0] = byte(ControlDone); len(reply) > 1<<17 {
		t.Errorf("a reply with a long text has %d bytes", len(reply))
	}
	if _, err := DecodeControlReply(reply); err != nil {
		t.Error(err)
	}
	for _, code := range []ControlStatusCode{0, ControlUnknown + 1} {
		if _, err := DecodeControlReply(AppendControlReply(nil, &ControlReply{Code: code})); err != PeerMalformed {
			t.Errorf("code %d: %v", code, err)
		}
	}
}

func FuzzPeerBodies(f *testing.F) {
	decoders := []func([]byte) ([]byte, error){againHello, againProof, againRefusal, againRequest, againReply}
	for _, body := range samplePeerBodies() {
		for which := range decoders {
			f.Add(byte(which), body.encoded)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		again, err := decoders[int(which)%len(decoders)](data)
		if err == nil && !bytes.Equal(again, data) {
			t.Fatalf("%x encodes to %x", data, again)
		}
	})
}
