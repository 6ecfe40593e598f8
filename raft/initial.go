package raft

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// InitialConfig names the first voters of a domain, pair by pair. It is made once, by the node of seat 1.
type InitialConfig struct {
	Domain Domain
	// TokenBase, NotAfterMillis (Unix milliseconds) and Credential are the bootstrap credential's.
	TokenBase      uint64
	NotAfterMillis int64
	Credential     CredentialID
	Members        []MemberInfo // by seat: seat i+1 at index i, with that number as its NodeID
}

// Validate reports all that is wrong with c.
func (c *InitialConfig) Validate() error {
	var errs []error
	if !ValidSize(len(c.Members)) {
		errs = append(errs, fmt.Errorf("raft: a cluster has 3 or 5 voters, not %d", len(c.Members)))
	}
	for i := range c.Members {
		m := &c.Members[i]
		if int(m.Seat) != i+1 || int(m.Member.NodeID) != i+1 || m.Learner {
			errs = append(errs, fmt.Errorf("raft: row %d of InitialConfig holds seat %d, member %v", i+1, m.Seat, m.Member))
		}
		if m.Member.Incarnation == (Incarnation{}) {
			errs = append(errs, fmt.Errorf("raft: seat %d of InitialConfig has no incarnation", m.Seat))
		}
		if m.PeerAddr == "" || len(m.PeerAddr) > MaxAddr || len(m.ClientAddr) > MaxAddr {
			errs = append(errs, fmt.Errorf("raft: seat %d of InitialConfig has addresses of %d and %d bytes, allowed are 1..%d",
				m.Seat, len(m.PeerAddr), len(m.ClientAddr), MaxAddr))
		}
		for j := range c.Members[:i] {
			if c.Members[j].PeerAddr == m.PeerAddr || c.Members[j].Member.Incarnation == m.Member.Incarnation {
				errs = append(errs, fmt.Errorf("raft: seats %d and %d of InitialConfig share an address or an incarnation", j+1, i+1))
			}
		}
	}
	return errors.Join(errs...)
}

// find returns m's row, or nil.
func (c *InitialConfig) find(m Member) *MemberInfo {
	for i := range c.Members {
		if c.Members[i].Member == m {
			return &c.Members[i]
		}
	}
	return nil
}

// Hash is the SHA-256 of c's encoding.
func (c *InitialConfig) Hash() [32]byte { return sha256.Sum256(AppendInitialConfig(nil, c)) }

// configuration returns the voters.
func (c *InitialConfig) configuration() Configuration {
	var conf Configuration
	for i := range c.Members {
		conf.Voters = append(conf.Voters, c.Members[i].Member)
	}
	return conf
}
