package client

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// Close at every point of a Broker's life. That no goroutine is left and no table holds anything is checked for every
// Broker by inWorld.
func TestClose(t *testing.T) {
	tests := []struct {
		name  string
		reach func(w *world) *running // brings the Broker to the point, and perhaps starts a call
		want  []error                 // of the call
	}{
		{"dialling", func(w *world) *running {
			w.openWith(Config{Addrs: []string{"a:1"}, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}, nil)
			return w.acquire(context.Background(), "k")
		}, []error{ErrClosed}},
		{"no greeting yet", func(w *world) *running {
			w.handshakes(Config{})
			return w.acquire(context.Background(), "k")
		}, []error{ErrClosed}},
		{"no welcome yet", func(w *world) *running {
			_, r := w.handshakes(Config{})
			r.write(wire.AppendGreeting(nil, []byte("aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeee")))
			return w.acquire(context.Background(), "k")
		}, []error{ErrClosed}},
		{"pausing", func(w *world) *running {
			w.open("down:2")
			w.pass(time.Minute)
			return w.acquire(context.Background(), "k")
		}, []error{ErrClosed}},
		{"idle", func(w *world) *running {
			w.one()
			return nil
		}, nil},
		{"waiting in the queue", func(w *world) *running {
			w.one()
			return w.acquire(context.Background(), "k")
		}, []error{ErrClosed, ErrIndeterminate}},
		{"behind a stuck writer", func(w *world) *running {
			_, r := w.one()
			r.choke(0)
			w.acquire(context.Background(), "first")
			return w.acquire(context.Background(), "k")
		}, []error{ErrClosed}},
		{"a cancelled acquire unanswered", func(w *world) *running {
			w.one()
			ctx, cancel := context.WithCancel(context.Background())
			w.acquire(ctx, "k")
			cancel()
			return nil
		}, nil},
		{"holding", func(w *world) *running {
			_, r := w.one()
			w.ticket(r, "k", 1).Context()
			return nil
		}, nil},
		{"releasing", func(w *world) *running {
			_, r := w.one()
			return w.release(context.Background(), w.ticket(r, "k", 1))
		}, []error{ErrClosed, ErrUnconfirmed}},
		{"releasing without a connection", func(w *world) *running {
			_, r := w.one()
			ticket := w.ticket(r, "k", 1)
			w.change(r.host, func() { r.host.refuse = errors.New("down") })
			r.hangUp()
			return w.release(context.Background(), ticket)
		}, []error{ErrClosed, ErrUnconfirmed}},
		{"waiting for readiness", func(w *world) *running {
			b := w.open("down:2")
			return w.start(func() (*Ticket, error) { return nil, b.WaitReady(context.Background()) })
		}, []error{ErrClosed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				call := tt.reach(w)
				b := w.broker
				began := w.clock.Now()
				var closes []*running
				for range 3 {
					closes = append(closes, w.start(func() (*Ticket, error) { return nil, b.Close() }))
				}
				for _, c := range closes {
					c.succeeds()
				}
				if took := w.clock.Now() - began; took != 0 {
					w.Errorf("took %v", took)
				}
				if call != nil {
					call.fails(tt.want...)
				}
				w.acquire(context.Background(), "k").fails(ErrClosed)
				w.start(func() (*Ticket, error) { return nil, b.Release(context.Background(), "k", 1, 1) }).fails(ErrClosed, ErrUnconfirmed)
				w.start(func() (*Ticket, error) { return nil, b.WaitReady(context.Background()) }).fails(ErrClosed)
			})
		})
	}
}

// Close releases nothing: a holder may still be at work.
func TestCloseReleasesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		ticket := w.ticket(r, "k", 1)
		b.Close()
		r.silent()
		w.release(context.Background(), ticket).fails(ErrClosed, ErrUnconfirmed)
		r.silent()
	})
}
