package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"ticketing.internal/wire"
)

func TestCancelBeforeTheCall(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		w.acquire(ctx, "k").fails(context.Canceled)
		r.silent()
	})
}

func TestCancelWhileParked(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.open("a:1")
		ctx, cancel := context.WithCancel(w.Context())
		call := w.acquire(ctx, "k")
		cancel()
		if o := call.fails(context.Canceled); o.took != 0 {
			w.Errorf("returned %v after the cancel", o.took)
		}
		r := w.next(w.host("a:1"))
		r.silent()
		if s := b.Stats(); s.Waiting != 0 {
			w.Errorf("%d still wait", s.Waiting)
		}
	})
}

func TestCancelWhileNobodyServes(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.open("down:2")
		ctx, cancel := context.WithCancel(w.Context())
		call := w.start(func() (*Ticket, error) { return b.Acquire(ctx, "k", time.Hour, time.Second) })
		cancel()
		call.fails(context.Canceled)
		w.pass(sweepInterval)
		if s := b.Stats(); s.Waiting != 0 {
			w.Errorf("%d still wait", s.Waiting)
		}
	})
}

// Behind a writer that is stuck nothing of the request was handed over: the error is definite, and the request is
// never sent.
func TestCancelInQueueOfStuckWriter(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		r.choke(10)
		ctx, cancel := context.WithCancel(w.Context())
		first := w.acquire(ctx, "first")
		second := w.acquire(ctx, "second")
		third := w.acquire(w.Context(), "third")
		cancel()
		first.fails(context.Canceled, ErrIndeterminate) // a part of it went out
		second.fails(context.Canceled)
		r.choke(1 << 20)
		q := r.acquire("first")
		if withdrawal := r.release("first", 0); withdrawal.Owner != q.Owner {
			w.Errorf("the withdrawal names owner %d, want %d", withdrawal.Owner, q.Owner)
		}
		r.grant(r.acquire("third"), 3)
		third.granted()
		r.silent()
		r.send(wire.Reply{Op: wire.OpTimeout, Owner: q.Owner}, wire.Reply{Op: wire.OpReleased, Owner: q.Owner})
		if s := b.Stats(); s.Waiting != 0 || s.Lost != 0 || s.Unmatched != 0 {
			w.Errorf("stats %+v", s)
		}
	})
}

// What was queued behind it and cancelled is gone with the connection; what was not goes elsewhere, in its order.
func TestStuckConnectionEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		r.choke(0)
		ctx, cancel := context.WithCancel(w.Context())
		for i := range 50 {
			w.acquire(w.Context(), fmt.Sprint(i))
			w.acquire(ctx, "cancelled")
		}
		cancel()
		synctest.Wait()
		w.change(r.host, func() { r.host.role = wire.RoleNotLeader })
		r.hangUp()
		if s := b.Stats(); s.Waiting != 50 || s.Lost != 0 {
			w.Errorf("stats %+v", s)
		}
		r = w.next(r.host)
		r.moved("a:1", 1)
		for i := range 50 {
			r.acquire(fmt.Sprint(i))
		}
		r.silent()
	})
}

// The waiter is withdrawn within a round trip, and whatever the server says to the acquire, nothing is left behind.
func TestCancelWhileWaiting(t *testing.T) {
	tests := []struct {
		name  string
		reply wire.Reply
		back  bool // the grant is given back
	}{
		{"withdrawn", wire.Reply{Op: wire.OpTimeout}, false},
		{"granted on the way", wire.Reply{Op: wire.OpGranted, Token: 12}, true},
		{"refused on the way", wire.Reply{Op: wire.OpBusy, Code: 8}, false},
		{"indeterminate", wire.Reply{Op: wire.OpError, Code: uint16(wire.Indeterminate)}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				b, r := w.one()
				ctx, cancel := context.WithCancel(w.Context())
				call := w.acquire(ctx, "k")
				q := r.acquire("k")
				cancel()
				if o := call.fails(context.Canceled, ErrIndeterminate); o.took != 0 {
					w.Errorf("returned %v after the cancel", o.took)
				}
				if withdrawal := r.release("k", 0); withdrawal.Owner != q.Owner {
					w.Errorf("the withdrawal names owner %d, want %d", withdrawal.Owner, q.Owner)
				}
				answer := wire.Reply{Op: wire.OpReleased, Owner: q.Owner}
				if tt.reply.Op != wire.OpTimeout {
					answer.Op = wire.OpNotHeld
				}
				tt.reply.Owner = q.Owner
				r.send(tt.reply, answer)
				if tt.back {
					r.released(r.release("k", 12))
				}
				r.silent()
				if s := b.Stats(); s.Waiting != 0 || s.Releases != 0 || s.Unmatched != 0 || s.Granted != 0 {
					w.Errorf("stats %+v", s)
				}
			})
		})
	}
}

