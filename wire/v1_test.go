package wire

import (
	"bytes"
	"testing"
)

func decodeRequest(b []byte) (int, error) { var r Request; return DecodeRequest(b, &r) }
func decodeReply(b []byte) (int, error)   { var r Reply; return DecodeReply(b, &r) }

func TestRequestVectors(t *testing.T) {
	for _, v := range readV1(t).Requests {
		t.Run(v.Name, func(t *testing.T) {
			checkWholeFrame(t, v.Hex, decodeRequest)
			want := Request{Op: v.op(), Wait: v.WaitMillis, Lease: v.LeaseMillis, Owner: v.Owner, Token: v.Token, Key: v.Key}
			var got Request
			if _, err := DecodeRequest(v.Hex, &got); err != nil || !sameRequest(&got, &want) {
				t.Errorf("decoded %+v, %v; want %+v", got, err, want)
			}
			if b := AppendRequest([]byte("before"), &want); string(b) != "before"+string(v.Hex) {
				t.Errorf("encoded %x; want %x", b, v.Hex)
			}
			check := CheckAcquire
			if v.Op == "release" {
				check = CheckRelease
			}
			if f, ok := check(&got); v.Op != "ping" && !ok {
				t.Errorf("refused with %v", f)
			}
		})
	}
}

func sameRequest(a, b *Request) bool {
	return a.Op == b.Op && a.Wait == b.Wait && a.Lease == b.Lease && a.Owner == b.Owner && a.Token == b.Token && bytes.Equal(a.Key, b.Key)
}

func TestReplyVectors(t *testing.T) {
	for _, v := range readV1(t).Replies {
		t.Run(v.Name, func(t *testing.T) {
			checkWholeFrame(t, v.Hex, decodeReply)
			want := Reply{Op: Op(v.Op[0]), Code: v.Code, Millis: v.Millis, Owner: v.Owner, Token: v.Token, Text: []byte(v.Text)}
			var got Reply
			_, err := DecodeReply(v.Hex, &got)
			if err != nil || got.Op != want.Op || got.Code != want.Code || got.Millis != want.Millis || got.Owner != want.Owner ||
				got.Token != want.Token || !bytes.Equal(got.Text, want.Text) {
				t.Errorf("decoded %+v, %v; want %+v", got, err, want)
			}
			if b := AppendReply([]byte("before"), &want); string(b) != "before"+string(v.Hex) {
				t.Errorf("encoded %x; want %x", b, v.Hex)
			}
			name := ""
			switch want.Op {
			case OpBusy:
				name = Busy(v.Code).String()
			case OpError:
				name = Failure(v.Code).String()
			}
			if name != v.CodeName {
				t.Errorf("code %d is named %q; want %q", v.Code, name, v.CodeName)
			}
			var h [HeaderSize]byte
			PutReplyHeader(&h, want.Op, want.Code, want.Millis, want.Owner, want.Token)
			if len(v.Text) == 0 && !bytes.Equal(h[:], v.Hex) {
				t.Errorf("header %x; want %x", h, v.Hex)
			}
		})
	}
}

func TestMalformedRequestVectors(t *testing.T) {
	for _, v := range readV1(t).Malformed {
		t.Run(v.Name, func(t *testing.T) {
			for size := range len(v.Hex) + 1 {
				n, err := decodeRequest(v.Hex[:size:size])
				if want := size >= HeaderSize; n != 0 || (err == v.Code) != want || (err == nil) == want {
					t.Errorf("decode of %d of %d bytes = %d, %v; malformed as soon as the header is whole", size, len(v.Hex), n, err)
				}
			}
		})
	}
}

func TestRejectedRequestVectors(t *testing.T) {
	for _, v := range readV1(t).Rejected {
		t.Run(v.Name, func(t *testing.T) {
			checkWholeFrame(t, v.Hex, decodeRequest)
			var r Request
			if _, err := DecodeRequest(v.Hex, &r); err != nil || r.Owner != v.Owner {
				t.Fatalf("decoded owner %d, %v; want %d", r.Owner, err, v.Owner)
			}
			check := CheckAcquire
			if r.Op == OpRelease {
				check = CheckRelease
			}
			if f, ok := check(&r); ok || f != v.Code || f.String() != v.Error {
				t.Errorf("checked: %v, %v; want %s", f, ok, v.Error)
			}
			if b := AppendRequest(nil, &r); !bytes.Equal(b, v.Hex) {
				t.Errorf("encoded %x; want %x", b, v.Hex)
			}
		})
	}
}

