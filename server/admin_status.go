package server

// Status is what /status says of a server, as JSON. What a standalone server does not have is null.
type Status struct {
	Version     string `json:"version"`
	Mode        string `json:"mode"` // standalone, cluster
	Role        string `json:"role"` // standalone, leader, follower, candidate, learner, joining, retired
	Ready       bool   `json:"ready"`
	WhyNotReady string `json:"why_not_ready"` // empty if ready
	Domain      string `json:"domain"`        // hex

	Seat         *int               `json:"seat"`
	NodeID       *uint32            `json:"node_id"`
	Incarnation  *string            `json:"incarnation"` // hex
	Term         *uint64            `json:"term"`
	Leader       *StatusLeader      `json:"leader"`
	CommitIndex  *uint64            `json:"commit_index"`
	AppliedIndex *uint64            `json:"applied_index"`
	StateHash    *string            `json:"state_hash"` // hex
	Members      []StatusMember     `json:"members"`
	Replacement  *StatusReplacement `json:"replacement"`

	HeldKeys      int          `json:"held_keys"`
	Waiters       int          `json:"waiters"`
	Connections   int          `json:"connections"`
	Token         uint64       `json:"token,string"` // last granted, or what the first is above
	UptimeSeconds int64        `json:"uptime_s"`
	Limits        StatusLimits `json:"limits"`
}

// StatusLeader is the leader of a cluster.
type StatusLeader struct {
	NodeID     uint32 `json:"node_id"`
	Seat       int    `json:"seat"`
	ClientAddr string `json:"client_addr"`
}

// StatusMember is a member of a cluster. What the node that answers does not know is null: only a leader knows how far the others
// have come, once they have answered it, and how long they have been silent.
type StatusMember struct {
	Seat        int     `json:"seat"`
	NodeID      uint32  `json:"node_id"`
	Incarnation string  `json:"incarnation"` // hex
	Role        string  `json:"role"`
	PeerAddr    string  `json:"peer_addr"`
	ClientAddr  string  `json:"client_addr"`
	MatchIndex  *uint64 `json:"match_index"`
	Lag         *uint64 `json:"lag"`
	LastHeardMs *int64  `json:"last_heard_ms"`
}

// StatusReplacement is the replacement of a member that is under way.
type StatusReplacement struct {
	Seat   int    `json:"seat"`
	NodeID uint32 `json:"node_id"`
	Phase  string `json:"phase"`
}

// StatusLimits are the limits in force.
type StatusLimits struct {
	Connections   int   `json:"connections"`
	Keys          int   `json:"keys"`
	Waiters       int   `json:"waiters"`
	WaitersPerKey int   `json:"waiters_per_key"`
	InFlight      int   `json:"in_flight"`
	BufferedBytes int64 `json:"buffered_bytes"`
}
