package client

import (
	"errors"
	"fmt"
	"time"

	"ticketing.internal/wire"
)

// What Acquire, TryAcquire, Do, Release and WaitReady return, to be told apart with errors.Is.
var (
	// ErrTimeout: not granted within the wait. Somebody else holds the key. Nothing is left behind.
	ErrTimeout = errors.New("not granted within the wait: the key is held by somebody else")
	// ErrBusy: not granted, and the request had no effect and never will. The error is a *BusyError that says why.
	ErrBusy = errors.New("busy")
	// ErrIndeterminate: whether the lock was granted cannot be known. Stay out of the critical section. The error
	// is an *IndeterminateError that says until when a grant that nobody knows of may stand.
	ErrIndeterminate = errors.New("indeterminate")
	// ErrNotHeld: the server does not know this grant any more: it was released, or its lease ended.
	ErrNotHeld = errors.New("not held: the lease ended or the lock was released before")
	// ErrUnconfirmed: a release was not confirmed within 5 s, or could not be queued. The lock is free at the latest
	// at the end of its lease. Release may be called again.
	ErrUnconfirmed = errors.New("release not confirmed: the lock is free at the end of its lease at the latest")
	// ErrClosed: the Broker is closed.
	ErrClosed = errors.New("broker is closed")
	// ErrInvalid: an argument or the configuration is outside its range. Nothing was sent.
	ErrInvalid = errors.New("invalid")
	// ErrAuth: the token, the server's proof, or a certificate was refused by one of the two sides.
	ErrAuth = errors.New("authentication failed")
)

// Why the Context of a Ticket ended: see context.Cause.
var (
	// ErrLeaseEnded: the Ticket's Deadline has passed. Another may hold the key.
	ErrLeaseEnded = errors.New("lease ended")
	// ErrReleased: Release was called.
	ErrReleased = errors.New("lock was released")
)

// BusyError is a definite no: the request had no effect and never will. It is ErrBusy, its Code, and its Cause to
// errors.Is.
type BusyError struct {
	Key        string
	Code       wire.Busy     // why; BusyNoLeader also when no serving node was connected in time
	RetryAfter time.Duration // the server's hint when trying again makes sense; 0: none
	Cause      error         // what stood in the way of a connection, if that was it; or nil
}

func (e *BusyError) Error() string {
	text := fmt.Sprintf("acquire %q: busy: %v", e.Key, e.Code)
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(" (retry after %v)", e.RetryAfter)
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

func (e *BusyError) Unwrap() []error { return wrapped(e.Cause, ErrBusy, e.Code) }

// IndeterminateError: the acquire was sent, and whether it was granted is not known. It is ErrIndeterminate and its
// Cause to errors.Is.
type IndeterminateError struct {
	Owner uint64 // of the acquire, as operators see it in `ticketing keys`
	Key   string
	// Until is the earliest moment at which trying again makes sense: a grant by a standalone server that nobody
	// knows of has ended by then. A cluster that stood without a quorum may still grant later.
	Until time.Time
	Cause error // what hid the answer: the end of the connection, the end of the caller's context, silence
}

func (e *IndeterminateError) Error() string {
	text := fmt.Sprintf("acquire %q (owner %d): indeterminate: stay out of the critical section; a grant that nobody knows of may stand until %s",
		e.Key, e.Owner, e.Until.Format(time.RFC3339))
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

func (e *IndeterminateError) Unwrap() []error { return wrapped(e.Cause, ErrIndeterminate) }

// wrapped returns errs, and cause unless it is nil.
func wrapped(cause error, errs ...error) []error {
	if cause != nil {
		errs = append(errs, cause)
	}
	return errs
}
