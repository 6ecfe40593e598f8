package server

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"

	"ticketing.internal/raft"
)

func exampleMarker() *marker {
	m := &marker{
		domain: raft.Domain{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		seat:   2, peerAddr: "n2:5325", peers: []string{"n1:5325", "n3:5325"}, tokenMark: 1 << 25, credentialEnd: 1_767_226_500_000, opened: true,
		incarnations: []raft.Member{{NodeID: 2}},
	}
	for i := range m.incarnations[0].Incarnation {
		m.incarnations[0].Incarnation[i] = byte(0xa0 + i)
	}
	return m
}

// The example of the format's description.
func TestMarkerExample(t *testing.T) {
	const want = "544b53544154450a 0001 02 00 00000051" +
		"000102030405060708090a0b0c0d0e0f 02 01 0000000002000000 0000019b76e863a0" +
		"07 6e323a35333235 02 07 6e313a35333235 07 6e333a35333235" +
		"0001 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf 00000002 8d6e4d69"
	if got := hex.EncodeToString(appendMarker(nil, exampleMarker())); got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("the example is encoded as\n%s", got)
	}
}

// fullMarker has as much of everything as there can be.
func fullMarker() *marker {
	m := &marker{
		domain: raft.Domain(bytes.Repeat([]byte{255}, 16)), seat: 5, peerAddr: strings.Repeat("a", raft.MaxAddr),
		tokenMark: math.MaxInt64, credentialEnd: math.MaxInt64, opened: true,
	}
	for i := range markerPeers {
		m.peers = append(m.peers, strings.Repeat(string(rune('a'+i)), raft.MaxAddr))
	}
	for i := range markerIncarnations {
		var x raft.Member
		x.NodeID = raft.NodeID(math.MaxUint32 - i)
		binary.BigEndian.PutUint32(x.Incarnation[:], uint32(i))
		m.incarnations = append(m.incarnations, x)
	}
	return m
}

func TestMarkerRoundTrip(t *testing.T) {
	for name, m := range map[string]*marker{
		"least":   {seat: 1, peerAddr: "a", incarnations: []raft.Member{{}}},
		"example": exampleMarker(),
		"full":    fullMarker(),
	} {
		got, err := decodeMarker(appendMarker([]byte("before"), m)[6:])
		if err != nil || !got.equal(m) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, got, err, m)
		}
	}
}

func TestMarkerTornAtEveryLength(t *testing.T) {
	whole := appendMarker(nil, exampleMarker())
	for n := range whole {
		if m, err := decodeMarker(whole[:n]); !errors.Is(err, errStateDamaged) {
			t.Errorf("the first %d bytes: %+v, %v", n, m, err)
		}
	}
	if _, err := decodeMarker(append(whole, 0)); !errors.Is(err, errStateDamaged) {
		t.Errorf("one byte more: %v", err)
	}
}

// Every proper prefix of the body fails on its own, also under a checksum that fits.
func TestMarkerBodyCutAtEveryLength(t *testing.T) {
	whole := appendMarker(nil, exampleMarker())
	for n := stateHeaderSize; n < len(whole)-crc32.Size; n++ {
		if m, err := decodeMarker(sealState(slices.Clone(whole[:n]), 0)); !errors.Is(err, errStateDamaged) {
			t.Errorf("a body of %d bytes: %+v, %v", n-stateHeaderSize, m, err)
		}
	}
	longer := append(slices.Clone(whole[:len(whole)-crc32.Size]), 0)
	if m, err := decodeMarker(sealState(longer, 0)); !errors.Is(err, errStateDamaged) {
		t.Errorf("a body with one byte more: %+v, %v", m, err)
	}
}

func TestMarkerEveryFlippedBit(t *testing.T) {
	whole := appendMarker(nil, exampleMarker())
	for i := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		if m, err := decodeMarker(b); err == nil {
			t.Errorf("byte %d, bit %d flipped: taken as %+v", i/8, i%8, m)
		}
	}
}

// Files that are whole, and yet not for this program to read.
func TestMarkerOfOthers(t *testing.T) {
	sealed := func(change func(*marker)) []byte {
		m := exampleMarker()
		change(m)
		return appendMarker(nil, m)
	}
	patched := func(at int, b byte) []byte {
		file := appendMarker(nil, exampleMarker())
		file[at] = b
		return sealState(file[:len(file)-crc32.Size], 0)
	}
	for name, test := range map[string]struct {
		file []byte
		want error
	}{
		"another program":       {bytes.Repeat([]byte("x"), 100), errStateForeign},
		"a later version":       {patched(9, 2), errStateVersion},
		"a standalone server's": {appendState(nil, exampleState()), errStateAlone},
		"an unknown mode":       {patched(10, 3), errStateDamaged},
		"reserved header byte":  {patched(11, 1), errStateDamaged},
		"no seat":               {sealed(func(m *marker) { m.seat = 0 }), errStateDamaged},
		"a sixth seat":          {sealed(func(m *marker) { m.seat = 6 }), errStateDamaged},
		"open neither 0 nor 1":  {patched(stateHeaderSize+17, 2), errStateDamaged},
		"a huge mark":           {sealed(func(m *marker) { m.tokenMark = 1 << 63 }), errStateDamaged},
		"an end before 1970":    {sealed(func(m *marker) { m.credentialEnd = -1 }), errStateDamaged},
		"no address":            {sealed(func(m *marker) { m.peerAddr = "" }), errStateDamaged},
		"an empty peer":         {sealed(func(m *marker) { m.peers[1] = "" }), errStateDamaged},
		"seventeen peers":       {sealed(func(m *marker) { m.peers = slices.Repeat([]string{"a"}, 17) }), errStateDamaged},
		"no incarnation":        {sealed(func(m *marker) { m.incarnations = nil }), errStateDamaged},
		"an incarnation twice":  {sealed(func(m *marker) { m.incarnations = slices.Repeat(m.incarnations, 2) }), errStateDamaged},
		"more than there is room": {sealed(func(m *marker) {
			*m = *fullMarker()
			m.incarnations = append(m.incarnations, raft.Member{Incarnation: raft.Incarnation{9: 1}})
		}), errStateDamaged},
	} {
		if m, err := decodeMarker(test.file); !errors.Is(err, test.want) || m != nil {
			t.Errorf("%s: %+v, %v; want %v", name, m, err, test.want)
		}
	}
}

func FuzzDecodeMarker(f *testing.F) {
	f.Add(appendMarker(nil, exampleMarker()))
	f.Add(appendMarker(nil, &marker{seat: 1, peerAddr: "a", incarnations: []raft.Member{{}}}))
	f.Add(appendState(nil, exampleState()))
	f.Add([]byte(stateMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Most inputs would fail at the checksum: the one that fits is tried too.
		for _, file := range [][]byte{b, resealed(b)} {
			m, err := decodeMarker(file)
			if err != nil {
				if m != nil {
					t.Fatalf("a marker comes with the error: %+v", m)
				}
				continue
			}
			if again := appendMarker(nil, m); !bytes.Equal(again, file) {
				t.Fatalf("encoded again:\n%x\n%x", again, file)
			}
		}
	})
}

// resealed is b with the length and the checksum that make it whole, if there is room for them.
func resealed(b []byte) []byte {
	if len(b) < stateHeaderSize+crc32.Size {
		return b
	}
	return sealState(slices.Clone(b[:len(b)-crc32.Size]), 0)
}
