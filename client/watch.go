package client

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// watch ends the contexts of tickets at their deadlines. It needs no connection for that.
type watch struct {
	clock clock

	mu     sync.Mutex
	alarm  alarm // nil until the first context
	open   ticketHeap
	closed bool
}

// leaseContext ends with a lease. Err compares with the clock itself: right after a suspension nobody may be told that all
// is well only because a timer has not fired yet.
type leaseContext struct {
	context.Context
	cancel context.CancelCauseFunc
	ticket *Ticket
}

func newLeaseContext(parent context.Context, t *Ticket) *leaseContext {
	ctx, cancel := context.WithCancelCause(parent)
	return &leaseContext{Context: ctx, cancel: cancel, ticket: t}
}

func (c *leaseContext) Deadline() (time.Time, bool) {
	deadline := c.ticket.Deadline()
	if parents, ok := c.Context.Deadline(); ok && parents.Before(deadline) {
		return parents, true
	}
	return deadline, true
}

func (c *leaseContext) Err() error {
	if c.Context.Err() == nil && c.ticket.broker.sys.clock.Now() >= c.ticket.release.deadline {
		c.cancel(ErrLeaseEnded)
	}
	return c.Context.Err()
}

// context returns the context of t.
func (w *watch) context(t *Ticket) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.context != nil {
		return t.context
	}
	t.context = newLeaseContext(context.Background(), t)
	switch {
	case t.ended != nil:
		t.context.cancel(t.ended)
	case w.closed:
		t.context.cancel(ErrClosed)
	case w.clock.Now() >= t.release.deadline:
		t.context.cancel(ErrLeaseEnded)
	default:
		if w.alarm == nil {
			w.alarm = w.clock.NewAlarm(w.ring)
		}
		heap.Push(&w.open, t)
		w.set()
	}
	return t.context
}

// set makes the alarm ring at the first deadline. w.mu is held.
func (w *watch) set() {
	if len(w.open) > 0 {
		w.alarm.Set(w.open[0].release.deadline)
	}
}

// end ends the context of t for the given reason, unless it has ended.
func (w *watch) end(t *Ticket, reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.ended != nil {
		return
	}
	t.ended = reason
	if t.context == nil {
		return
	}
	if t.place < len(w.open) && w.open[t.place] == t {
		heap.Remove(&w.open, t.place)
	}
	t.context.cancel(reason)
}

// ring ends the contexts that are due.
func (w *watch) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	for len(w.open) > 0 && w.open[0].release.deadline <= now {
		heap.Pop(&w.open).(*Ticket).context.cancel(ErrLeaseEnded)
	}
	w.set()
}

// close ends all contexts, and the alarm.
func (w *watch) close() {
	w.mu.Lock()
	w.closed = true
	for _, t := range w.open {
		t.context.cancel(ErrClosed)
	}
	w.open = nil
	alarm := w.alarm
	w.alarm = nil
	w.mu.Unlock()
	if alarm != nil {
		alarm.Stop()
	}
}

// ticketHeap is ordered by deadline.
type ticketHeap []*Ticket

func (h ticketHeap) Len() int           { return len(h) }
func (h ticketHeap) Less(i, j int) bool { return h[i].release.deadline < h[j].release.deadline }
func (h ticketHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}
func (h *ticketHeap) Push(x any) {
	t := x.(*Ticket)
	t.place = len(*h)
	*h = append(*h, t)
}
func (h *ticketHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}
