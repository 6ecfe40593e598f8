package server

import (
	"net"
	"strings"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestAcquireReleaseHandOff(t *testing.T) {
	ts := startServer(t, nil)
	a, b := ts.session(t), ts.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	first := a.expect(wire.OpGranted, 0, 1)
	b.send(acquire(2, "k", 0, 30_000))
	b.expect(wire.OpTimeout, 0, 2)
	b.send(join(acquire(3, "k", 60_000, 30_000), ping(9)))
	b.expect(wire.OpPong, 0, 9)
	a.send(release(1, first.Token, "k"))
	if r := a.expect(wire.OpReleased, 0, 1); r.Token != first.Token {
		t.Fatalf("R names token %d, want %d", r.Token, first.Token)
	}
	if second := b.expect(wire.OpGranted, 0, 3); second.Token <= first.Token {
		t.Fatalf("token %d after %d", second.Token, first.Token)
	}
	a.send(release(1, first.Token, "k"))
	a.expect(wire.OpNotHeld, 0, 1)
}

func TestWelcomeNamesRoleLimitAndDomain(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.MaxInFlight = 17 })
	a, b := ts.session(t), ts.session(t)
	if a.welcome.Role != wire.RoleServing || a.welcome.InFlight != 17 || len(a.welcome.Leader) != 0 {
		t.Fatalf("welcome %+v", a.welcome)
	}
	if a.welcome.Domain == ([16]byte{}) || a.welcome.Domain != b.welcome.Domain {
		t.Fatalf("domains %x and %x", a.welcome.Domain, b.welcome.Domain)
	}
}

func TestGreetingsAreFresh(t *testing.T) {
	ts := startServer(t, nil)
	if a, b := ts.dial(t), ts.dial(t); string(a.nonce) == string(b.nonce) {
		t.Fatalf("the same nonce twice: %s", a.nonce)
	}
}

// A hello and the first requests in one write: allowed, if not what our client does.
func TestRequestsRightBehindTheHello(t *testing.T) {
	ts := startServer(t, nil)
	c := ts.dial(t)
	c.send(join(c.hello("", "eager"), acquire(1, "k", 0, 5_000)))
	c.take(wire.WelcomeSize)
	c.expect(wire.OpGranted, 0, 1)
}

func TestFramesCutAtEveryByte(t *testing.T) {
	ts := startServer(t, nil)
	c := ts.session(t)
	stream := join(acquire(1, "cut", 0, 5_000), ping(2), acquire(3, "cut", 0, 5_000))
	for i := range stream {
		c.send(stream[i : i+1])
	}
	c.expect(wire.OpGranted, 0, 1)
	c.expect(wire.OpPong, 0, 2)
	c.expect(wire.OpTimeout, 0, 3)
}

func TestWaitEndsWithT(t *testing.T) {
	ts := startServer(t, nil)
	a, b := ts.session(t), ts.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	a.expect(wire.OpGranted, 0, 1)
	started := time.Now()
	b.send(acquire(2, "k", 50, 30_000))
	b.expect(wire.OpTimeout, 0, 2)
	if waited := time.Since(started); waited < 50*time.Millisecond {
		t.Fatalf("T after %v, before the wait was over", waited)
	}
}

func TestLeaseEndHandsOff(t *testing.T) {
	ts := startServer(t, nil)
	a, b := ts.session(t), ts.session(t)
	a.send(acquire(1, "k", 0, 1_000))
	first := a.expect(wire.OpGranted, 0, 1)
	granted := time.Now()
	b.send(acquire(2, "k", 30_000, 1_000))
	b.expect(wire.OpGranted, 0, 2)
	if held := time.Since(granted); held < 990*time.Millisecond {
		t.Fatalf("the lease of 1 s ended after %v", held)
	}
	a.send(release(1, first.Token, "k"))
	a.expect(wire.OpNotHeld, 0, 1)
}

func TestWithdrawal(t *testing.T) {
	ts := startServer(t, nil)
	a, b, c := ts.session(t), ts.session(t), ts.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	held := a.expect(wire.OpGranted, 0, 1)
	b.send(acquire(2, "k", 30_000, 30_000))
	c.send(release(2, 0, "k")) // another connection's waiter
	c.expect(wire.OpNotHeld, 0, 2)
	b.send(release(2, 0, "k"))
	b.expect(wire.OpTimeout, 0, 2)
	b.expect(wire.OpReleased, 0, 2)
	b.send(release(2, 0, "k"))
	b.expect(wire.OpNotHeld, 0, 2)
	a.send(release(1, held.Token, "k"))
	a.expect(wire.OpReleased, 0, 1)
}