func TestDeadlineOfContextIsToldApart(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		call := w.acquire(ctx, "k")
		r.acquire("k")
		if o := call.fails(context.DeadlineExceeded, ErrIndeterminate); o.took != time.Second {
			w.Errorf("took %v", o.took)
		}
	})
}

// Grant and cancel at the same moment, in both orders and with every schedule that the runtime comes up with: a ticket,
// or an error and the grant given back. Never a nil error without a ticket, and never both.
func TestCancelRacesGrant(t *testing.T) {
	for _, lends := range []bool{false, true} {
		t.Run(fmt.Sprint("lends=", lends), func(t *testing.T) { cancelRacesGrant(t, lends) })
	}
}

func cancelRacesGrant(t *testing.T, lends bool) {
	inWorld(t, func(w *world) {
		h := w.host("a:1")
		b := w.openWith(Config{Addrs: []string{"a:1", "down:1"}}, func(s *system) { s.lends = lends })
		r := w.next(h)
		returned, back := 0, 0
		for i := range 5000 {
			ctx, cancel := context.WithCancel(w.Context())
			call := w.acquire(ctx, "k")
			q := r.acquire("k")
			token := uint64(i) + 1
			w.calls.Go(cancel)
			if i%2 == 0 {
				r.conn.Write(wire.AppendReply(nil, &wire.Reply{Op: wire.OpGranted, Owner: q.Owner, Token: token}))
			} else {
				w.calls.Go(func() {
					r.conn.Write(wire.AppendReply(nil, &wire.Reply{Op: wire.OpGranted, Owner: q.Owner, Token: token}))
				})
			}
			o := call.result()
			synctest.Wait()
			switch {
			case o.err == nil && o.ticket != nil:
				returned++
				release := w.release(w.Context(), o.ticket)
				r.released(r.release("k", token))
				release.succeeds()
			case errors.Is(o.err, ErrIndeterminate) && o.ticket == nil:
				back++
				if withdrawal := r.request(wire.OpRelease, "k"); withdrawal.Token == 0 {
					r.notHeld(withdrawal)
				} else {
					w.Fatalf("token %d is released before the withdrawal", withdrawal.Token)
				}
				r.released(r.release("k", token))
			default:
				w.Fatalf("got %v, %v", o.ticket, o.err)
			}
			r.silent()
		}
		if returned == 0 || back == 0 {
			w.Logf("one way only: %d tickets, %d given back", returned, back)
		}
		if s := b.Stats(); s.Waiting != 0 || s.Releases != 0 || s.Granted != uint64(returned) || s.Compensated != uint64(back) {
			w.Errorf("%d returned, %d given back, stats %+v", returned, back, s)
		}
	})
}

// A thousand callers that go at once leave the queue in one round trip.
func TestThousandCancels(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		const n = 1000
		ctx, cancel := context.WithCancel(w.Context())
		calls := make([]*running, n)
		owners := map[uint64]bool{}
		for i := range calls {
			calls[i] = w.acquire(ctx, fmt.Sprint(i))
			owners[r.acquire(fmt.Sprint(i)).Owner] = true
		}
		cancel()
		for _, call := range calls {
			if o := call.fails(context.Canceled, ErrIndeterminate); o.took != 0 {
				w.Fatalf("returned %v after the cancel", o.took)
			}
		}
		for range n {
			q, err := r.receive()
			if err != nil || q.Op != wire.OpRelease || q.Token != 0 || !owners[q.Owner] {
				w.Fatalf("got %+v, %v; want a withdrawal", q, err)
			}
			delete(owners, q.Owner)
			r.send(wire.Reply{Op: wire.OpTimeout, Owner: q.Owner}, wire.Reply{Op: wire.OpReleased, Owner: q.Owner})
		}
		if s := b.Stats(); s.Waiting != 0 || s.Unmatched != 0 {
			w.Errorf("stats %+v", s)
		}
	})
}

// The server is stopped: the caller returns at its own limit all the same, and the clean-up ends too.
func TestCancelWithDeadServer(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		call := w.acquire(ctx, "k")
		if o := call.fails(context.DeadlineExceeded, ErrIndeterminate); o.took != 2*time.Second {
			w.Errorf("took %v", o.took)
		}
		w.pass(13 * time.Second)
		if !r.ended() {
			w.Error("a connection without a sign of life for 15 s is still up")
		}
		if s := b.Stats(); s.Waiting != 0 || s.Lost != 1 {
			w.Errorf("stats %+v", s)
		}
	})
}
