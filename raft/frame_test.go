package raft

import (
	"bytes"
	"testing"
)

func TestFrame(t *testing.T) {
	m := sampleMessages()[6]
	frame := ReserveFrame([]byte("before"))
	frame = AppendMessage(frame, &m)
	FinishFrame(frame, 6, FrameType(m.Kind), 0)
	h, err := DecodeFrameHeader(frame[6:], MaxFrameBody)
	if err != nil || h.Type != FrameType(MsgAppendEntries) || h.BodyBytes != len(frame)-6-FrameHeaderBytes {
		t.Fatalf("%+v, %v", h, err)
	}
	body := frame[6+FrameHeaderBytes:]
	if err := h.Check(body); err != nil {
		t.Error(err)
	}
	for i := range body {
		damaged := bytes.Clone(body)
		damaged[i] ^= 0x40
		if h.Check(damaged) == nil {
			t.Fatalf("byte %d is damaged and the frame passes", i)
		}
	}
	if h.Check(body[1:]) == nil {
		t.Error("a short body passes")
	}
}

func TestFrameHeaderExcludes(t *testing.T) {
	good := func(kind FrameType, request uint32) []byte {
		b := ReserveFrame(nil)
		b = append(b, "body"...)
		FinishFrame(b, 0, kind, request)
		return b
	}
	change := func(b []byte, at int, to byte) []byte { b[at] = to; return b }
	for name, b := range map[string][]byte{
		"a short header":          good(FrameHello, 0)[:15],
		"an unknown type":         good(19, 0),
		"type 0":                  good(0, 0),
		"a flag":                  change(good(FrameHello, 0), 5, 1),
		"a reserved byte":         change(good(FrameHello, 0), 7, 1),
		"a request id elsewhere":  good(FrameHello, 9),
		"a body over the maximum": change(good(FrameHello, 0), 1, 0x20),
	} {
		if _, err := DecodeFrameHeader(b, MaxFrameBody); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := DecodeFrameHeader(good(FrameControl, 9), MaxFrameBodyNoProof); err != nil {
		t.Error(err)
	}
	if _, err := DecodeFrameHeader(change(good(FrameHello, 0), 2, 0x10), MaxFrameBodyNoProof); err == nil {
		t.Error("4 KiB before Proof are accepted")
	}
}
