package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// patience is how long a test waits for what must come; nothing is asserted about how fast it comes.
const patience = 30 * time.Second

// logBuffer is a log that a test can look into while the server writes it.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// testServer is a running server on free ports.
type testServer struct {
	*Server
	log  *logBuffer
	done chan error
	once sync.Once
}

// startServer runs a server with the defaults, changed by adjust, until the test ends.
func startServer(t testing.TB, adjust func(*Config)) *testServer {
	t.Helper()
	return runServer(t, openServer(t, 1, adjust), nil)
}

// openServer opens a server without running it.
func openServer(t testing.TB, loops int, adjust func(*Config)) *testServer {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	if adjust != nil {
		adjust(&cfg)
	}
	log := &logBuffer{}
	s, err := newServer(cfg, NewLogger(log, "debug", "text"), loops)
	if err != nil {
		t.Fatalf("starting the server: %v", err)
	}
	return &testServer{Server: s, log: log, done: make(chan error, 1)}
}

// runServer runs ts, changed by tweak, until the test ends.
func runServer(t testing.TB, ts *testServer, tweak func(*Server)) *testServer {
	t.Helper()
	if tweak != nil {
		tweak(ts.Server)
	}
	go func() { ts.done <- ts.Run(context.Background()) }()
	t.Cleanup(ts.end)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server on %v:\n%s", ts.Addr(), ts.log)
		}
	})
	return ts
}

// end stops the server without waiting for holders.
func (ts *testServer) end() {
	ts.once.Do(func() {
		ts.Kill()
		<-ts.done
	})
}

// waitLog waits until the log has a line with text.
func (ts *testServer) waitLog(t testing.TB, text string) {
	t.Helper()
	await(t, "the log line "+text, func() bool { return strings.Contains(ts.log.String(), text) })
}

// await polls for something that happens outside of the test's own connections.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(patience)
	defer over.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-over.C:
			t.Fatalf("%s did not come", what)
		}
	}
}

// testClient speaks either protocol over a bare connection.
type testClient struct {
	t testing.TB
	net.Conn
	in      *bufio.Reader
	nonce   []byte
	binding []byte
	welcome wire.Welcome
}

// dial connects and reads the greeting.
func (ts *testServer) dial(t testing.TB) *testClient {
	t.Helper()
	nc, err := net.Dial("tcp", ts.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return newTestClient(t, nc)
}

// dialTLS does the same over TLS.
func (ts *testServer) dialTLS(t testing.TB, cfg *tls.Config) *testClient {
	t.Helper()
	nc, err := tls.Dial("tcp", ts.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, nc)
	if c.binding, err = tlsconf.Binding(nc.ConnectionState()); err != nil {
		t.Fatal(err)
	}
	return c
}

func newTestClient(t testing.TB, nc net.Conn) *testClient {
	t.Helper()
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	c := &testClient{t: t, Conn: nc, in: bufio.NewReader(nc)}
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		t.Fatalf("reading the greeting: %v (got %q)", err, line)
	}
	nonce, _, err := wire.ParseGreeting(line)
	if err != nil {
		t.Fatalf("greeting %q: %v", line, err)
	}
	c.nonce = bytes.Clone(nonce)
	return c
}

// hello is the v1 hello that proves token on this connection.
func (c *testClient) hello(token, name string) []byte {
	h := wire.Hello{Nonce: [32]byte{1, 2, 3}, Name: []byte(name)}
	h.Proof = auth.ClientProof([]byte(token), c.nonce, h.Nonce[:], c.binding, h.Name)
	return wire.AppendHello(nil, &h)
}

// login makes a v1 session.
func (c *testClient) login(token, name string) *testClient {
	c.t.Helper()
	c.send(c.hello(token, name))
	b := c.take(wire.WelcomeSize)
	if n, err := wire.DecodeWelcome(b, &c.welcome); n == 0 {
		c.t.Fatalf("welcome %x: %v", b, err)
	}
	want := auth.ServerProof([]byte(token), append([]byte{1, 2, 3}, make([]byte, 29)...), c.nonce, c.binding)
	if c.welcome.Proof != want {
		c.t.Fatal("the server's proof is wrong")
	}
	return c
}

