package server

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"
)

func exampleState() stateRecord {
	return stateRecord{
		boot:          bootID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		horizon:       5_000_000_000,
		reserved:      1 << 24,
		longestMillis: 30_000,
	}
}

// The example of the format's description.
func TestStateExample(t *testing.T) {
	const want = "544b53544154450a 0001 01 00 00000028" +
		"000102030405060708090a0b0c0d0e0f 000000012a05f200 0000000001000000 00007530 00 000000 5f3e8d84"
	if got := hex.EncodeToString(appendState(nil, exampleState())); got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("the example is encoded as\n%s", got)
	}
}

func TestStateRoundTrip(t *testing.T) {
	for name, r := range map[string]stateRecord{
		"zero":    {},
		"example": exampleState(),
		"largest": {boot: bootID(bytes.Repeat([]byte{255}, 16)), horizon: math.MaxInt64, reserved: math.MaxInt64, longestMillis: 250_000, clean: true},
	} {
		got, err := decodeState(appendState([]byte("before"), r)[6:])
		if err != nil || got != r {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, got, err, r)
		}
	}
}

func TestStateTornAtEveryLength(t *testing.T) {
	whole := appendState(nil, exampleState())
	for n := range whole {
		if r, err := decodeState(whole[:n]); !errors.Is(err, errStateDamaged) {
			t.Errorf("the first %d bytes: %+v, %v", n, r, err)
		}
	}
	if _, err := decodeState(append(whole, 0)); !errors.Is(err, errStateDamaged) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestStateEveryFlippedBit(t *testing.T) {
	whole := appendState(nil, exampleState())
	for i := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		if r, err := decodeState(b); err == nil {
			t.Errorf("byte %d, bit %d flipped: taken as %+v", i/8, i%8, r)
		}
	}
}

// Files that are whole, and yet not for this program to read.
func TestStateOfOthers(t *testing.T) {
	sealed := func(change func(b []byte)) []byte {
		b := appendState(nil, exampleState())
		change(b)
		end := len(b) - crc32.Size
		binary.BigEndian.PutUint32(b[end:], crc32.Checksum(b[:end], castagnoli()))
		return b
	}
	for name, test := range map[string]struct {
		file []byte
		want error
	}{
		"another program":        {bytes.Repeat([]byte("x"), 60), errStateForeign},
		"a later version":        {sealed(func(b []byte) { b[9] = 2 }), errStateVersion},
		"a cluster's":            {sealed(func(b []byte) { b[10] = stateModeCluster }), errStateMode},
		"an unknown mode":        {sealed(func(b []byte) { b[10] = 3 }), errStateDamaged},
		"reserved header byte":   {sealed(func(b []byte) { b[11] = 1 }), errStateDamaged},
		"reserved body byte":     {sealed(func(b []byte) { b[55] = 1 }), errStateDamaged},
		"a mark neither 0 nor 1": {sealed(func(b []byte) { b[52] = 2 }), errStateDamaged},
		"a negative horizon":     {sealed(func(b []byte) { b[32] = 0x80 }), errStateDamaged},
		"a huge reservation":     {sealed(func(b []byte) { b[40] = 0x80 }), errStateDamaged},
		"a lease over the limit": {sealed(func(b []byte) { binary.BigEndian.PutUint32(b[48:], 250_001) }), errStateDamaged},
	} {
		if _, err := decodeState(test.file); !errors.Is(err, test.want) {
			t.Errorf("%s: %v; want %v", name, err, test.want)
		}
	}
}

func TestParseBootID(t *testing.T) {
	got, err := parseBootID("00010203-0405-0607-0809-0a0b0c0d0e0f\n")
	if err != nil || got != exampleState().boot {
		t.Errorf("parsed %x, %v", got, err)
	}
	for _, text := range []string{"", "0001", "00010203-0405-0607-0809-0a0b0c0d0e0f00", "zz010203-0405-0607-0809-0a0b0c0d0e0f"} {
		if got, err := parseBootID(text); err == nil {
			t.Errorf("%q is taken as %x", text, got)
		}
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add(appendState(nil, exampleState()))
	f.Add(appendState(nil, stateRecord{clean: true}))
	f.Add([]byte(stateMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeState(b)
		if err != nil {
			if r != (stateRecord{}) {
				t.Fatalf("a record comes with the error: %+v", r)
			}
			return
		}
		if again := appendState(nil, r); !bytes.Equal(again, b) {
			t.Fatalf("encoded again:\n%x\n%x", again, b)
		}
	})
}