func TestRequestStreamVectors(t *testing.T) { checkStreams(t, readV1(t).RequestStreams, decodeRequest) }
func TestReplyStreamVectors(t *testing.T)   { checkStreams(t, readV1(t).ReplyStreams, decodeReply) }

func TestFirstFailingFieldDecides(t *testing.T) {
	tests := []struct {
		name string
		r    Request
		want Failure
	}{
		{"all wrong: owner", Request{Owner: 0, Key: []byte(" "), Wait: MaxWaitMillis + 1, Lease: 0}, InvalidOwner},
		{"key before wait and lease", Request{Owner: 1, Key: []byte(" "), Wait: MaxWaitMillis + 1, Lease: 0}, InvalidKey},
		{"wait before lease", Request{Owner: 1, Key: []byte("k"), Wait: MaxWaitMillis + 1, Lease: 0}, InvalidWait},
		{"lease alone", Request{Owner: 1, Key: []byte("k"), Wait: MaxWaitMillis, Lease: MaxLeaseMillis + 1}, InvalidLease},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if f, ok := CheckAcquire(&tt.r); ok || f != tt.want {
				t.Errorf("CheckAcquire = %v, %v; want %v", f, ok, tt.want)
			}
		})
	}
	if f, ok := CheckRelease(&Request{Owner: 0, Key: []byte(" ")}); ok || f != InvalidOwner {
		t.Errorf("CheckRelease = %v, %v; want %v", f, ok, InvalidOwner)
	}
}

// A reply field that its op does not have is reserved: each bit of it alone makes the frame malformed, and no
// other bit does.
func TestReservedReplyBits(t *testing.T) {
	const size, code, millis, owner, token = 1, 2, 4, 8, 16 // offsets
	fields := map[int]int{size: 1, code: 2, millis: 4, owner: 8, token: 8}
	allowed := map[Op][]int{
		OpGranted: {millis, owner, token}, OpTimeout: {owner}, OpReleased: {owner, token}, OpNotHeld: {owner, token}, OpPong: {owner},
		OpBusy: {code, millis, owner}, OpError: {size, code, owner}, OpMoved: {size, token},
	}
	for op := range 256 {
		has, known := allowed[Op(op)]
		for field, bytes := range fields {
			free := false
			for _, f := range has {
				free = free || f == field
			}
			for bit := range bytes * 8 {
				frame := make([]byte, HeaderSize+MaxText)
				frame[0] = byte(op)
				frame[field+bit/8] = 1 << (bit % 8)
				if _, err := decodeReply(frame); (err == nil) != (known && free) {
					t.Errorf("op %q, field at %d, bit %d: %v", rune(op), field, bit, err)
				}
			}
		}
	}
}

func TestAppendRefusesWhatCannotBeDecoded(t *testing.T) {
	long := bytes.Repeat([]byte("k"), 257)
	for _, r := range []Request{
		{Op: 'X', Owner: 1, Key: []byte("k")}, {Op: OpAcquire, Owner: 1}, {Op: OpRelease, Owner: 1},
		{Op: OpAcquire, Owner: 1, Key: long[:129]}, {Op: OpRelease, Owner: 1, Key: long},
	} {
		if b := AppendRequest([]byte("x"), &r); string(b) != "x" {
			t.Errorf("AppendRequest(%v, %d bytes of key) appended %x", r.Op, len(r.Key), b[1:])
		}
	}
	for _, op := range []Op{OpMoved, OpError} {
		if n, err := decodeReply(AppendReply(nil, &Reply{Op: op, Text: long})); n != HeaderSize+MaxText || err != nil {
			t.Errorf("%v with a long text: decode = %d, %v", op, n, err)
		}
	}
	if n, err := decodeReply(AppendReply(nil, &Reply{Op: OpGranted, Text: long})); n != HeaderSize || err != nil {
		t.Errorf("A with a text: decode = %d, %v", n, err)
	}
}

