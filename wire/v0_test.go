package wire

import (
	"bytes"
	"strings"
	"testing"
)

func decodeLegacyRequest(b []byte) (int, error) {
	var r LegacyRequest
	return DecodeLegacyRequest(b, &r)
}

func decodeLegacyReply(b []byte) (int, error) { var r LegacyReply; return DecodeLegacyReply(b, &r) }

func parseLegacyDigest(b []byte) (int, error) { _, n, err := ParseLegacyDigest(b); return n, err }

func TestLegacyRequestVectors(t *testing.T) {
	for _, v := range readV0(t).Requests {
		t.Run(v.Name, func(t *testing.T) {
			checkWholeFrame(t, v.Hex, decodeLegacyRequest)
			want := LegacyRequest{Op: v.op(), WaitSeconds: v.WaitSeconds, LeaseSeconds: v.LeaseSeconds, Key: v.Key}
			var got LegacyRequest
			if _, err := DecodeLegacyRequest(v.Hex, &got); err != nil || got.Op != want.Op || got.WaitSeconds != want.WaitSeconds ||
				got.LeaseSeconds != want.LeaseSeconds || !bytes.Equal(got.Key, want.Key) {
				t.Errorf("decoded %+v, %v; want %+v", got, err, want)
			}
			if b := AppendLegacyRequest([]byte("before"), &want); string(b) != "before"+string(v.Hex) {
				t.Errorf("encoded %x; want %x", b, v.Hex)
			}
		})
	}
}

func TestLegacyReplyVectors(t *testing.T) {
	for _, v := range readV0(t).Replies {
		t.Run(v.Name, func(t *testing.T) {
			checkWholeFrame(t, v.Hex, decodeLegacyReply)
			want := LegacyReply{Op: Op(v.Op[0]), Text: v.Key}
			if v.Op == "keepalive" {
				want.Op = OpKeepAlive
			}
			if v.Token != nil {
				want.Token = *v.Token
			}
			if v.Text != nil {
				want.Text = []byte(*v.Text)
			}
			var got LegacyReply
			if _, err := DecodeLegacyReply(v.Hex, &got); err != nil || got.Op != want.Op || got.Token != want.Token || !bytes.Equal(got.Text, want.Text) {
				t.Errorf("decoded %+v, %v; want %+v", got, err, want)
			}
			if b := AppendLegacyReply([]byte("before"), &want); string(b) != "before"+string(v.Hex) {
				t.Errorf("encoded %x; want %x", b, v.Hex)
			}
			if b := AppendLegacyError(nil, string(want.Text)); want.Op == OpError && !bytes.Equal(b, v.Hex) {
				t.Errorf("encoded %x; want %x", b, v.Hex)
			}
		})
	}
}

func TestMalformedLegacyVectors(t *testing.T) {
	for _, v := range readV0(t).Malformed {
		t.Run(v.Name, func(t *testing.T) {
			n, err := decodeLegacyRequest(v.Hex)
			if n != 0 || err != Malformed {
				t.Errorf("decode = %d, %v; want %v", n, err, Malformed)
			}
			if b := AppendLegacyError(nil, Malformed.String()); !bytes.Equal(b, v.Reply) {
				t.Errorf("answer %q; want %q", b, v.Reply)
			}
		})
	}
	for c := range 256 {
		known := c == 'A' || c == 'R' || c == '\n'
		if _, err := decodeLegacyRequest([]byte{byte(c)}); (err == nil) != known {
			t.Errorf("request op %#02x: %v", c, err)
		}
		known = known || strings.ContainsRune("TNME", rune(c))
		if _, err := decodeLegacyReply([]byte{byte(c)}); (err == nil) != known {
			t.Errorf("reply op %#02x: %v", c, err)
		}
	}
}

func TestRejectedLegacyVectors(t *testing.T) {
	for _, v := range readV0(t).Rejected {
		t.Run(v.Name, func(t *testing.T) {
			var r LegacyRequest
			n, err := DecodeLegacyRequest(v.Hex, &r)
			if n != len(v.Hex) || err != nil {
				t.Fatalf("decode = %d, %v", n, err)
			}
			if r.LeaseSeconds >= MinLegacyLeaseSeconds && r.LeaseSeconds <= MaxLegacyLeaseSeconds {
				t.Errorf("a lease of %d s is within the limits", r.LeaseSeconds)
			}
			b := AppendLegacyError(nil, v.Error)
			if b = AppendLegacyReply(b, &LegacyReply{Op: OpTimeout, Text: r.Key}); !bytes.Equal(b, v.Reply) {
				t.Errorf("answer %q; want %q", b, v.Reply)
			}
		})
	}
}

