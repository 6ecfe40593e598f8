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

// atDeadline is what an acquire of 30 s granted at once has.
const atDeadline = 30*time.Second - 350*time.Millisecond

// The context ends at the deadline by the local clock alone: the connection is dead by then, without a sign.
func TestContextEndsAtDeadline(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ticket := w.ticket(r, "k", 1)
		began := w.clock.Now()
		ctx := ticket.Context()
		if again := ticket.Context(); again != ctx {
			w.Error("a second context")
		}
		if deadline, ok := ctx.Deadline(); !ok || deadline != ticket.Deadline() {
			w.Errorf("the context's deadline is %v, %v; the ticket's %v", deadline, ok, ticket.Deadline())
		}
		child, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		<-child.Done()
		if took := w.clock.Now() - began; took != atDeadline {
			w.Errorf("ended after %v, want %v", took, atDeadline)
		}
		if ctx.Err() == nil || context.Cause(ctx) != ErrLeaseEnded || context.Cause(child) != ErrLeaseEnded {
			w.Errorf("ended with %v, %v, %v", ctx.Err(), context.Cause(ctx), context.Cause(child))
		}
	})
}

// Every context of very many ends, at its own time: made in any order, with and without a connection.
func TestEveryContextEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		const n = 10000
		ended := make(chan time.Duration, n)
		for i := range n {
			lease := time.Second + time.Duration(i*7919%n)*20*time.Millisecond
			call := w.start(func() (*Ticket, error) { return b.Acquire(w.Context(), "k", 0, lease) })
			r.grant(r.acquire("k"), uint64(i)+1)
			ticket := call.granted()
			due := ticket.release.deadline
			context.AfterFunc(ticket.Context(), func() { ended <- w.clock.Now() - due })
			if i == n/2 {
				w.change(r.host, func() { r.host.refuse = context.Canceled })
				defer r.hangUp()
			}
		}
		for range n {
			if late := <-ended; late != 0 {
				w.Fatalf("a context ended %v after its deadline", late)
			}
		}
	})
}

// A machine that was suspended: no timer has been served yet, and the ticket is over all the same.
func TestSuspension(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ticket := w.ticket(r, "k", 1)
		ctx := ticket.Context()
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		if ctx.Err() != nil {
			w.Fatal(ctx.Err())
		}
		w.clock.suspended.Add(int64(time.Minute))
		if ctx.Err() == nil || context.Cause(ctx) != ErrLeaseEnded {
			w.Error("right after the suspension the context says that all is well")
		}
		if child.Err() == nil {
			w.Error("a child says that all is well after its parent said that it is not")
		}
		if left := ticket.Deadline().Sub(w.clock.Wall()); left > -30*time.Second {
			w.Errorf("%v are left", left)
		}
	})
	t.Run("nobody asks", func(t *testing.T) {
		inWorld(t, func(w *world) {
			_, r := w.one()
			ctx := w.ticket(r, "k", 1).Context()
			w.pass(time.Second)
			w.clock.suspended.Add(int64(time.Minute))
			began := time.Now()
			<-ctx.Done()
			if took := time.Since(began); took > recheck {
				w.Errorf("noticed after %v", took)
			}
		})
	})
}

// A step of the wall clock changes nothing.
func TestWallClockStep(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.one()
				ticket := w.ticket(r, "k", 1)
				ctx := ticket.Context()
				began := w.clock.Now()
				w.clock.stepped.Store(int64(step))
				if left := ticket.Deadline().Sub(w.clock.Wall()); left != atDeadline {
					w.Errorf("%v are left, want %v", left, atDeadline)
				}
				<-ctx.Done()
				if took := w.clock.Now() - began; took != atDeadline {
					w.Errorf("ended after %v", took)
				}
			})
		})
	}
}

func TestContextOfWhatIsOver(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		expired, released, used, open := w.ticket(r, "1", 1), w.ticket(r, "2", 2), w.ticket(r, "3", 3), w.ticket(r, "4", 4)
		ctx := used.Context()
		for _, ticket := range []*Ticket{released, used} {
			call := w.release(w.Context(), ticket)
			r.released(r.release(ticket.Key(), ticket.Token()))
			call.succeeds()
		}
		if context.Cause(released.Context()) != ErrReleased || context.Cause(ctx) != ErrReleased {
			w.Errorf("after Release: %v, %v", context.Cause(released.Context()), context.Cause(ctx))
		}
		w.pass(atDeadline)
		if context.Cause(expired.Context()) != ErrLeaseEnded {
			w.Errorf("after the deadline: %v", context.Cause(expired.Context()))
		}
		again := w.next(r.host) // nobody answered pings on the one before
		fresh := w.ticket(again, "5", 5)
		ctx = fresh.Context()
		b.Close()
		if context.Cause(ctx) != ErrClosed {
			w.Errorf("after Close: %v", context.Cause(ctx))
		}
		if context.Cause(open.Context()) == nil {
			w.Error("made after Close: it is open")
		}
	})
}

