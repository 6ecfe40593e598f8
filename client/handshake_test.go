package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// handshakes opens a Broker to a host whose handshake the test does itself.
func (w *world) handshakes(cfg Config) (*Broker, *remote) {
	w.Helper()
	h := w.host("a:1", func(h *host) { h.hold = true })
	cfg.Addrs = []string{"a:1", "down:1"}
	b := w.openWith(cfg, nil)
	return b, w.next(h)
}

// obstacle returns what WaitReady says of a:1 within a second of waiting.
func (w *world) obstacle(b *Broker, in time.Duration) error {
	ctx, cancel := context.WithTimeout(w.Context(), in)
	defer cancel()
	return b.WaitReady(ctx)
}

func TestHello(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.handshakes(Config{Name: "billing@host1[4211]"})
		nonce := auth.EncodeNonce(nil, &[32]byte{1})
		r.write(wire.AppendGreeting(nil, nonce))
		hello, err := r.readHello()
		if err != nil {
			w.Fatal(err)
		}
		_, ok := auth.NewTokens([]byte(testToken)).MatchClient(hello.Proof[:], nonce, hello.Nonce[:], nil, hello.Name)
		if !ok || string(hello.Name) != "billing@host1[4211]" {
			w.Errorf("hello of %q, proof %v", hello.Name, ok)
		}
		// Nothing is sent before the server has proved itself.
		call := w.acquire(w.Context(), "k")
		r.silent()
		welcome := wire.Welcome{Role: wire.RoleServing, InFlight: 9, Domain: domainOne}
		welcome.Proof = auth.ServerProof([]byte(testToken), hello.Nonce[:], nonce, nil)
		// What stands right behind the welcome is read too.
		r.write(wire.AppendReply(wire.AppendWelcome(nil, &welcome), &wire.Reply{Op: wire.OpMoved, Token: 4, Text: []byte("a:1")}))
		r.grant(r.acquire("k"), 1)
		call.granted()
		if s := b.Stats(); s.Leader != "a:1" {
			w.Errorf("stats %+v", s)
		}
	})
}

func TestServerThatDoesNotKnowTheToken(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.host("a:1", func(h *host) { h.token = "another" })
		b := w.openWith(Config{Addrs: []string{"a:1"}}, nil)
		r := w.next(h)
		call := w.acquire(w.Context(), "k")
		began := w.clock.Now()
		err := b.WaitReady(w.Context()) // without a time limit of its own
		if !errors.Is(err, ErrAuth) || w.clock.Now() != began {
			w.Errorf("WaitReady says %v after %v", err, w.clock.Now()-began)
		}
		r.silent()
		if !r.ended() {
			w.Error("the connection is up")
		}
		call.fails(ErrBusy, ErrAuth)
	})
}

func TestServerRefusesTheToken(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.handshakes(Config{})
		r.write(wire.AppendGreeting(nil, auth.EncodeNonce(nil, &[32]byte{1})))
		if _, err := r.readHello(); err != nil {
			w.Fatal(err)
		}
		r.send(wire.Reply{Op: wire.OpError, Code: uint16(wire.AuthFailed), Text: []byte("wrong")})
		r.hangUp()
		if err := w.obstacle(b, time.Millisecond); !errors.Is(err, ErrAuth) || !errors.Is(err, wire.AuthFailed) {
			w.Errorf("got %v", err)
		}
	})
}

