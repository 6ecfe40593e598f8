package rafttest

import (
	"ticketing.internal/raft"
)

// accepts checks a process that accepts an InitialConfig: one in its life.
func (c *checker) accepts(p *process, initial *raft.InitialConfig) {
	hash := initial.Hash()
	if had, ok := c.accepted[p.member]; ok && had != hash {
		c.s.fail("one InitialConfig", "%v accepts a second one", p)
	} else if ok {
		return
	}
	c.accepted[p.member] = hash
	c.s.triggered(whenAccepted, p)
}

// checkUnanimity checks a node that starts: everybody has accepted the same InitialConfig.
func (c *checker) checkUnanimity(p *process, initial *raft.InitialConfig) {
	hash := initial.Hash()
	for i := range initial.Members {
		if m := initial.Members[i].Member; c.accepted[m] != hash {
			c.s.fail("one InitialConfig", "%v starts Raft, and %v has not accepted the same InitialConfig", p, m)
		}
	}
	if c.initial == nil {
		c.initial = initial
		c.model.birth(initial)
	} else if c.initial.Hash() != hash {
		c.s.fail("one InitialConfig", "%v starts Raft from another one", p)
	}
}

// checkAllHoldBootstrap checks a committed ServiceOpen: every initial voter has acknowledged the Bootstrap entry.
func (c *checker) checkAllHoldBootstrap(index uint64) {
	bootstrap := uint64(0)
	for i := index; i > 0; i-- {
		if c.variant(i, c.committed[i].term).control == raft.ControlBootstrap {
			bootstrap = i
		}
	}
	for i := range c.initial.Members {
		m := c.initial.Members[i].Member
		if r := c.records[m]; bootstrap == 0 || r == nil || !r.holds(bootstrap, c.committed[bootstrap].hash) {
			c.s.fail("open by all", "ServiceOpen is committed at %d, and %v does not hold the Bootstrap entry at %d", index, m, bootstrap)
		}
	}
}
