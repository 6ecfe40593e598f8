package main

import (
	"strings"
	"testing"

	"ticketing.internal/wire"
)

// answer makes a server's replies to the requests in b: A with rising tokens, R.
func answer(t *testing.T, b []byte, token *uint64) []byte {
	t.Helper()
	var out []byte
	for len(b) > 0 {
		var r wire.Request
		n, err := wire.DecodeRequest(b, &r)
		if n == 0 || err != nil {
			t.Fatalf("the load sends % x: %v", b, err)
		}
		b = b[n:]
		reply := wire.Reply{Op: wire.OpReleased, Owner: r.Owner, Token: r.Token}
		if f, ok := wire.CheckAcquire(&r); r.Op == wire.OpAcquire {
			if !ok {
				t.Fatalf("the load asks for what a server refuses: %v", f)
			}
			*token++
			reply.Op, reply.Token = wire.OpGranted, *token
		}
		out = wire.AppendReply(out, &reply)
	}
	return out
}

// take returns what a connection sends, and empties it.
func take(c *loadConn) []byte {
	b := append([]byte(nil), c.out...)
	c.out = c.out[:0]
	return b
}

func TestLoadGoesOnForEver(t *testing.T) {
	l := newLoad(script{}, "test", 8, 16, 1000, 2000)
	c := l.newConn(8, 0)
	c.start(0)
	token := uint64(0)
	for round := int64(1); round <= 10; round++ {
		if err := c.receive(answer(t, take(c), &token), round); err != nil {
			t.Fatal(err)
		}
	}
	if l.count.granted != 40 || l.count.released != 40 || l.inFlight != 8 || l.latency.total != 80 || l.latency.longest != 1 {
		t.Errorf("granted %d, released %d, in flight %d, latencies %d up to %d", l.count.granted, l.count.released, l.inFlight, l.latency.total, l.latency.longest)
	}
	l.stopping = true
	c.receive(answer(t, take(c), &token), 0)
	c.receive(answer(t, take(c), &token), 0)
	if l.inFlight != 0 || len(c.out) != 0 || l.count.granted != l.count.released {
		t.Errorf("at the end %d are in flight, granted %d, released %d", l.inFlight, l.count.granted, l.count.released)
	}
}

// Replies are cut anywhere by the network.
func TestLoadTakesRepliesInPieces(t *testing.T) {
	for size := 1; size < 60; size++ {
		l := newLoad(script{}, "test", 5, 16, 1000, 2000)
		c := l.newConn(5, 0)
		c.start(0)
		token := uint64(0)
		for range 4 {
			replies := wire.AppendReply(nil, &wire.Reply{Op: wire.OpMoved, Text: []byte("somewhere:5225")})
			replies = append(replies, answer(t, take(c), &token)...)
			for len(replies) > 0 {
				n := min(size, len(replies))
				if err := c.receive(replies[:n], 0); err != nil {
					t.Fatalf("pieces of %d bytes: %v", size, err)
				}
				replies = replies[n:]
			}
		}
		if l.count.granted != 10 || l.count.released != 10 {
			t.Errorf("pieces of %d bytes: granted %d, released %d", size, l.count.granted, l.count.released)
		}
	}
}

func TestLoadSweepsEachKeyOnce(t *testing.T) {
	for _, hold := range []bool{false, true} {
		l := newLoad(script{sweep: true, hold: hold}, "test", 10, 16, 0, 2000)
		c := l.newConn(4, 0)
		c.nextKey, c.lastKey = 0, 10
		c.start(0)
		token := uint64(0)
		keys := map[string]int{}
		for l.inFlight > 0 {
			sent := take(c)
			var r wire.Request
			for b := sent; len(b) > 0; {
				n, _ := wire.DecodeRequest(b, &r)
				b = b[n:]
				if r.Op == wire.OpAcquire {
					keys[string(r.Key)]++
				}
			}
			if err := c.receive(answer(t, sent, &token), 0); err != nil {
				t.Fatal(err)
			}
		}
		if len(keys) != 10 || l.count.granted != 10 || hold && l.count.released != 0 || !hold && l.count.released != 10 {
			t.Errorf("hold %v: %d keys, granted %d, released %d", hold, len(keys), l.count.granted, l.count.released)
		}
	}
}

