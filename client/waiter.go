package client

// waiter is where one goroutine waits for one answer. The channel holds one wake-up, so that waking never blocks and
// wakes nobody else.
type waiter struct {
	wake chan struct{}
	next *waiter // in a waiters
	err  error   // of a release
}

func newWaiter() waiter { return waiter{wake: make(chan struct{}, 1)} }

// waiters is a list of waiters, first in, first out, linked through the waiters themselves.
type waiters struct{ first, last *waiter }

func (l *waiters) add(w *waiter) {
	w.next = nil
	if l.first == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

// take empties the list and returns its first.
func (l *waiters) take() *waiter {
	first := l.first
	*l = waiters{}
	return first
}

// remove reports whether w was in the list.
func (l *waiters) remove(w *waiter) bool {
	var before *waiter
	for at := l.first; at != nil; before, at = at, at.next {
		if at != w {
			continue
		}
		if before == nil {
			l.first = w.next
		} else {
			before.next = w.next
		}
		if l.last == w {
			l.last = before
		}
		w.next = nil
		return true
	}
	return false
}