func TestLegacyStreamVectors(t *testing.T) {
	checkStreams(t, readV0(t).RequestStreams, decodeLegacyRequest)
	checkStreams(t, readV0(t).ReplyStreams, decodeLegacyReply)
}

func TestLegacyDigestLines(t *testing.T) {
	v := readV0(t)
	for _, d := range v.Digests {
		t.Run(d.Name, func(t *testing.T) {
			checkWholeFrame(t, d.Line, parseLegacyDigest)
			if digest, _, _ := ParseLegacyDigest(d.Line); string(digest)+"\n" != string(d.Line) {
				t.Errorf("digest %q of line %q", digest, d.Line)
			}
		})
	}
	for _, d := range v.WrongDigests {
		t.Run(d.Name, func(t *testing.T) {
			digest, _, err := ParseLegacyDigest(d.Line)
			if right := len(d.Line) == LegacyDigestSize+1; right && err != nil || !right && err != AuthFailed || (digest != nil) != right {
				t.Errorf("ParseLegacyDigest(%q) = %q, %v", d.Line, digest, err)
			}
			if b := AppendLegacyError(nil, AuthFailed.String()); !bytes.Equal(b, d.Reply) {
				t.Errorf("answer %q; want %q", b, d.Reply)
			}
		})
	}
	if _, err := parseLegacyDigest(bytes.Repeat([]byte("A"), LegacyDigestSize+1)); err != AuthFailed {
		t.Errorf("44 characters without a newline: %v; want %v", err, AuthFailed)
	}
}

func TestLegacyBadKeysAreFrames(t *testing.T) {
	for _, size := range []int{0, MaxKey + 1, MaxLegacyKey} {
		key := strings.Repeat("k", size)
		checkWholeFrame(t, []byte("R"+key+"\n"), decodeLegacyRequest)
		checkWholeFrame(t, []byte("A\x00\x05\x00\x1e"+key+"\n"), decodeLegacyRequest)
	}
}

func TestLegacyAppendRefusesWhatCannotBeDecoded(t *testing.T) {
	for _, r := range []LegacyRequest{
		{Op: 'X', Key: []byte("k")}, {Op: OpAcquire, Key: []byte("a\nb")}, {Op: OpRelease, Key: bytes.Repeat([]byte("k"), MaxLegacyKey+1)},
	} {
		if b := AppendLegacyRequest([]byte("x"), &r); string(b) != "x" {
			t.Errorf("AppendLegacyRequest(%v, %d bytes of key) appended %x", r.Op, len(r.Key), b[1:])
		}
	}
}

func TestV0DoesNotAllocate(t *testing.T) {
	v := readV0(t)
	buf := make([]byte, 0, 1024)
	n := testing.AllocsPerRun(100, func() {
		for _, c := range v.Requests {
			var r LegacyRequest
			DecodeLegacyRequest(c.Hex, &r)
			buf = AppendLegacyRequest(buf[:0], &r)
		}
		for _, c := range v.Replies {
			var r LegacyReply
			DecodeLegacyReply(c.Hex, &r)
			buf = AppendLegacyReply(buf[:0], &r)
		}
		for _, c := range v.Digests {
			ParseLegacyDigest(c.Line)
		}
		buf = AppendLegacyError(buf[:0], LegacyNotActive)
	})
	if n != 0 {
		t.Errorf("%v allocations; want 0", n)
	}
}

func FuzzLegacy(f *testing.F) {
	v := readV0(f)
	for _, c := range v.Requests {
		f.Add([]byte(c.Hex))
	}
	for _, c := range v.Replies {
		f.Add([]byte(c.Hex))
	}
	for _, c := range v.Digests {
		f.Add([]byte(c.Line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:len(b):len(b)]
		before := bytes.Clone(b)
		var req LegacyRequest
		n, err := DecodeLegacyRequest(b, &req)
		checkDecoded(t, b, before, n, err)
		if n > 0 && !bytes.Equal(AppendLegacyRequest(nil, &req), b[:n]) {
			t.Errorf("request %x is not what its fields make", b[:n])
		}
		var rep LegacyReply
		n, err = DecodeLegacyReply(b, &rep)
		checkDecoded(t, b, before, n, err)
		if n > 0 && !bytes.Equal(AppendLegacyReply(nil, &rep), b[:n]) {
			t.Errorf("reply %x is not what its fields make", b[:n])
		}
		digest, n, err := ParseLegacyDigest(b)
		checkDecoded(t, b, before, n, err)
		if n > 0 && string(digest)+"\n" != string(b[:n]) {
			t.Errorf("digest %q of %q", digest, b[:n])
		}
	})
}
