package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

func frame(t PeerType, id uint32, body string) []byte {
	b, start := BeginPeerFrame(nil, t, id)
	b, _ = FinishPeerFrame(append(b, body...), start)
	return b
}

type peerVectors struct {
	Frames []struct {
		Name      string   `json:"name"`
		Hex       string   `json:"hex"`
		Type      PeerType `json:"type"`
		RequestID uint32   `json:"request_id"`
		Body      string   `json:"body_hex"`
	} `json:"frames"`
	Faulty []struct {
		Name  string    `json:"name"`
		Hex   string    `json:"hex"`
		Fault PeerFault `json:"fault"`
	} `json:"faulty"`
}

func readPeerVectors(t testing.TB) (v peerVectors) {
	t.Helper()
	raw, err := os.ReadFile("testdata/peer-frames.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Frames) == 0 || len(v.Faulty) == 0 {
		t.Fatal("a list of the vectors is empty")
	}
	return v
}

func fromHex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPeerFrameVectors(t *testing.T) {
	for _, v := range readPeerVectors(t).Frames {
		t.Run(v.Name, func(t *testing.T) {
			whole, body := fromHex(t, v.Hex), fromHex(t, v.Body)
			if got := frame(v.Type, v.RequestID, string(body)); !bytes.Equal(got, whole) {
				t.Errorf("encoded %x; want %x", got, whole)
			}
			var f PeerFrame
			n, err := DecodePeerFrame(append(bytes.Clone(whole), "rest"...), MaxPeerBody, &f)
			if n != len(whole) || err != nil || f.Type != v.Type || f.RequestID != v.RequestID || !bytes.Equal(f.Body, body) {
				t.Errorf("decoded %d, %v: %+v", n, err, f)
			}
			for size := range len(whole) {
				if n, err := DecodePeerFrame(whole[:size:size], MaxPeerBody, &f); n != 0 || err != nil {
					t.Errorf("%d of %d bytes decode to %d, %v; want incomplete", size, len(whole), n, err)
				}
			}
		})
	}
}

func TestFaultyPeerFrameVectors(t *testing.T) {
	for _, v := range readPeerVectors(t).Faulty {
		t.Run(v.Name, func(t *testing.T) {
			whole := fromHex(t, v.Hex)
			var f PeerFrame
			if n, err := DecodePeerFrame(whole, MaxPeerBody, &f); n != 0 || !errors.Is(err, v.Fault) {
				t.Errorf("decoded %d, %v; want %v", n, err, v.Fault)
			}
			if n, err := DecodePeerFrame(whole[:PeerHeaderSize], MaxPeerBody, &f); n != 0 || (err == nil) != (v.Fault == PeerChecksum) {
				t.Errorf("the header alone decodes to %d, %v", n, err)
			}
		})
	}
}

func TestEveryBitOfAPeerFrameCounts(t *testing.T) {
	whole := frame(PeerTypeControl, 7, "a body")
	for i := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		var f PeerFrame
		n, err := DecodePeerFrame(b, MaxPeerBody, &f)
		if n != 0 && err == nil && f.Type == PeerTypeControl && f.RequestID == 7 {
			t.Errorf("bit %d may be either", i)
		}
	}
}

func TestPeerBodyLimits(t *testing.T) {
	var f PeerFrame
	for _, limit := range []int{MaxPeerBodyBeforeProof, MaxPeerBody} {
		longest := frame(PeerTypeHello, 0, string(make([]byte, limit)))
		if n, err := DecodePeerFrame(longest, limit, &f); n != len(longest) || err != nil {
			t.Errorf("a body of %d bytes: %d, %v", limit, n, err)
		}
		if n, err := DecodePeerFrame(longest, limit-1, &f); n != 0 || err != PeerTooLong {
			t.Errorf("a body of %d bytes where %d are allowed: %d, %v", limit, limit-1, n, err)
		}
	}
	b, start := BeginPeerFrame([]byte("before"), PeerTypeInstallSnapshot, 0)
	b, ok := FinishPeerFrame(append(b, make([]byte, MaxPeerBody+1)...), start)
	if ok || string(b) != "before" {
		t.Errorf("a body that is too long was framed: %d bytes, %v", len(b), ok)
	}
}

func TestPeerFramesAllocateNothing(t *testing.T) {
	body := make([]byte, 1000)
	buf := make([]byte, 0, 2000)
	var f PeerFrame
	allocs := testing.AllocsPerRun(100, func() {
		b, start := BeginPeerFrame(buf, PeerTypeAppendEntries, 0)
		b, _ = FinishPeerFrame(append(b, body...), start)
		DecodePeerFrame(b, MaxPeerBody, &f)
	})
	if allocs != 0 || len(f.Body) != len(body) {
		t.Errorf("%v allocations, %d bytes", allocs, len(f.Body))
	}
}

func FuzzPeerFrame(f *testing.F) {
	v := readPeerVectors(f)
	for _, s := range v.Frames {
		f.Add(fromHex(f, s.Hex))
	}
	for _, s := range v.Faulty {
		f.Add(fromHex(f, s.Hex))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got PeerFrame
		n, err := DecodePeerFrame(data, MaxPeerBody, &got)
		if n == 0 {
			return
		}
		if err != nil {
			t.Fatalf("%d bytes with the error %v", n, err)
		}
		if again := frame(got.Type, got.RequestID, string(got.Body)); !bytes.Equal(again, data[:n]) {
			t.Fatalf("%x encodes to %x", data[:n], again)
		}
	})
}
