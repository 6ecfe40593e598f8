package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestAcquireReplies(t *testing.T) {
	tests := []struct {
		name  string
		reply wire.Reply // the owner is filled in
		want  []error
		check func(t *testing.T, err error)
	}{
		{name: "T", reply: wire.Reply{Op: wire.OpTimeout}, want: []error{ErrTimeout}},
		{name: "B with a hint", reply: wire.Reply{Op: wire.OpBusy, Code: uint16(wire.BusyRecovering), Millis: 700},
			want: []error{ErrBusy, wire.BusyRecovering},
			check: func(t *testing.T, err error) {
				var busy *BusyError
				if !errors.As(err, &busy) || busy.Code != wire.BusyRecovering || busy.RetryAfter != 700*time.Millisecond || busy.Key != "k" {
					t.Errorf("got %#v", busy)
				}
			}},
		{name: "B of a code to come", reply: wire.Reply{Op: wire.OpBusy, Code: 99}, want: []error{ErrBusy, wire.Busy(99)}},
		{name: "E invalid_key", reply: wire.Reply{Op: wire.OpError, Code: uint16(wire.InvalidKey)}, want: []error{ErrInvalid, wire.InvalidKey}},
		{name: "E invalid_owner", reply: wire.Reply{Op: wire.OpError, Code: uint16(wire.InvalidOwner)}, want: []error{ErrInvalid, wire.InvalidOwner}},
		{name: "E indeterminate", reply: wire.Reply{Op: wire.OpError, Code: uint16(wire.Indeterminate)}, want: []error{ErrIndeterminate, wire.Indeterminate}},
		{name: "E of a code to come is not definite", reply: wire.Reply{Op: wire.OpError, Code: 99}, want: []error{ErrIndeterminate}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.one()
				call := w.acquire(w.Context(), "k")
				q := r.acquire("k")
				if q.Wait != 5000 || q.Lease != 30000 || q.Owner == 0 {
					w.Errorf("asked for %+v", q)
				}
				tt.reply.Owner = q.Owner
				r.send(tt.reply)
				o := call.fails(tt.want...)
				if tt.check != nil {
					tt.check(w.T, o.err)
				}
				r.silent() // whatever it was, it is not tried again
			})
		})
	}
}

func TestAcquireGranted(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		call := w.acquire(w.Context(), "order-1234")
		q := r.acquire("order-1234")
		r.grant(q, 42)
		ticket := call.granted()
		if ticket.Key() != "order-1234" || ticket.Token() != 42 || ticket.Owner() != q.Owner {
			w.Errorf("got key %q, token %d, owner %d", ticket.Key(), ticket.Token(), ticket.Owner())
		}
	})
}

func TestAcquireArguments(t *testing.T) {
	tests := []struct {
		name        string
		key         string
		wait, lease time.Duration
		want        wire.Failure
	}{
		{"no key", "", 0, time.Second, wire.InvalidKey},
		{"a key of 129 bytes", string(make([]byte, 129)), 0, time.Second, wire.InvalidKey},
		{"a space in the key", "a b", 0, time.Second, wire.InvalidKey},
		{"a key that is not UTF-8", "a\xff", 0, time.Second, wire.InvalidKey},
		{"a negative wait", "k", -1 * time.Millisecond, time.Second, wire.InvalidWait},
		{"a wait over an hour", "k", time.Hour + 1, time.Second, wire.InvalidWait},
		{"a wait that wraps in 32 bits", "k", (1<<32 + 1000) * time.Millisecond, time.Second, wire.InvalidWait},
		{"a lease under a second", "k", 0, time.Second - 1, wire.InvalidLease},
		{"a lease over 250 s", "k", 0, 250*time.Second + time.Millisecond, wire.InvalidLease},
		{"a negative lease", "k", 0, -time.Second, wire.InvalidLease},
		{"key before wait before lease", "", -1, -1, wire.InvalidKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				b, r := w.one()
				call := w.start(func() (*Ticket, error) { return b.Acquire(w.Context(), tt.key, tt.wait, tt.lease) })
				call.fails(ErrInvalid, tt.want)
				r.silent()
			})
		})
	}
}

