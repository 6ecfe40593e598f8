package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestBackoff(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.open("a:1")
		w.pass(20 * time.Second)
		b.Close()
		// 0.1 s, doubling to 3.2 s
		want := []time.Duration{0, 100, 300, 700, 1500, 3100, 6300, 9500, 12700, 15900, 19100}
		got := w.dials("a:1")
		if len(got) != len(want) {
			t.Fatalf("dialled at %v", got)
		}
		for i := range want {
			if got[i] != want[i]*time.Millisecond {
				t.Errorf("dial %d at %v, want %v ms", i, got[i], want[i])
			}
		}
	})
}

// A session that lived for less than a second counts as a failure; a longer one ends the series.
func TestBackoffAfterSessions(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.host("a:1")
		w.open("a:1")
		for range 3 {
			w.next(h).hangUp()
		}
		r := w.next(h)
		if at := w.dials("a:1")[3]; at != 700*time.Millisecond {
			t.Errorf("after three short sessions it was dialled at %v", at)
		}
		w.pass(2 * time.Second)
		began := w.clock.Now()
		r.hangUp()
		w.next(h)
		if took := w.clock.Now() - began; took != minBackoff {
			t.Errorf("after a long session the pause was %v", took)
		}
	})
}

// The dials of a thousand clients of a server that went away are spread out.
func TestJitter(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.host("a:1")
		random := rand.New(rand.NewPCG(1, 2))
		jitter := func() float64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return random.Float64()
		}
		var all []*remote
		for range 1000 {
			w.openWith(Config{Addrs: []string{"a:1", "down:1"}}, func(s *system) { s.random = jitter })
			all = append(all, w.next(h))
		}
		w.pass(time.Second)
		w.change(h, func() { h.refuse = errors.New("down") })
		before := len(w.dials("a:1"))
		gone := w.clock.Now() - time.Hour
		for _, r := range all {
			r.conn.Close()
		}
		w.pass(10 * time.Second)
		histogram := map[time.Duration]int{}
		for _, at := range w.dials("a:1")[before:] {
			histogram[(at-gone)/(100*time.Millisecond)]++
		}
		for slot, n := range histogram {
			if slot > 20 && n > 150 { // from there on 1000 clients dial each 1.6 to 3.2 s: 42 in 0.1 s
				t.Errorf("%d dials in the tenth of a second %d", n, slot)
			}
		}
		if n := len(w.dials("a:1")) - before; n > 1000*9 {
			t.Errorf("%d dials in 10 s", n)
		}
	})
}

func TestPingAndSilence(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		began := w.clock.Now()
		for _, want := range []time.Duration{5 * time.Second, 10 * time.Second} {
			q, err := r.next()
			if at := w.clock.Now() - began; err != nil || q.Op != wire.OpPing || at != want {
				w.Fatalf("at %v: %+v, %v; want a ping at %v", at, q, err, want)
			}
		}
		for !r.ended() {
			w.pass(10 * time.Millisecond)
		}
		if at := w.clock.Now() - began; at != 15*time.Second {
			w.Errorf("ended at %v", at)
		}
	})
}

// Replies keep the connection, and do not replace what must be sent; and the other way round.
func TestPingWhileOneWayIsBusy(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		w.calls.Go(r.pongs)
		for range 300 { // the server sends, we do not
			w.pass(100 * time.Millisecond)
			r.send(wire.Reply{Op: wire.OpPong, Owner: 1})
		}
		if got := w.broker.Stats(); got.Connections != 1 || len(w.dials("a:1")) != 1 {
			w.Errorf("stats %+v", got)
		}
	})
	inWorld(t, func(w *world) {
		_, r := w.one()
		began := w.clock.Now()
		pings := 0
		for !r.ended() { // we send, the server does not
			ctx, cancel := context.WithCancel(w.Context())
			call := w.acquire(ctx, "k")
			cancel()
			call.result()
			w.pass(100 * time.Millisecond)
			for {
				q, ok := r.buffered()
				if !ok {
					break
				}
				if q.Op == wire.OpPing {
					pings++
				}
			}
		}
		if took := w.clock.Now() - began; took > 15*time.Second+100*time.Millisecond || pings != 2 {
			w.Errorf("ended after %v with %d pings", took, pings)
		}
	})
}

// A process that stood still reads what has arrived before it judges.
func TestStall(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		call := w.acquire(w.Context(), "k")
		q := r.acquire("k")
		w.pass(4 * time.Second)
		w.clock.suspended.Add(int64(16 * time.Second)) // beyond wait + 10 s and 15 s of silence
		w.pass(1100 * time.Millisecond)                // the keeper has looked
		call.pending()
		r.send(wire.Reply{Op: wire.OpGranted, Owner: q.Owner, Token: 3})
		call.granted()
		if r.ended() {
			w.Error("the connection was given up")
		}
	})
	inWorld(t, func(w *world) {
		_, r := w.one()
		w.pass(time.Second)
		w.clock.suspended.Add(int64(time.Minute))
		w.pass(5*time.Second + afterStall)
		if !r.ended() {
			w.Error("a dead connection is kept after a stall")
		}
	})
}

// A name is resolved by each dial: what is dialled is the name.
func TestNamesAreResolvedAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		target := "old:1"
		before, after := w.host("old:1"), w.host("new:1")
		w.openWith(Config{
			Addrs: []string{"lock.example", "down:1"},
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr == "lock.example:5225" {
					w.mu.Lock()
					addr = target
					w.mu.Unlock()
				}
				return w.dial(ctx, network, addr)
			},
		}, nil)
		r := w.next(before)
		w.mu.Lock()
		target = "new:1"
		w.mu.Unlock()
		r.hangUp()
		w.ticket(w.next(after), "k", 1)
	})
}
