package raft

// Role is what a node does in its term.
type Role uint8

// The roles. A learner is a RoleFollower that is no voter in its own configuration (State.Voter is false).
const (
	RoleFollower     Role = 0
	RolePreCandidate Role = 1
	RoleCandidate    Role = 2
	RoleLeader       Role = 3
)

// String returns the role's name.
func (r Role) String() string {
	switch r {
	case RolePreCandidate:
		return "pre-candidate"
	case RoleCandidate:
		return "candidate"
	case RoleLeader:
		return "leader"
	}
	return "follower"
}

// State is what the driver needs to know of the node between two inputs.
type State struct {
	Role   Role
	Term   uint64
	Leader Member // zero while unknown
	Voter  bool   // a voter in its own configuration in force
	// Serving is true on a leader whose Noop is applied in an open domain: only then may clients be served.
	Serving bool
	// Transferring is true while a leader is handing over: proposals are accepted and wait.
	Transferring bool
	// HoldBack asks the leader to answer acquires with B overloaded, so that a snapshot can catch up.
	HoldBack bool
}

// Ready is everything that leaves the core: the one drain. All of it is valid until Advance, and the driver works it
// off in the order of the fields.
type Ready struct {
	// State is the present state; Changed says that it differs from the last Ready's. A leader whose Term differs
	// from the last Ready's has begun another reign in between.
	State   State
	Changed bool
	// Messages are to be sent, in this order for each receiver. Losing one is safe. Entries and chunks alias the
	// core's memory.
	Messages []Message
	// Installed is set when a snapshot has replaced the application's state since the last Ready.
	Installed *Installed
	// Committed are the entries to apply now.
	Committed []Committed
	// Lost is how many more of the oldest undecided proposals are now known never to take effect; it is settled
	// after Committed.
	Lost int
}
