package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestReleaseReplies(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		ticket := w.ticket(r, "k", 4)
		release := w.release(w.Context(), ticket)
		q := r.release("k", 4)
		if q.Owner != ticket.Owner() {
			w.Errorf("release names owner %d, want %d", q.Owner, ticket.Owner())
		}
		r.released(q)
		release.succeeds()
		// The second one needs no server.
		w.release(w.Context(), ticket).fails(ErrNotHeld)
		r.silent()

		ticket = w.ticket(r, "k", 5)
		release = w.release(w.Context(), ticket)
		r.notHeld(r.release("k", 5))
		release.fails(ErrNotHeld)
		w.release(w.Context(), ticket).fails(ErrNotHeld)
		r.silent()
		if s := b.Stats(); s.Released != 1 || s.NotHeld != 1 || s.Releases != 0 {
			w.Errorf("stats %+v", s)
		}
	})
}

// An attempt whose outcome is not known, and then N: something ended the grant, and before the deadline only that
// attempt can have.
func TestNAfterUnansweredAttempt(t *testing.T) {
	refuse := func(code wire.Busy) func(*world, *remote, wire.Request) *remote {
		return func(w *world, r *remote, q wire.Request) *remote {
			r.busy(q, code, 0)
			return r
		}
	}
	tests := []struct {
		name string
		lose func(w *world, r *remote, q wire.Request) *remote // returns where the next attempt is expected
		want error
	}{
		{"the connection ended", func(w *world, r *remote, q wire.Request) *remote {
			r.hangUp()
			return w.next(r.host)
		}, nil},
		{"E indeterminate", func(w *world, r *remote, q wire.Request) *remote {
			r.failure(q, wire.Indeterminate)
			return r
		}, nil},
		{"a second without a reply", func(w *world, r *remote, q wire.Request) *remote {
			w.pass(time.Second)
			return r
		}, nil},
		{"the leader moved", func(w *world, r *remote, q wire.Request) *remote {
			h := w.host("b:1")
			r.moved("b:1", 3)
			return w.next(h)
		}, nil},
		{"B says that nothing happened", refuse(wire.BusyNoLeader), ErrNotHeld},
		{"B again", refuse(wire.BusyOverloaded), ErrNotHeld},
		{"the deadline has passed", func(w *world, r *remote, q wire.Request) *remote {
			w.clock.suspended.Add(int64(30 * time.Second)) // and the release's 5 s too, unless it is a new call
			r.hangUp()
			return nil
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.one()
				ticket := w.ticket(r, "k", 4)
				release := w.release(w.Context(), ticket)
				next := tt.lose(w, r, r.release("k", 4))
				if next == nil {
					release.fails(ErrUnconfirmed)
					release = w.release(w.Context(), ticket)
					next = w.next(r.host)
					next.notHeld(next.release("k", 4))
					release.fails(ErrNotHeld)
					return
				}
				next.notHeld(next.release("k", 4))
				if tt.want == nil {
					release.succeeds()
				} else {
					release.fails(tt.want)
				}
				next.silent()
			})
		})
	}
}

// After a B a release is tried again, not at once, and R is R.
func TestReleaseAfterBusy(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ticket := w.ticket(r, "k", 4)
		release := w.release(w.Context(), ticket)
		r.busy(r.release("k", 4), wire.BusyRecovering, 0)
		w.pass(99 * time.Millisecond)
		r.silent()
		w.pass(time.Millisecond)
		r.busy(r.release("k", 4), wire.BusyRecovering, 700)
		w.pass(699 * time.Millisecond)
		r.silent()
		w.pass(time.Millisecond)
		r.released(r.release("k", 4))
		if o := release.succeeds(); o.took != 800*time.Millisecond {
			w.Errorf("took %v", o.took)
		}
	})
}

func TestReleaseRefusedForGood(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ticket := w.ticket(r, "k", 4)
		release := w.release(w.Context(), ticket)
		r.failure(r.release("k", 4), wire.InvalidKey)
		release.fails(ErrInvalid, wire.InvalidKey)
	})
}