func TestWaiterDiesWithItsConnectionAndHolderDoesNot(t *testing.T) {
	ts := startServer(t, nil)
	a, b, c := ts.session(t), ts.session(t), ts.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	held := a.expect(wire.OpGranted, 0, 1)
	a.Close()
	b.send(join(acquire(2, "k", 30_000, 30_000), ping(5)))
	b.expect(wire.OpPong, 0, 5)
	b.Close()
	await(t, "the end of the waiter", func() bool { return ts.stats().Waiters == 0 })
	c.send(acquire(3, "k", 0, 30_000))
	c.expect(wire.OpTimeout, 0, 3)
	c.send(release(1, held.Token, "k"))
	c.expect(wire.OpReleased, 0, 1)
}

// stats is a copy of the manager's counters.
func (ts *testServer) stats() (s struct{ Held, Waiters int }) {
	ts.engine.mu.Lock()
	defer ts.engine.mu.Unlock()
	m := ts.engine.manager.Stats()
	s.Held, s.Waiters = m.Held, m.Waiters
	return s
}

// The end of the client's stream ends the connection; what is decided is written once more.
func TestHalfCloseIsAnsweredAndEnds(t *testing.T) {
	ts := startServer(t, nil)
	c := ts.session(t)
	c.send(join(acquire(1, "k", 0, 5_000), ping(2)))
	c.Conn.(*net.TCPConn).CloseWrite()
	c.expect(wire.OpGranted, 0, 1)
	c.expect(wire.OpPong, 0, 2)
	c.expectEnd()
}

func TestOwnerInFlightCannotBeUsedTwice(t *testing.T) {
	ts := startServer(t, nil)
	a, b := ts.session(t), ts.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	a.expect(wire.OpGranted, 0, 1)
	b.send(join(acquire(2, "k", 30_000, 30_000), acquire(2, "other", 0, 30_000)))
	b.expect(wire.OpError, uint16(wire.InvalidOwner), 2)
}

func TestWrongTokenIsRefusedAndCounted(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Tokens = []Secret{"a long enough secret"} })
	c := ts.dial(t)
	c.send(c.hello("another secret", "x"))
	r := c.reply()
	if r.Op != wire.OpError || wire.Failure(r.Code) != wire.AuthFailed || r.Owner != 0 {
		t.Fatalf("got %+v", r)
	}
	c.expectEnd()
	ts.waitLog(t, "does not know the token")
	c = ts.dial(t)
	c.send([]byte(strings.Repeat("A", 43) + "\n"))
	c.expectLine("Eauth_failed\n")
	c.expectEnd()
}

func TestEveryAcceptedTokenOpensASession(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Tokens = []Secret{"the former secret", "the present secret"} })
	for _, token := range []string{"the former secret", "the present secret"} {
		ts.dial(t).login(token, "x").send(ping(1))
	}
}

func TestStrangersGetAReasonAndALogLine(t *testing.T) {
	ts := startServer(t, nil)
	for _, test := range []struct{ name, sent, log, got string }{
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "speaks TLS to this port", ""},
		{"HTTP", "GET /a/path/that/is/long/enough/to/be/no/digest HTTP/1.1\r\n\r\n", "speaks HTTP to the lock port", "Eauth_failed\n"},
		{"binary", "\x00\x01\x02", "does not speak the lock protocol", ""},
		{"short line", "hello\n", "does not speak the lock protocol", "Eauth_failed\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := ts.dial(t)
			c.send([]byte(test.sent))
			if test.got == "" {
				c.expect(wire.OpError, uint16(wire.UnsupportedVersion), 0)
			} else {
				c.expectLine(test.got)
			}
			c.expectEnd()
			ts.waitLog(t, test.log)
		})
	}
}

func TestMalformedHello(t *testing.T) {
	ts := startServer(t, nil)
	for name, change := range map[string]func([]byte) []byte{
		"reserved byte": func(b []byte) []byte { b[2] = 1; return b },
		"name too long": func(b []byte) []byte { b[1] = 65; return b },
		"control in the name": func(b []byte) []byte {
			b[1] = 1
			return append(b, 7)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := ts.dial(t)
			c.send(change(c.hello("", "")))
			c.expect(wire.OpError, uint16(wire.Malformed), 0)
			c.expectEnd()
		})
	}
}
