package lock

import "ticketing.internal/wire"

// Session is one authenticated connection. Numbers start at 1, are dense, and are used again: a number is free once its
// connection has closed and no key granted to it is held any more. 0 is no session.
type Session uint32

// Client says who is behind a session, for people who look at who holds what.
type Client struct {
	Name string // as the client gave it; may be empty
	Addr string // host:port
}

// Reply is what the manager decided about one request.
type Reply struct {
	Op          wire.Op
	Code        uint16 // B: a wire.Busy; E: a wire.Failure; else 0
	Millis      uint32 // A: ms from the reading of the request to the proposing of the Grant, rounded down; else 0
	LeaseMillis uint32 // A: the lease in ms, which starts at the EndBatch to come; else 0
	Ref         uint32 // A: names the grant in TakeBack; else 0
	Owner       uint64 // of the request that is answered
	Token       uint64 // A: the grant's; R, N: the one that the release named; else 0
	Key         []byte // of the request; valid during the call
}

// Sink takes what leaves the manager. Its methods are called from within the manager's and must not call it back.
type Sink interface {
	// Reply answers a request of s. r is the manager's scratch: copy what is kept.
	Reply(s Session, r *Reply)

	// ForeignRelease tells that s gave back a key that was granted to a client at another host: a line for the audit.
	// key is valid during the call.
	ForeignRelease(s Session, key []byte, owner, token uint64, grantedTo Client)
}