func TestAcquireRounding(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		call := w.start(func() (*Ticket, error) {
			return b.Acquire(w.Context(), "k", 1500*time.Microsecond, time.Second+1999*time.Microsecond)
		})
		if q := r.acquire("k"); q.Wait != 2 || q.Lease != 1001 {
			w.Errorf("wait %d ms, lease %d ms; want the wait rounded up and the lease down", q.Wait, q.Lease)
		} else {
			r.grant(q, 1)
		}
		call.granted()

		call = w.start(func() (*Ticket, error) { return b.TryAcquire(w.Context(), "k", time.Second) })
		q := r.acquire("k")
		if q.Wait != 0 {
			w.Errorf("TryAcquire waits %d ms", q.Wait)
		}
		r.send(wire.Reply{Op: wire.OpTimeout, Owner: q.Owner})
		call.fails(ErrTimeout)
	})
}

// Many acquires in flight are matched by owner, whatever the order of the replies.
func TestAcquirePipelined(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		const n = 500
		calls := make([]*running, n)
		for i := range calls {
			calls[i] = w.acquire(w.Context(), fmt.Sprint("key-", i))
		}
		requests := make([]wire.Request, n)
		for i := range requests {
			requests[i] = r.acquire(fmt.Sprint("key-", i))
		}
		for i := range requests { // 7 and n have no common divisor
			q := requests[i*7%n]
			r.grant(q, q.Owner<<8|1)
		}
		for i, call := range calls {
			if ticket := call.granted(); ticket.Key() != fmt.Sprint("key-", i) || ticket.Token() != requests[i].Owner<<8|1 {
				w.Errorf("key-%d got the ticket of %q with token %d", i, ticket.Key(), ticket.Token())
			}
		}
	})
}

// A connection that ends before the first byte of a request was taken: it goes elsewhere, with what is left of its
// wait. After that: nobody knows, and it is never sent again.
func TestConnectionCutInRequest(t *testing.T) {
	const size = wire.HeaderSize + 1
	for n := 0; n <= size; n++ {
		t.Run(fmt.Sprintf("after %d bytes", n), func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.one()
				r.cutRequestsAfter(n)
				call := w.acquire(w.Context(), "k")
				if n == size { // the cut falls on the next byte: nothing has ended yet
					call.pending()
					r.hangUp()
				}
				if n > 0 {
					o := call.fails(ErrIndeterminate)
					if o.took != 0 {
						w.Errorf("told %v after the end", o.took)
					}
					again := w.next(w.hosts["a:1"])
					w.pass(time.Minute)
					again.silent()
					return
				}
				again := w.next(w.hosts["a:1"])
				q := again.acquire("k")
				if q.Wait != 4900 {
					w.Errorf("the second attempt waits %d ms, want what is left after 100 ms of pause", q.Wait)
				}
				again.grant(q, 3)
				call.granted()
			})
		})
	}
}

func TestConnectionCutInReply(t *testing.T) {
	for n := 0; n <= wire.HeaderSize; n++ {
		t.Run(fmt.Sprintf("after %d bytes", n), func(t *testing.T) {
			inWorld(t, func(w *world) {
				b, r := w.one()
				call := w.acquire(w.Context(), "k")
				q := r.acquire("k")
				r.cutRepliesAfter(n)
				r.grant(q, 9)
				if n == wire.HeaderSize {
					call.granted()
					return
				}
				began := w.clock.Wall()
				o := call.fails(ErrIndeterminate)
				var unknown *IndeterminateError
				if !errors.As(o.err, &unknown) || unknown.Owner != q.Owner || unknown.Key != "k" {
					w.Fatalf("got %#v", unknown)
				}
				// 5 s of wait, 30 s of lease, 1 % of it and 50 ms
				if until := unknown.Until.Sub(began); until != 35350*time.Millisecond {
					w.Errorf("a phantom grant is said to stand for %v", until)
				}
				if s := b.Stats(); s.Indeterminate != 1 || s.Lost != 1 || s.Waiting != 0 {
					w.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// Requests behind the one that was cut were not handed over, and go elsewhere.
func TestCutBatchIsSplit(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		r.choke(0)
		var calls []*running
		for i := range 3 {
			calls = append(calls, w.acquire(w.Context(), fmt.Sprint(i))) // 25 bytes each
		}
		r.cutRequestsAfter(30) // all of the first, 5 bytes of the second
		r.choke(1 << 20)
		calls[0].fails(ErrIndeterminate)
		calls[1].fails(ErrIndeterminate)
		again := w.next(w.hosts["a:1"])
		again.grant(again.acquire("2"), 5)
		calls[2].granted()
		again.silent()
	})
}

func TestNoServingNode(t *testing.T) {
	tests := []struct {
		name string
		wait time.Duration
		want time.Duration
	}{
		{"wait 0 gets a second", 0, time.Second},
		{"wait 20 ms", 20 * time.Millisecond, 20 * time.Millisecond},
		{"wait 3 s", 3 * time.Second, 3 * time.Second},
		{"wait 1 h", time.Hour, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				b := w.open("down:1")
				call := w.start(func() (*Ticket, error) { return b.Acquire(w.Context(), "k", tt.wait, time.Second) })
				o := call.fails(ErrBusy, wire.BusyNoLeader)
				if o.took != tt.want {
					w.Errorf("took %v, want %v", o.took, tt.want)
				}
				var busy *BusyError
				if !errors.As(o.err, &busy) || busy.Cause == nil {
					w.Errorf("%v does not say what stood in the way", o.err)
				}
			})
		})
	}
}

// What waits for a serving node is sent in order when one comes, with what is left of its wait.
func TestParked(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.open("a:1")
		var calls []*running
		for i := range 3 {
			calls = append(calls, w.acquire(w.Context(), fmt.Sprint(i)))
		}
		try := w.start(func() (*Ticket, error) { return b.TryAcquire(w.Context(), "try", time.Second) })
		h := w.host("a:1") // it comes up; the third attempt is due at 0.3 s
		r := w.next(h)
		for i := range 3 {
			q := r.acquire(fmt.Sprint(i))
			if q.Wait != 4900 {
				w.Errorf("%d waits %d ms, want 4900", i, q.Wait)
			}
			r.grant(q, uint64(i)+1)
			calls[i].granted()
		}
		q := r.acquire("try")
		if q.Wait != 0 {
			w.Errorf("the try became a wait of %d ms", q.Wait)
		}
		r.grant(q, 4)
		try.granted()
	})
}