func TestLoadCountsRefusalsApart(t *testing.T) {
	l := newLoad(script{}, "test", 1, 16, 0, 2000)
	c := l.newConn(1, 0)
	c.start(0)
	var token uint64
	refuse := func(r wire.Reply) {
		t.Helper()
		var request wire.Request
		wire.DecodeRequest(take(c), &request)
		r.Owner = request.Owner
		if r.Op == wire.OpNotHeld {
			r.Token = request.Token
		}
		if err := c.receive(wire.AppendReply(nil, &r), 0); err != nil {
			t.Fatal(err)
		}
	}
	refuse(wire.Reply{Op: wire.OpTimeout})
	refuse(wire.Reply{Op: wire.OpBusy, Code: uint16(wire.BusyTooManyKeys)})
	refuse(wire.Reply{Op: wire.OpBusy, Code: 999})
	refuse(wire.Reply{Op: wire.OpError, Code: uint16(wire.InvalidLease), Text: []byte("why")})
	c.receive(answer(t, take(c), &token), 0)
	refuse(wire.Reply{Op: wire.OpNotHeld})
	r := result{TimedOut: l.count.timedOut, Refused: l.count.refusals()}
	if got, want := r.refusals(), "busy_15 1, invalid_lease 1, not_held 1, timed out 1, too_many_keys 1"; got != want {
		t.Errorf("refusals: %s\nwant:     %s", got, want)
	}
	if l.count.requests() != 1 || l.inFlight != 1 || r.check() == nil {
		t.Errorf("requests that did what they were to do: %d, in flight %d, check %v", l.count.requests(), l.inFlight, r.check())
	}
}

func TestLoadFindsBrokenServers(t *testing.T) {
	cases := []struct {
		name   string
		second func(first wire.Request) wire.Reply // what answers the second acquire of the key, with token 7 granted before
		says   string
	}{
		{"a token that does not rise", func(r wire.Request) wire.Reply { return wire.Reply{Op: wire.OpGranted, Owner: r.Owner, Token: 7} }, "broke the lock"},
		{"an owner of before", func(r wire.Request) wire.Reply {
			return wire.Reply{Op: wire.OpGranted, Owner: r.Owner - 1<<32, Token: 8}
		}, "not in flight"},
		{"an owner of nobody", func(wire.Request) wire.Reply { return wire.Reply{Op: wire.OpGranted, Owner: 99, Token: 8} }, "not in flight"},
		{"R to an acquire", func(r wire.Request) wire.Reply { return wire.Reply{Op: wire.OpReleased, Owner: r.Owner, Token: 7} }, "does not answer"},
		{"the end", func(wire.Request) wire.Reply {
			return wire.Reply{Op: wire.OpError, Code: uint16(wire.Malformed), Text: []byte("no")}
		}, "malformed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := newLoad(script{}, "test", 1, 16, 0, 2000)
			conn := l.newConn(1, 0)
			conn.start(0)
			token := uint64(6)
			conn.receive(answer(t, take(conn), &token), 0)
			conn.receive(answer(t, take(conn), &token), 0)
			var r wire.Request
			wire.DecodeRequest(take(conn), &r)
			reply := c.second(r)
			if err := conn.receive(wire.AppendReply(nil, &reply), 0); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
}

func TestLoadDoesNotAllocate(t *testing.T) {
	l := newLoad(script{}, "test", 64, 16, 1000, 2000)
	l.unordered = true
	c := l.newConn(64, 0)
	c.start(0)
	echo := make([]byte, 0, 64<<10)
	allocations := testing.AllocsPerRun(100, func() {
		echo = append(echo[:0], c.out...)
		c.out = c.out[:0]
		if err := c.receive(echo, 0); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations a batch", allocations)
	}
}

func BenchmarkLoad(b *testing.B) {
	l := newLoad(script{}, "test", 512, 16, 1000, 2000)
	l.unordered = true
	c := l.newConn(512, 0)
	c.start(0)
	echo := make([]byte, 0, 64<<10)
	for n := 0; n < b.N; n += 512 {
		echo = append(echo[:0], c.out...)
		c.out = c.out[:0]
		if err := c.receive(echo, 0); err != nil {
			b.Fatal(err)
		}
	}
}