// Nothing of the release was taken: N to the second attempt is what it says.
func TestReleaseCutAtEachByte(t *testing.T) {
	const size = wire.HeaderSize + 1
	for n := 0; n <= size; n++ {
		t.Run(fmt.Sprintf("after %d bytes", n), func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.one()
				ticket := w.ticket(r, "k", 4)
				r.cutRequestsAfter(n)
				release := w.release(w.Context(), ticket)
				if n == size {
					r.hangUp()
				}
				again := w.next(r.host)
				again.notHeld(again.release("k", 4))
				if n == 0 {
					release.fails(ErrNotHeld)
				} else {
					release.succeeds()
				}
			})
		})
	}
}

func TestReleaseReplyCutAtEachByte(t *testing.T) {
	for n := 0; n <= wire.HeaderSize; n++ {
		t.Run(fmt.Sprintf("after %d bytes", n), func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.one()
				ticket := w.ticket(r, "k", 4)
				release := w.release(w.Context(), ticket)
				q := r.release("k", 4)
				r.cutRepliesAfter(n)
				r.released(q)
				if n < wire.HeaderSize {
					again := w.next(r.host)
					again.notHeld(again.release("k", 4))
				}
				release.succeeds()
			})
		})
	}
}

func TestReleaseGivesUpAfterFiveSeconds(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		ticket := w.ticket(r, "k", 4)
		began := w.clock.Now()
		release := w.release(w.Context(), ticket)
		if o := release.fails(ErrUnconfirmed); o.took != 5*time.Second {
			w.Errorf("gave up after %v", o.took)
		}
		attempts := 0
		for q, ok := r.buffered(); ok; q, ok = r.buffered() {
			if q.Op == wire.OpRelease && q.Token == 4 {
				attempts++
			}
		}
		if attempts != 5 {
			w.Errorf("%d attempts in %v, want one a second", attempts, w.clock.Now()-began)
		}
		// It may be called again, and still knows of the attempts before.
		if s := b.Stats(); s.Unconfirmed != 1 || s.Releases != 0 {
			w.Errorf("stats %+v", s)
		}
		release = w.release(w.Context(), ticket)
		r.notHeld(r.release("k", 4))
		release.succeeds()
	})
}

// Five seconds are five seconds, whatever else happens, and at whatever moment they began.
func TestReleaseWithoutServer(t *testing.T) {
	for _, after := range []time.Duration{0, 300 * time.Millisecond, 4999 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.one()
				ticket := w.ticket(r, "k", 4)
				w.change(r.host, func() { r.host.refuse = context.DeadlineExceeded })
				w.pass(after)
				r.hangUp()
				if o := w.release(w.Context(), ticket).fails(ErrUnconfirmed); o.took != 5*time.Second {
					w.Errorf("gave up after %v", o.took)
				}
			})
		})
	}
}

func TestReleaseWaitsForConnection(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ticket := w.ticket(r, "k", 4)
		w.change(r.host, func() { r.host.refuse = context.DeadlineExceeded })
		r.hangUp()
		release := w.release(w.Context(), ticket)
		w.pass(3 * time.Second)
		w.change(r.host, func() { r.host.refuse = nil })
		again := w.next(r.host)
		again.released(again.release("k", 4))
		release.succeeds()
	})
}

// A ctx that has ended does not keep a release from being sent, nor from being tried again.
func TestReleaseWithEndedContext(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		ticket := w.ticket(r, "k", 4)
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if o := w.release(ctx, ticket).fails(ErrUnconfirmed, context.Canceled); o.took != 0 {
			w.Errorf("took %v", o.took)
		}
		r.release("k", 4)
		r.hangUp()
		again := w.next(r.host)
		again.released(again.release("k", 4))
		if s := b.Stats(); s.Released != 1 || s.Releases != 0 {
			w.Errorf("stats %+v", s)
		}
	})
}