func TestNoReply(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		w.calls.Go(func() { r.pongs() })
		call := w.acquire(w.Context(), "k")
		o := call.fails(ErrIndeterminate)
		if o.took != 15*time.Second {
			w.Errorf("given up after %v, want wait + 10 s", o.took)
		}
		// The waiter is withdrawn; and if the grant still comes, it is given back.
		q := r.seen(wire.OpAcquire)
		if withdrawal := r.seen(wire.OpRelease); withdrawal.Owner != q.Owner || withdrawal.Token != 0 {
			w.Errorf("want a withdrawal of %d, got %+v", q.Owner, withdrawal)
		}
		w.pass(time.Minute)
		r.grant(q, 77)
		back := r.seen(wire.OpRelease)
		if back.Owner != q.Owner || back.Token != 77 {
			w.Errorf("want token 77 given back, got %+v", back)
		}
		r.released(back)
		if s := b.Stats(); s.Waiting != 0 || s.Releases != 0 || s.Compensated != 1 || s.Indeterminate != 1 {
			w.Errorf("stats %+v", s)
		}
		r.nothingSeen()
	})
}

func TestDeadline(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name   string
		rtt    time.Duration
		waited uint32
		lease  time.Duration
		want   time.Duration // of sending
	}{
		{"at once", 0, 0, time.Second, 940 * ms},
		{"a long lease", 0, 0, 250 * time.Second, 250*time.Second - 2550*ms},
		{"the way back does not count", 300 * ms, 0, 10 * time.Second, 9850 * ms},
		{"waited in the queue", 4 * time.Second, 3900, 10 * time.Second, 3900*ms + 9850*ms - 3900*time.Microsecond},
		{"a server that says it waited for longer than we did", 100 * ms, 60000, 10 * time.Second, 100*ms + 9850*ms - 100*time.Microsecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				b, r := w.one()
				began := w.clock.Wall()
				call := w.start(func() (*Ticket, error) { return b.Acquire(w.Context(), "k", 5*time.Second, tt.lease) })
				q := r.acquire("k")
				w.pass(tt.rtt)
				r.send(wire.Reply{Op: wire.OpGranted, Owner: q.Owner, Token: 1, Millis: tt.waited})
				if got := call.granted().Deadline().Sub(began); got != tt.want {
					w.Errorf("deadline %v after sending, want %v", got, tt.want)
				}
			})
		})
	}
}

// A grant that arrives after its own deadline is given back, once, and is never a ticket.
func TestLateGrant(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		call := w.start(func() (*Ticket, error) { return b.Acquire(w.Context(), "k", 5*time.Second, 4*time.Second) })
		q := r.acquire("k")
		w.pass(3910 * time.Millisecond)
		r.grant(q, 8)
		call.fails(ErrIndeterminate)
		r.released(r.release("k", 8))
		w.pass(10 * time.Second)
		r.silent()
		if s := b.Stats(); s.Compensated != 1 || s.Releases != 0 || s.Lost != 0 {
			w.Errorf("stats %+v", s)
		}
	})
}