func TestKeyCannotGrowIntoTheBuffer(t *testing.T) {
	buf := AppendRequest(nil, &Request{Op: OpRelease, Owner: 1, Key: []byte("k")})
	buf = AppendRequest(buf, &Request{Op: OpPing, Owner: 2})
	want := bytes.Clone(buf)
	var r Request
	if _, err := DecodeRequest(buf, &r); err != nil {
		t.Fatal(err)
	}
	r.Key = append(r.Key, "overwrites the frame behind it?"...)
	if !bytes.Equal(buf, want) {
		t.Error("appending to the decoded key changed the buffer")
	}
}

func TestV1DoesNotAllocate(t *testing.T) {
	frames := readV1(t)
	buf := make([]byte, 0, 1024)
	n := testing.AllocsPerRun(100, func() {
		var req Request
		for _, v := range frames.Requests {
			DecodeRequest(v.Hex, &req)
			CheckAcquire(&req)
			buf = AppendRequest(buf[:0], &req)
		}
		for _, v := range frames.Malformed {
			DecodeRequest(v.Hex, &req)
		}
		var rep Reply
		for _, v := range frames.Replies {
			DecodeReply(v.Hex, &rep)
			buf = AppendReply(buf[:0], &rep)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations; want 0", n)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	v := readV1(f)
	for _, r := range v.Requests {
		f.Add([]byte(r.Hex))
	}
	for _, r := range v.Malformed {
		f.Add([]byte(r.Hex))
	}
	for _, r := range v.Rejected {
		f.Add([]byte(r.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:len(b):len(b)]
		before := bytes.Clone(b)
		var r Request
		n, err := DecodeRequest(b, &r)
		checkDecoded(t, b, before, n, err)
		if n > 0 {
			if again := AppendRequest(nil, &r); !bytes.Equal(again, b[:n]) {
				t.Errorf("encode(decode(%x)) = %x", b[:n], again)
			}
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	for _, r := range readV1(f).Replies {
		f.Add([]byte(r.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:len(b):len(b)]
		before := bytes.Clone(b)
		var r Reply
		n, err := DecodeReply(b, &r)
		checkDecoded(t, b, before, n, err)
		if n > 0 {
			if again := AppendReply(nil, &r); !bytes.Equal(again, b[:n]) {
				t.Errorf("encode(decode(%x)) = %x", b[:n], again)
			}
		}
	})
}

// checkDecoded requires what holds for every decoder and every input.
func checkDecoded(t *testing.T, b, before []byte, n int, err error) {
	t.Helper()
	if n < 0 || n > len(b) || n > 0 && err != nil && err != TooManyConnections {
		t.Fatalf("decode of %d bytes = %d, %v", len(b), n, err)
	}
	if !bytes.Equal(b, before) {
		t.Fatal("decoding changed its input")
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	var buf []byte
	for i := range 64 {
		r := Request{Op: OpAcquire, Wait: 5000, Lease: 30000, Owner: uint64(i + 1), Key: []byte("0123456789abcdef")}
		if i%2 == 1 {
			r.Op, r.Token = OpRelease, 7
		}
		buf = AppendRequest(buf, &r)
	}
	b.ReportAllocs()
	var r Request
	for b.Loop() {
		for rest := buf; len(rest) > 0; {
			n, err := DecodeRequest(rest, &r)
			if err != nil || n == 0 {
				b.Fatal(n, err)
			}
			rest = rest[n:]
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/frame")
}

func BenchmarkDecodeReply(b *testing.B) {
	frame := AppendReply(nil, &Reply{Op: OpGranted, Millis: 3, Owner: 7, Token: 42})
	var r Reply
	b.ReportAllocs()
	for b.Loop() {
		if n, err := DecodeReply(frame, &r); err != nil || n == 0 {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	r := Request{Op: OpAcquire, Wait: 5000, Lease: 30000, Owner: 7, Key: []byte("0123456789abcdef")}
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendRequest(buf[:0], &r)
	}
}

func BenchmarkAppendReply(b *testing.B) {
	r := Reply{Op: OpGranted, Millis: 3, Owner: 7, Token: 42}
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendReply(buf[:0], &r)
	}
}