func TestHandshakeMessages(t *testing.T) {
	greeting := wire.AppendGreeting(nil, auth.EncodeNonce(nil, &[32]byte{1}))
	tests := []struct {
		name  string
		says  []byte
		hello bool // the hello is awaited and answered with:
		then  []byte
		want  string
	}{
		{name: "an HTTP server", says: []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), want: `no Ticketing server: it says "HTTP/1.1 400 Bad Request`},
		{name: "too many connections", says: []byte("Etoo_many_connections\n"), want: "too_many_connections"},
		{name: "a server that hangs up", want: "if the server speaks TLS, set TLS"},
		{name: "a greeting without an end", says: make([]byte, 300), want: "no Ticketing server"},
		{name: "no version in common", says: greeting, hello: true,
			then: wire.AppendReply(nil, &wire.Reply{Op: wire.OpError, Code: uint16(wire.UnsupportedVersion), Text: []byte("only v9")}), want: "only v9"},
		{name: "garbage for a welcome", says: greeting, hello: true, then: []byte("garbage"), want: "read the welcome"},
		{name: "hangs up on the hello", says: greeting, hello: true, want: "the server ended the handshake"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				b, r := w.handshakes(Config{})
				r.write(tt.says)
				if tt.hello {
					if _, err := r.readHello(); err != nil {
						w.Fatal(err)
					}
					r.write(tt.then)
				}
				r.hangUp()
				err := w.obstacle(b, time.Millisecond)
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "a:1") || errors.Is(err, ErrAuth) {
					w.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// A greeting or welcome that stops anywhere is an error, and a server that says nothing is left after 5 s.
func TestHandshakeCutAtEachByte(t *testing.T) {
	for n := range wire.GreetingSize + wire.WelcomeSize {
		inWorld(t, func(w *world) {
			h := w.host("a:1", func(h *host) { h.hold = true })
			b := w.open("a:1")
			r := w.next(h)
			r.cutRepliesAfter(n)
			w.calls.Go(func() { r.shakeHands(h) })
			w.pass(time.Millisecond)
			if s := b.Stats(); s.Connections != 0 || s.DialFailures != 2 { // down:1 is the other
				w.Errorf("cut after %d bytes: stats %+v", n, s)
			}
		})
	}
}

func TestHandshakeTimeLimit(t *testing.T) {
	greeting := wire.AppendGreeting(nil, auth.EncodeNonce(nil, &[32]byte{1}))
	tests := []struct {
		name    string
		says    []byte
		welcome []byte
		want    string
	}{
		{"nothing, as a TLS server does", nil, nil, "if the server speaks TLS, set TLS"},
		{"a part of the greeting", greeting[:10], nil, "no greeting"},
		{"no welcome", greeting, nil, "the server ended the handshake"},
		{"a part of the welcome", greeting, []byte{1, 1, 0, 0, 0}, "the server ended the handshake"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				b, r := w.handshakes(Config{})
				r.write(tt.says)
				r.write(tt.welcome)
				began := w.clock.Now()
				for !r.ended() {
					w.pass(10 * time.Millisecond)
				}
				if took := w.clock.Now() - began; took != handshakeTime {
					w.Errorf("took %v", took)
				}
				if err := w.obstacle(b, time.Millisecond); !strings.Contains(err.Error(), tt.want) || !errors.Is(err, context.DeadlineExceeded) {
					w.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// The welcome of a node that does not serve names the leader.
func TestWelcomeOfFollower(t *testing.T) {
	inWorld(t, func(w *world) {
		ha := w.host("a:1", follower("x:1"))
		b := w.open("a:1")
		w.next(ha)
		err := w.obstacle(b, time.Second)
		if err == nil || !strings.Contains(err.Error(), "a:1: connected, and does not serve") || !strings.Contains(err.Error(), "connect to x:1") {
			w.Errorf("got %v", err)
		}
	})
}

// authority returns a server's configuration and a client's that trusts it.
func authority(t *testing.T, name string) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	certificate := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return &tls.Config{Certificates: []tls.Certificate{certificate}}, &tls.Config{RootCAs: roots}
}

// listen has serve talk on a real socket, as TLS in practice does.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// grantAll is a server that grants every acquire and confirms every release. It allocates nothing for them, so that
// allocations can be counted beside it.
func grantAll(conn net.Conn, binding []byte) {
	in := newInbox(conn)
	if welcome(conn, in, &host{role: wire.RoleServing, limit: 1000, domain: domainOne, token: testToken}, binding) != nil {
		return
	}
	var reply [wire.HeaderSize]byte
	var q wire.Request
	for token := uint64(1); ; {
		n, err := wire.DecodeRequest(in.bytes(), &q)
		if n == 0 {
			if err != nil || in.fill() != nil {
				return
			}
			continue
		}
		in.consume(n)
		wire.PutReplyHeader(&reply, wire.Op(q.Op), 0, 0, q.Owner, q.Token) // A, R and P are answered by A, R and P
		if q.Op == wire.OpAcquire {
			wire.PutReplyHeader(&reply, wire.OpGranted, 0, 0, q.Owner, token)
			token++
		}
		if _, err := conn.Write(reply[:]); err != nil {
			return
		}
	}
}

func TestTLS(t *testing.T) {
	server, trusting := authority(t, "lock.example")
	_, strange := authority(t, "lock.example")
	demanding := server.Clone()
	demanding.ClientAuth = tls.RequireAnyClientCert
	plain := func(conn net.Conn) { grantAll(conn, nil) }
	over := func(config *tls.Config) func(net.Conn) {
		return func(raw net.Conn) {
			conn := tls.Server(raw, config)
			if conn.Handshake() != nil {
				return
			}
			binding, err := tlsconf.Binding(conn.ConnectionState())
			if err != nil {
				return
			}
			grantAll(conn, binding)
		}
	}
	named := func(c *tls.Config, change func(*tls.Config)) *tls.Config {
		c = c.Clone()
		c.ServerName = "lock.example"
		if change != nil {
			change(c)
		}
		return c
	}
	tests := []struct {
		name   string
		serve  func(net.Conn)
		client *tls.Config
		want   string // "" for a ticket
		auth   bool
	}{
		{"TLS 1.3", over(server), named(trusting, nil), "", false},
		{"TLS 1.2", over(server), named(trusting, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), "", false},
		{"the name dialled is checked", over(server), trusting, "127.0.0.1", true},
		{"a certificate of another authority", over(server), named(strange, nil), "certificate", true},
		{"no certificate where one is wanted", over(demanding), named(trusting, nil), "certificate required", true},
		{"TLS to a plaintext port", plain, named(trusting, nil), `the server answers in plaintext ("SHA25`, false},
		{"a relay of the handshake", func(raw net.Conn) { // the binding is not that of this session
			conn := tls.Server(raw, server)
			if conn.Handshake() == nil {
				grantAll(conn, make([]byte, 32))
			}
		}, named(trusting, nil), "authentication failed", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, tt.serve)
			b, err := New(Config{Addrs: []string{addr}, Token: testToken, TLS: tt.client})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if tt.want == "" {
				for i := range 20 {
					ticket, err := b.Acquire(ctx, fmt.Sprint("k", i), time.Second, time.Second)
					if err != nil {
						t.Fatal(err)
					}
					if err := ticket.Release(ctx); err != nil {
						t.Fatal(err)
					}
				}
				return
			}
			for err = errors.New("connect: no answer yet"); strings.Contains(err.Error(), "no answer yet"); {
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				err = b.WaitReady(short)
				cancel()
				if err == nil {
					t.Fatal("ready")
				}
				if ctx.Err() != nil {
					t.Fatal("no error in 20 s")
				}
			}
			if !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrAuth) != tt.auth {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