// The time before a suspension and during it counts.
func TestGrantAfterSuspension(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		call := w.acquire(w.Context(), "k")
		q := r.acquire("k")
		w.clock.suspended.Add(int64(time.Minute))
		r.grant(q, 8)
		call.fails(ErrIndeterminate)
		r.release("k", 8)
	})
}

func TestInFlightLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.host("a:1", func(h *host) { h.limit = 2 })
		w.open("a:1")
		r := w.next(h)
		first, second := w.acquire(w.Context(), "1"), w.acquire(w.Context(), "2")
		w.acquire(w.Context(), "3").fails(ErrBusy, wire.BusyTooManyInFlight)
		r.grant(r.acquire("1"), 1)
		first.granted()
		third := w.acquire(w.Context(), "3")
		r.grant(r.acquire("2"), 2)
		r.grant(r.acquire("3"), 3)
		second.granted()
		third.granted()
	})
}

// What a server may not send must neither be believed nor hurt anybody else.
func TestStrayReplies(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		ticket := w.ticket(r, "k", 5)
		call := w.acquire(w.Context(), "other")
		q := r.acquire("other")
		r.send(
			wire.Reply{Op: wire.OpGranted, Owner: ticket.Owner(), Token: 5}, // again
			wire.Reply{Op: wire.OpGranted, Owner: 999, Token: 6},            // nobody's
			wire.Reply{Op: wire.OpTimeout, Owner: 999},
			wire.Reply{Op: wire.OpReleased, Owner: ticket.Owner(), Token: 5}, // not asked for
			wire.Reply{Op: wire.OpNotHeld, Owner: q.Owner, Token: 0},         // of a withdrawal
			wire.Reply{Op: wire.OpBusy, Owner: 998, Code: 1},
			wire.Reply{Op: wire.OpPong, Owner: 997},
		)
		call.pending()
		r.grant(q, 7)
		call.granted()
		if s := b.Stats(); s.Unmatched != 5 || s.Connections != 1 {
			w.Errorf("stats %+v", s)
		}
		// The ticket is not touched by any of it.
		release := w.release(w.Context(), ticket)
		q = r.release("k", 5)
		r.released(wire.Request{Owner: q.Owner, Token: 99})
		release.pending()
		r.released(q)
		release.succeeds()
	})
}

func TestGarbageEndsTheConnection(t *testing.T) {
	garbage := map[string][]byte{
		"an unknown op":             append([]byte{'Z'}, make([]byte, 23)...),
		"a grant with a code":       wire.AppendReply(nil, &wire.Reply{Op: wire.OpGranted, Code: 3, Owner: 1, Token: 1}),
		"E malformed":               wire.AppendReply(nil, &wire.Reply{Op: wire.OpError, Code: uint16(wire.Malformed), Text: []byte("why")}),
		"text":                      []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"a pong with reserved bits": append([]byte{'P', 0, 0, 0, 0, 0, 0, 1}, make([]byte, 16)...),
	}
	for name, bytes := range garbage {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.one()
				call := w.acquire(w.Context(), "k")
				r.acquire("k")
				r.write(bytes)
				call.fails(ErrIndeterminate)
				if !r.ended() {
					w.Error("the connection is still up")
				}
				w.next(w.hosts["a:1"])
			})
		})
	}
	t.Run("a grant without a token", func(t *testing.T) {
		inWorld(t, func(w *world) {
			_, r := w.one()
			call := w.acquire(w.Context(), "k")
			r.grant(r.acquire("k"), 0)
			call.fails(ErrIndeterminate)
		})
	})
}

// One grant wakes one goroutine, and none that waits for another key.
func TestOneWakeUp(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		const n = 1000
		calls := make([]*running, n)
		for i := range calls {
			calls[i] = w.acquire(context.Background(), "k")
		}
		requests := make([]wire.Request, n)
		for i := range requests {
			requests[i] = r.acquire("k")
		}
		for i, q := range requests {
			r.grant(q, uint64(i)+1)
			calls[i].granted()
			for _, other := range calls[i+1:] {
				if len(other.done) > 0 {
					w.Fatalf("grant %d woke another", i)
				}
			}
			if s := b.Stats(); s.Waiting != n-1-i {
				w.Fatalf("%d wait after %d grants of %d", s.Waiting, i+1, n)
			}
		}
	})
}
