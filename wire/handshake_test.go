package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

type handshakeVectors struct {
	Cases []struct {
		Name        string `json:"name"`
		Greeting    unhex  `json:"greeting_hex"`
		Nonce       string `json:"nonce"`
		ClientNonce unhex  `json:"client_nonce_hex"`
		ClientName  string `json:"client_name"`
		Domain      unhex  `json:"domain_hex"`
		Role        Role   `json:"role"`
		InFlight    uint32 `json:"max_in_flight"`
		Leader      string `json:"leader"`
		ClientProof unhex  `json:"client_proof_hex"`
		ServerProof unhex  `json:"server_proof_hex"`
		Hello       unhex  `json:"client_hello_hex"`
		Welcome     unhex  `json:"welcome_hex"`
	} `json:"cases"`
	MalformedHellos []struct {
		Name  string  `json:"name"`
		Hello unhex   `json:"client_hello_hex"`
		Code  Failure `json:"code"`
	} `json:"malformed_hellos"`
	FirstByte []struct {
		Byte    unhex   `json:"byte_hex"`
		Version *string `json:"version"`
	} `json:"first_byte"`
}

func readHandshake(tb testing.TB) *handshakeVectors {
	tb.Helper()
	var v handshakeVectors
	readVectors(tb, "../auth/testdata/client-v1-handshake.json", &v)
	if len(v.Cases) == 0 || len(v.MalformedHellos) == 0 || len(v.FirstByte) != 256 {
		tb.Fatal("a list of the vectors is not whole")
	}
	return &v
}

func decodeHello(b []byte) (int, error)   { var h Hello; return DecodeHello(b, &h) }
func decodeWelcome(b []byte) (int, error) { var w Welcome; return DecodeWelcome(b, &w) }
func parseGreeting(b []byte) (int, error) { _, n, err := ParseGreeting(b); return n, err }

func TestHandshakeVectors(t *testing.T) {
	for _, v := range readHandshake(t).Cases {
		t.Run(v.Name, func(t *testing.T) {
			checkWholeFrame(t, v.Greeting, parseGreeting)
			checkWholeFrame(t, v.Hello, decodeHello)
			checkWholeFrame(t, v.Welcome, decodeWelcome)

			if nonce, _, err := ParseGreeting(v.Greeting); string(nonce) != v.Nonce || err != nil {
				t.Errorf("nonce %q, %v; want %q", nonce, err, v.Nonce)
			}
			if b := AppendGreeting(nil, []byte(v.Nonce)); !bytes.Equal(b, v.Greeting) || len(b) != GreetingSize {
				t.Errorf("greeting %q; want %q", b, v.Greeting)
			}

			var h Hello
			if _, err := DecodeHello(v.Hello, &h); err != nil || !bytes.Equal(h.Nonce[:], v.ClientNonce) ||
				!bytes.Equal(h.Proof[:], v.ClientProof) || string(h.Name) != v.ClientName {
				t.Errorf("hello %+v, %v", h, err)
			}
			if b := AppendHello([]byte("x"), &h); string(b) != "x"+string(v.Hello) {
				t.Errorf("hello %x; want %x", b, v.Hello)
			}

			var w Welcome
			if _, err := DecodeWelcome(v.Welcome, &w); err != nil || w.Role != v.Role || w.InFlight != v.InFlight ||
				!bytes.Equal(w.Domain[:], v.Domain) || !bytes.Equal(w.Proof[:], v.ServerProof) || string(w.Leader) != v.Leader {
				t.Errorf("welcome %+v, %v", w, err)
			}
			if b := AppendWelcome([]byte("x"), &w); string(b) != "x"+string(v.Welcome) {
				t.Errorf("welcome %x; want %x", b, v.Welcome)
			}
		})
	}
}

func TestMalformedHelloVectors(t *testing.T) {
	for _, v := range readHandshake(t).MalformedHellos {
		t.Run(v.Name, func(t *testing.T) {
			for _, size := range []int{4, HelloSize, len(v.Hello)} {
				if n, err := decodeHello(v.Hello[:size:size]); n != 0 || err != v.Code {
					t.Errorf("decode of %d bytes = %d, %v; want %v", size, n, err, v.Code)
				}
			}
		})
	}
}

func TestHelloWithABadName(t *testing.T) {
	for _, name := range []string{"a\nb", "a\xff", "a\x7f"} {
		hello := AppendHello(nil, &Hello{Name: []byte(strings.Repeat("n", len(name)))})
		copy(hello[HelloSize:], name)
		if n, err := decodeHello(hello); n != 0 || err != Malformed {
			t.Errorf("name %q: decode = %d, %v; want %v", name, n, err, Malformed)
		}
		if n, err := decodeHello(AppendHello(nil, &Hello{Name: []byte(name)})); n != HelloSize || err != nil {
			t.Errorf("name %q: what AppendHello made decodes as %d, %v", name, n, err)
		}
	}
}