// session connects and makes a v1 session with the empty token.
func (ts *testServer) session(t testing.TB) *testClient {
	t.Helper()
	return ts.dial(t).login("", "test")
}

// legacy connects and makes a v0 session with the empty token.
func (ts *testServer) legacy(t testing.TB) *testClient {
	t.Helper()
	c := ts.dial(t)
	digest := auth.LegacyDigest(nil, c.nonce)
	c.send(append(digest[:], '\n'))
	return c
}

func (c *testClient) send(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
}

func (c *testClient) take(n int) []byte {
	c.t.Helper()
	b := make([]byte, n)
	if got, err := io.ReadFull(c.in, b); err != nil {
		c.t.Fatalf("reading %d bytes: %v (got %x)", n, err, b[:got])
	}
	return b
}

// reply reads one v1 reply.
func (c *testClient) reply() wire.Reply {
	c.t.Helper()
	b := c.take(wire.HeaderSize)
	b = append(b, c.take(int(b[1]))...)
	var r wire.Reply
	if n, err := wire.DecodeReply(b, &r); n != len(b) {
		c.t.Fatalf("reply %x: %v", b, err)
	}
	return r
}

// expect reads one v1 reply and compares what identifies it.
func (c *testClient) expect(op wire.Op, code uint16, owner uint64) wire.Reply {
	c.t.Helper()
	r := c.reply()
	if r.Op != op || r.Code != code || r.Owner != owner {
		c.t.Fatalf("got %c code %d owner %d, want %c code %d owner %d", r.Op, r.Code, r.Owner, op, code, owner)
	}
	return r
}

// expectLine reads the v0 bytes want.
func (c *testClient) expectLine(want string) {
	c.t.Helper()
	if got := string(c.take(len(want))); got != want {
		c.t.Fatalf("got %q, want %q", got, want)
	}
}

// expectGrant reads a v0 grant of key and returns its token.
func (c *testClient) expectGrant(key string) uint64 {
	c.t.Helper()
	b := c.take(1 + 8 + len(key) + 1)
	var r wire.LegacyReply
	if n, err := wire.DecodeLegacyReply(b, &r); n != len(b) || r.Op != wire.OpGranted || string(r.Text) != key {
		c.t.Fatalf("got %q (%v), want a grant of %q", b, err, key)
	}
	return r.Token
}

// expectEnd reads to the end of the stream, which must come without anything before it.
func (c *testClient) expectEnd() {
	c.t.Helper()
	if b, err := io.ReadAll(c.in); len(b) > 0 || err != nil {
		c.t.Fatalf("got %q and %v, want the end of the stream", b, err)
	}
}

func acquire(owner uint64, key string, wait, lease uint32) []byte {
	return wire.AppendRequest(nil, &wire.Request{Op: wire.OpAcquire, Owner: owner, Key: []byte(key), Wait: wait, Lease: lease})
}

func release(owner, token uint64, key string) []byte {
	return wire.AppendRequest(nil, &wire.Request{Op: wire.OpRelease, Owner: owner, Token: token, Key: []byte(key)})
}

func ping(owner uint64) []byte {
	return wire.AppendRequest(nil, &wire.Request{Op: wire.OpPing, Owner: owner})
}

func acquireV0(key string, wait, lease uint16) []byte {
	return wire.AppendLegacyRequest(nil, &wire.LegacyRequest{Op: wire.OpAcquire, Key: []byte(key), WaitSeconds: wait, LeaseSeconds: lease})
}

func releaseV0(key string) []byte {
	return wire.AppendLegacyRequest(nil, &wire.LegacyRequest{Op: wire.OpRelease, Key: []byte(key)})
}

// join is one write of several frames.
func join(frames ...[]byte) []byte { return bytes.Join(frames, nil) }
