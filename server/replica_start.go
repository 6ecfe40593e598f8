package server

import (
	"ticketing.internal/lock"
	"ticketing.internal/raft"
)

// waitingFor says what a node that does not take part in Raft yet waits for.
func (r *replica) waitingFor() string { return r.waiting }

// follow does what a Control entry means for this process: whom it talks to, what its marker says, and whether it goes on.
func (r *replica) follow(now lock.Time, c *raft.Committed) {
	r.peers.setMembers(r.node.Registry().Members)
}
