package client

import (
	"errors"
	"os"
	"time"
)

// A caller whose request is the only one in flight can read the reply itself. If the reader goroutine woke it instead, each
// reply would cost a switch of goroutines and, worse, the waking of a processor by the runtime. So after a batch that leaves a
// session with nothing in flight, its reader lends the reading to whoever sends next. It takes the reading back when nobody
// has borrowed it for a while, or when the borrower's reply does not come at once.

const (
	// loanTime is how long a borrower may wait for its reply. Meanwhile it does not look at its ctx.
	loanTime = 250 * time.Microsecond
	// lendTime is how long the reading stays lent without being borrowed (at most twice that) before the reader reads again
	// itself. Until then nothing is read, so that what the server sends unasked, and the end of the connection, are noticed
	// that much later.
	lendTime = time.Millisecond
)

// reading says who reads a session, and owns its inbox.
type reading byte

const (
	readByReader reading = iota
	readByNobody         // lent: the next caller with an idle session may take it
	readByCaller         // who then gives the reading back through session.back, or leaves it lent
)

// idle reports whether nothing is in flight and everything that was read is consumed. b.mu is held, and the inbox is ours.
func (s *session) idle() bool {
	return s.reason == nil && len(s.calls)+s.releasing == 0 && len(s.in.bytes()) == 0
}

// lend lends the reading of an idle session, and returns when it has come back. Only the reader goroutine calls it.
func (s *session) lend() error {
	b := s.b
	b.mu.Lock()
	lent := s.back != nil && s.idle()
	if lent {
		s.reading = readByNobody
	}
	loans := s.loans
	b.unlock()
	if !lent {
		return nil
	}
	defer s.conn.SetReadDeadline(time.Time{}) // a borrower had set one
	s.lent.Reset(lendTime)
	defer s.lent.Stop()
	for {
		select {
		case err := <-s.back:
			return err
		case <-s.lent.C:
		}
		b.mu.Lock()
		if s.reading == readByNobody && s.loans == loans {
			s.reading = readByReader
			b.unlock()
			return nil
		}
		loans = s.loans
		b.unlock()
		s.lent.Reset(lendTime)
	}
}

// borrow reports whether the caller, whose request is the only one in flight, reads for itself. b.mu is held.
func (s *session) borrow() bool {
	if s.reading != readByNobody || len(s.calls)+s.releasing != 1 {
		return false
	}
	s.reading = readByCaller
	s.loans++
	return true
}

// readFor reads in the reader's place until w is woken, for loanTime at most.
func (s *session) readFor(w *waiter) {
	s.conn.SetReadDeadline(s.b.sys.clock.Wall().Add(loanTime))
	var err error
	for err == nil && len(w.wake) == 0 {
		if err = s.in.fill(); err == nil {
			err = s.takeReplies()
		}
	}
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if late {
		err = nil
	}
	s.b.mu.Lock()
	if err == nil && !late && s.idle() {
		s.reading = readByNobody
		s.b.unlock()
		return
	}
	s.reading = readByReader
	s.b.unlock()
	s.back <- err
}