func TestFirstByteVectors(t *testing.T) {
	for _, v := range readHandshake(t).FirstByte {
		want := Unsupported
		if v.Version != nil {
			want = map[string]Protocol{"v0": V0, "v1": V1}[*v.Version]
		}
		if got := Version(v.Byte[0]); got != want {
			t.Errorf("Version(%#02x) = %v; want %v", v.Byte[0], got, want)
		}
		if _, err := decodeHello(v.Byte); (err == UnsupportedVersion) != (want != V1) {
			t.Errorf("DecodeHello(%x) = %v", v.Byte, err)
		}
	}
}

func TestMalformedWelcome(t *testing.T) {
	patch := func(role Role, leader string, at int, to byte) []byte {
		b := AppendWelcome(nil, &Welcome{Role: role, Leader: []byte(leader)})
		b[at] = to
		return b
	}
	tests := []struct {
		name string
		b    []byte
	}{
		{"version 0", patch(RoleServing, "", 0, 0)},
		{"role 0", patch(RoleServing, "", 1, 0)},
		{"role 3", patch(RoleServing, "", 1, 3)},
		{"a node that serves names a leader", patch(RoleNotLeader, "a:1", 1, byte(RoleServing))},
		{"an address of 256 bytes and more", patch(RoleNotLeader, "a:1", 2, 1)},
		{"an E frame", AppendReply(nil, &Reply{Op: OpError, Code: uint16(AuthFailed)})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{4, len(tt.b)} {
				if n, err := decodeWelcome(tt.b[:size:size]); n != 0 || err != Malformed {
					t.Errorf("decode of %d bytes = %d, %v; want %v", size, n, err, Malformed)
				}
			}
		})
	}
	for _, leader := range []string{strings.Repeat("h", 256), strings.Repeat("h", 1<<16)} {
		if n, err := decodeWelcome(AppendWelcome(nil, &Welcome{Role: RoleNotLeader, Leader: []byte(leader)})); n != WelcomeSize || err != nil {
			t.Errorf("what AppendWelcome made of a leader of %d bytes decodes as %d, %v", len(leader), n, err)
		}
	}
}

func TestRefusedGreeting(t *testing.T) {
	nonce := strings.Repeat("n", NonceTextSize)
	tests := []struct {
		name string
		line string
		want error
	}{
		{"too many connections", "Etoo_many_connections\n", TooManyConnections},
		{"an unknown reason", "Esomething_else\n", Malformed},
		{"empty", "\n", Malformed},
		{"another hash", "SHA512 " + nonce + "\n", Malformed},
		{"a short nonce", "SHA256 " + nonce[1:] + "\n", Malformed},
		{"a long nonce", "SHA256 n" + nonce + "\n", Malformed},
		{"a nonce that is no base64url", "SHA256 +" + nonce[1:] + "\n", Malformed},
		{"a carriage return", "SHA256 " + nonce + "\r\n", Malformed},
		{"no newline in 256 bytes", strings.Repeat("S", 256), Malformed},
		{"another service", "HTTP/1.1 400 Bad Request\r\n\r\n", Malformed},
		{"255 bytes, more to come", strings.Repeat("S", 255), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if nonce, _, err := ParseGreeting([]byte(tt.line)); !errors.Is(err, tt.want) || nonce != nil {
				t.Errorf("ParseGreeting = %q, %v; want %v", nonce, err, tt.want)
			}
		})
	}
}

func TestHandshakeDoesNotAllocate(t *testing.T) {
	v := readHandshake(t)
	buf := make([]byte, 0, 1024)
	n := testing.AllocsPerRun(100, func() {
		for _, c := range v.Cases {
			nonce, _, _ := ParseGreeting(c.Greeting)
			buf = AppendGreeting(buf[:0], nonce)
			var h Hello
			DecodeHello(c.Hello, &h)
			buf = AppendHello(buf[:0], &h)
			var w Welcome
			DecodeWelcome(c.Welcome, &w)
			buf = AppendWelcome(buf[:0], &w)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations; want 0", n)
	}
}

func FuzzHandshake(f *testing.F) {
	v := readHandshake(f)
	for _, c := range v.Cases {
		f.Add([]byte(c.Greeting))
		f.Add([]byte(c.Hello))
		f.Add([]byte(c.Welcome))
	}
	for _, c := range v.MalformedHellos {
		f.Add([]byte(c.Hello))
	}
	f.Add([]byte("Etoo_many_connections\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:len(b):len(b)]
		before := bytes.Clone(b)
		nonce, n, err := ParseGreeting(b)
		checkDecoded(t, b, before, n, err)
		if n > 0 && err == nil && !bytes.Equal(AppendGreeting(nil, nonce), b[:n]) {
			t.Errorf("greeting %q is not what its nonce makes", b[:n])
		}
		var h Hello
		n, err = DecodeHello(b, &h)
		checkDecoded(t, b, before, n, err)
		if n > 0 && !bytes.Equal(AppendHello(nil, &h), b[:n]) {
			t.Errorf("hello %x is not what its fields make", b[:n])
		}
		var w Welcome
		n, err = DecodeWelcome(b, &w)
		checkDecoded(t, b, before, n, err)
		if n > 0 && !bytes.Equal(AppendWelcome(nil, &w), b[:n]) {
			t.Errorf("welcome %x is not what its fields make", b[:n])
		}
	})
}
