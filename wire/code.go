package wire

import "strconv"

// Busy is the code of a B reply, and an error: the request had no effect and never will.
type Busy uint16

// The codes of B.
const (
	BusyNoLeader        Busy = 1 // no leader with a quorum is known here
	BusyNotLeader       Busy = 2 // this node does not lead and knows who does
	BusyShuttingDown    Busy = 3
	BusyTooManyKeys     Busy = 4
	BusyTooManyWaiters  Busy = 5 // in all, or on this key
	BusyTooManyInFlight Busy = 6 // on this connection
	BusyRecovering      Busy = 7 // leases granted before a restart may still run
	BusyOverloaded      Busy = 8 // the proposal queue is full
)

// String returns the protocol's name of the code.
func (b Busy) String() string {
	switch b {
	case BusyNoLeader:
		return "no_leader"
	case BusyNotLeader:
		return "not_leader"
	case BusyShuttingDown:
		return "shutting_down"
	case BusyTooManyKeys:
		return "too_many_keys"
	case BusyTooManyWaiters:
		return "too_many_waiters"
	case BusyTooManyInFlight:
		return "too_many_in_flight"
	case BusyRecovering:
		return "recovering"
	case BusyOverloaded:
		return "overloaded"
	}
	return "busy_" + strconv.Itoa(int(b))
}

// Error returns the name and, where there is one, what the caller can do.
func (b Busy) Error() string {
	switch b {
	case BusyNoLeader:
		return "no_leader: no leader with a quorum is known; try again later"
	case BusyNotLeader:
		return "not_leader: ask the leader"
	case BusyShuttingDown:
		return "shutting_down: the server is stopping; try another one"
	case BusyTooManyKeys:
		return "too_many_keys: the server holds as many keys as it may; release some or raise its limit"
	case BusyTooManyWaiters:
		return "too_many_waiters: the queue is full; try again later"
	case BusyTooManyInFlight:
		return "too_many_in_flight: wait for replies before sending more on this connection"
	case BusyRecovering:
		return "recovering: leases from before a restart may still run; try again later"
	case BusyOverloaded:
		return "overloaded: try again later"
	}
	return b.String() + ": a code that this version does not know"
}

// Failure is the code of an E reply, and an error.
type Failure uint16

// The codes of E. Malformed, AuthFailed, UnsupportedVersion and TooManyConnections end the connection.
const (
	Malformed          Failure = 1
	InvalidKey         Failure = 2
	InvalidWait        Failure = 3
	InvalidLease       Failure = 4
	InvalidOwner       Failure = 5 // 0, or already in flight on the connection
	AuthFailed         Failure = 6
	UnsupportedVersion Failure = 7
	Indeterminate      Failure = 8 // the request was proposed and its fate cannot be known here
	TooManyConnections Failure = 9 // sent as a v0 line in place of the greeting
)

// String returns the protocol's name of the code.
func (f Failure) String() string {
	switch f {
	case Malformed:
		return "malformed"
	case InvalidKey:
		return "invalid_key"
	case InvalidWait:
		return "invalid_wait"
	case InvalidLease:
		return "invalid_lease"
	case InvalidOwner:
		return "invalid_owner"
	case AuthFailed:
		return "auth_failed"
	case UnsupportedVersion:
		return "unsupported_version"
	case Indeterminate:
		return "indeterminate"
	case TooManyConnections:
		return "too_many_connections"
	}
	return "error_" + strconv.Itoa(int(f))
}

// Error returns the name, what is allowed, and what the caller can do. It is ASCII and fits the reason of an E reply.
func (f Failure) Error() string {
	switch f {
	case Malformed:
		return "malformed: the bytes are not of this protocol; connect again"
	case InvalidKey:
		return "invalid_key: a key is 1 to 128 bytes of UTF-8 without spaces and control characters"
	case InvalidWait:
		return "invalid_wait: a wait is 0 to 3600000 ms"
	case InvalidLease:
		return "invalid_lease: a lease is 1000 to 250000 ms"
	case InvalidOwner:
		return "invalid_owner: use an owner that is not 0 and not in flight on the connection"
	case AuthFailed:
		return "auth_failed: client and server do not have the same token"
	case UnsupportedVersion:
		return "unsupported_version: the server does not speak this version of the protocol"
	case Indeterminate:
		return "indeterminate: whether the request took effect cannot be known; stay out of the critical section"
	case TooManyConnections:
		return "too_many_connections: the server has as many connections as it may; try again later"
	}
	return f.String() + ": a code that this version does not know"
}