func TestDo(t *testing.T) {
	mine := errors.New("mine")
	tests := []struct {
		name  string
		reply wire.Op // to the release
		work  func(w *world, ctx context.Context) error
		want  []error
	}{
		{"all is well", wire.OpReleased, func(*world, context.Context) error { return nil }, nil},
		{"work fails", wire.OpReleased, func(*world, context.Context) error { return mine }, []error{mine}},
		{"the lease was over", wire.OpNotHeld, func(*world, context.Context) error { return nil }, []error{ErrNotHeld}},
		{"both", wire.OpNotHeld, func(*world, context.Context) error { return mine }, []error{mine, ErrNotHeld}},
		{"work is told of the lease's end", wire.OpNotHeld, func(w *world, ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, []error{ErrLeaseEnded, ErrNotHeld}},
		{"work is told after a suspension", wire.OpNotHeld, func(w *world, ctx context.Context) error {
			w.clock.suspended.Add(int64(time.Minute))
			if ctx.Err() == nil {
				w.Error("the context says that all is well")
			}
			return context.Cause(ctx)
		}, []error{ErrLeaseEnded, ErrNotHeld}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				b, r := w.one()
				type key struct{}
				parent := context.WithValue(w.Context(), key{}, "value")
				call := w.start(func() (*Ticket, error) {
					return nil, b.Do(parent, "k", 0, 10*time.Second, func(ctx context.Context, ticket *Ticket) error {
						if ctx.Value(key{}) != "value" || ticket.Token() != 6 {
							w.Errorf("work got %v and token %d", ctx.Value(key{}), ticket.Token())
						}
						if deadline, ok := ctx.Deadline(); !ok || deadline != ticket.Deadline() {
							w.Errorf("deadline %v, %v", deadline, ok)
						}
						return tt.work(w, ctx)
					})
				})
				r.grant(r.acquire("k"), 6)
				q := r.release("k", 6)
				r.send(wire.Reply{Op: tt.reply, Owner: q.Owner, Token: 6})
				if tt.want == nil {
					call.succeeds()
				} else {
					call.fails(tt.want...)
				}
			})
		})
	}
}

func TestDoEndsWithTheCallersContext(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		call := w.start(func() (*Ticket, error) {
			return nil, b.Do(ctx, "k", 0, 10*time.Second, func(ctx context.Context, ticket *Ticket) error {
				if deadline, _ := ctx.Deadline(); !deadline.Before(ticket.Deadline()) {
					w.Error("the deadline is not the caller's, which is earlier")
				}
				<-ctx.Done()
				return ctx.Err()
			})
		})
		r.grant(r.acquire("k"), 6)
		r.released(r.release("k", 6)) // and waits for it, though ctx has ended
		call.fails(context.DeadlineExceeded)
	})
}

func TestDoWithoutTheLock(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		call := w.start(func() (*Ticket, error) {
			return nil, b.Do(w.Context(), "k", 0, 10*time.Second, func(context.Context, *Ticket) error {
				w.Error("work runs without the lock")
				return nil
			})
		})
		q := r.acquire("k")
		r.send(wire.Reply{Op: wire.OpTimeout, Owner: q.Owner})
		call.fails(ErrTimeout)
	})
}

func TestDoReleasesWhenWorkPanics(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		call := w.start(func() (t *Ticket, err error) {
			defer func() { err = fmt.Errorf("recovered: %v", recover()) }()
			return nil, b.Do(w.Context(), "k", 0, 10*time.Second, func(context.Context, *Ticket) error { panic("work") })
		})
		r.grant(r.acquire("k"), 6)
		r.released(r.release("k", 6))
		if o := call.result(); o.err == nil || o.err.Error() != "recovered: work" {
			w.Errorf("got %v", o.err)
		}
	})
}

func TestRecheckAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newTestClock()
		rings := make(chan time.Duration, 10)
		a := newRecheckAlarm(clock, func() { rings <- clock.Now() })
		a.Set(clock.Now() + time.Second)
		want := clock.Now() + 400*time.Millisecond
		a.Set(want) // earlier
		if at := <-rings; at != want {
			t.Errorf("rang at %v, want %v", at, want)
		}
		a.Set(clock.Now() + time.Hour)
		<-time.After(time.Second)
		clock.suspended.Store(int64(time.Hour))
		began := time.Now()
		<-rings
		if took := time.Since(began); took > recheck {
			t.Errorf("noticed the suspension after %v", took)
		}
		a.Set(clock.Now() + time.Second)
		a.Stop()
		a.Set(clock.Now() + time.Second)
		<-time.After(time.Minute)
		if len(rings) != 0 {
			t.Error("rang after Stop")
		}
	})
}

// The alarm of this system, in real time.
func TestSystemAlarm(t *testing.T) {
	clock := newSystemClock()
	rings := make(chan time.Duration, 10)
	a := clock.NewAlarm(func() { rings <- clock.Now() })
	for _, in := range []time.Duration{20 * time.Millisecond, 0, -time.Second, time.Millisecond} {
		at := clock.Now() + in
		a.Set(at)
		if rang := <-rings; rang < at {
			t.Errorf("rang %v early", at-rang)
		}
	}
	a.Set(clock.Now() + time.Hour)
	a.Stop()
	a.Set(clock.Now())
	if len(rings) != 0 {
		t.Error("rang after Stop")
	}
}