func TestReleaseContextEndsMeanwhile(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ticket := w.ticket(r, "k", 4)
		ctx, cancel := context.WithTimeout(w.Context(), 300*time.Millisecond)
		defer cancel()
		if o := w.release(ctx, ticket).fails(ErrUnconfirmed, context.DeadlineExceeded); o.took != 300*time.Millisecond {
			w.Errorf("took %v", o.took)
		}
		// Who asks again waits for the same release.
		again := w.release(w.Context(), ticket)
		q := r.release("k", 4)
		r.silent()
		r.released(q)
		again.succeeds()
	})
}

func TestConcurrentReleasesShareOne(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ticket := w.ticket(r, "k", 4)
		var calls []*running
		for range 5 {
			calls = append(calls, w.release(w.Context(), ticket))
		}
		q := r.release("k", 4)
		r.silent()
		r.released(q)
		for _, call := range calls {
			call.succeeds()
		}
	})
}

func TestFullReleaseQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.host("a:1")
		b := w.openWith(Config{Addrs: []string{"a:1", "down:1"}}, func(s *system) { s.maxReleases = 2 })
		r := w.next(h)
		var tickets []*Ticket
		for i := range 3 {
			tickets = append(tickets, w.ticket(r, fmt.Sprint(i), uint64(i)+1))
		}
		first, second := w.release(w.Context(), tickets[0]), w.release(w.Context(), tickets[1])
		if o := w.release(w.Context(), tickets[2]).fails(ErrUnconfirmed); o.took != 0 {
			w.Errorf("a full queue was told after %v", o.took)
		}
		// A compensation finds it full too: the lease ends that grant.
		ctx, cancel := context.WithCancel(w.Context())
		call := w.acquire(ctx, "late")
		cancel()
		call.fails(context.Canceled, ErrIndeterminate)
		r.release("0", 1)
		r.release("1", 2)
		late := r.acquire("late")
		r.release("late", 0)
		r.grant(late, 9)
		r.silent()
		r.released(wire.Request{Owner: tickets[0].Owner(), Token: 1})
		r.released(wire.Request{Owner: tickets[1].Owner(), Token: 2})
		first.succeeds()
		second.succeeds()
		// There is room again.
		third := w.release(w.Context(), tickets[2])
		r.released(r.release("2", 3))
		third.succeeds()
		if s := b.Stats(); s.Unconfirmed != 2 || s.Releases != 0 {
			w.Errorf("stats %+v", s)
		}
	})
}

func TestReleaseOfForeignGrant(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		call := w.start(func() (*Ticket, error) { return nil, b.Release(w.Context(), "k", 70, 700) })
		q := r.release("k", 700)
		if q.Owner != 70 {
			w.Errorf("owner %d", q.Owner)
		}
		r.released(q)
		call.succeeds()

		// Without a deadline to go by, N is N.
		call = w.start(func() (*Ticket, error) { return nil, b.Release(w.Context(), "k", 70, 700) })
		r.release("k", 700)
		r.hangUp()
		again := w.next(r.host)
		again.notHeld(again.release("k", 700))
		call.fails(ErrNotHeld)

		for _, bad := range []struct {
			key          string
			owner, token uint64
		}{{"", 1, 1}, {"a b", 1, 1}, {"k", 0, 1}, {"k", 1, 0}} {
			w.start(func() (*Ticket, error) { return nil, b.Release(w.Context(), bad.key, bad.owner, bad.token) }).fails(ErrInvalid)
		}
		again.silent()
	})
}

// An answer to an earlier attempt, on a connection that leads no more, is an answer.
func TestLateAnswerOfOldLeader(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ticket := w.ticket(r, "k", 4)
		release := w.release(w.Context(), ticket)
		q := r.release("k", 4)
		h := w.host("b:1")
		r.moved("b:1", 3)
		next := w.next(h)
		next.release("k", 4)
		r.released(q)
		release.succeeds()
		next.notHeld(q) // to the second attempt, for nobody
		next.silent()
	})
}
