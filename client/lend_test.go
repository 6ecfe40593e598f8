package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"ticketing.internal/wire"
)

// lending opens a Broker whose callers may read, with one connection, the reading of which is lent: a pair was just
// answered. It returns the pair's ticket too.
func (w *world) lending() (*Broker, *remote) {
	w.Helper()
	h := w.host("a:1")
	b := w.openWith(Config{Addrs: []string{"a:1", "down:1"}}, func(s *system) { s.lends = true })
	r := w.next(h)
	ticket := w.ticket(r, "first", 1)
	release := w.release(w.Context(), ticket)
	r.released(r.release("first", 1))
	release.succeeds()
	w.expectReading(readByNobody)
	return b, r
}

// expectReading checks who reads the session.
func (w *world) expectReading(want reading) {
	w.Helper()
	synctest.Wait()
	w.broker.mu.Lock()
	defer w.broker.unlock()
	if got := w.broker.sessions[0].reading; got != want {
		w.Errorf("read by %d, want %d", got, want)
	}
}

func TestCallerReadsItsReply(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.lending()
		for token := uint64(2); token < 100; token++ {
			call := w.acquire(w.Context(), "k")
			w.expectReading(readByCaller)
			r.grant(r.acquire("k"), token)
			ticket := call.granted()
			w.expectReading(readByNobody)
			release := w.release(w.Context(), ticket)
			w.expectReading(readByCaller)
			r.released(r.release("k", token))
			if o := release.succeeds(); o.took != 0 {
				w.Fatalf("took %v", o.took)
			}
		}
		w.pass(2 * lendTime)
		w.expectReading(readByReader)
	})
}

// A reply that does not come at once is the reader's to read, and the caller's ctx is looked at again.
func TestReplyAfterTheLoan(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.lending()
		ctx, cancel := context.WithCancel(w.Context())
		call, other := w.acquire(w.Context(), "k"), w.acquire(ctx, "other")
		w.pass(loanTime)
		w.expectReading(readByReader)
		call.pending()
		cancel()
		if o := other.fails(context.Canceled, ErrIndeterminate); o.took != loanTime {
			w.Errorf("took %v", o.took)
		}
		w.pass(time.Second)
		r.grant(r.acquire("k"), 2)
		call.granted()
		r.acquire("other")
		r.release("other", 0)
	})
}

func TestCancelDuringTheLoan(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.lending()
		ctx, cancel := context.WithCancel(w.Context())
		call := w.acquire(ctx, "k")
		cancel()
		if o := call.fails(context.Canceled, ErrIndeterminate); o.took != loanTime {
			w.Errorf("took %v", o.took)
		}
		r.acquire("k")
		r.release("k", 0)
	})
}

// The borrower settles everybody's replies, and does not stay for what is still to come.
func TestBorrowerReadsForOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.lending()
		first, second, third := w.acquire(w.Context(), "1"), w.acquire(w.Context(), "2"), w.acquire(w.Context(), "3")
		q1, q2, q3 := r.acquire("1"), r.acquire("2"), r.acquire("3")
		r.grant(q2, 2)
		second.granted()
		first.pending()
		r.grant(q1, 3)
		first.granted()
		w.expectReading(readByReader) // for the third's
		r.grant(q3, 4)
		third.granted()
	})
}

func TestConnectionEndsDuringTheLoan(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.lending()
		call := w.acquire(w.Context(), "k")
		r.hangUp()
		if o := call.fails(ErrIndeterminate); o.took != 0 {
			w.Errorf("took %v", o.took)
		}
		again := w.next(r.host)
		w.ticket(again, "k", 2)
	})
	inWorld(t, func(w *world) { // what it reads is garbage
		_, r := w.lending()
		call := w.acquire(w.Context(), "k")
		r.write(make([]byte, wire.HeaderSize))
		call.fails(ErrIndeterminate)
		w.next(r.host)
	})
}

// While the reading is lent and nobody borrows it nothing is read; not for long.
func TestNobodyReads(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.lending()
		r.moved("a:1", 9)
		if s := b.Stats(); s.Redirects != 0 {
			w.Error("somebody reads: the test tests nothing")
		}
		w.pass(2 * lendTime)
		if s := b.Stats(); s.Redirects != 1 {
			w.Error("after the time nobody reads")
		}
	})
	inWorld(t, func(w *world) {
		b, r := w.lending()
		r.hangUp()
		w.pass(2 * lendTime)
		if s := b.Stats(); s.Connections != 0 {
			w.Error("the end of the connection is not noticed")
		}
		w.next(r.host)
	})
	inWorld(t, func(w *world) { // with loans in between
		_, r := w.lending()
		for token := uint64(2); token < 20; token++ {
			w.pass(lendTime * 3 / 4)
			w.ticket(r, "k", token)
		}
		w.expectReading(readByNobody)
		w.pass(2 * lendTime)
		w.expectReading(readByReader)
		w.ticket(r, "k", 30)
	})
}

func TestCloseDuringTheLoan(t *testing.T) {
	inWorld(t, func(w *world) {
		b, _ := w.lending()
		call := w.acquire(context.Background(), "k")
		closing := w.start(func() (*Ticket, error) { return nil, b.Close() })
		call.fails(ErrClosed, ErrIndeterminate)
		closing.succeeds()
	})
	inWorld(t, func(w *world) {
		b, _ := w.lending()
		closing := w.start(func() (*Ticket, error) { return nil, b.Close() })
		if o := closing.succeeds(); o.took > 2*lendTime {
			w.Errorf("took %v", o.took)
		}
	})
}
