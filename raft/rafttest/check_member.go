package rafttest

import (
	"ticketing.internal/raft"
)

// push puts the configuration of an entry in force in the log that has just got it.
func (c *checker) push(r *record, index uint64, v *variant) {
	if v.config == nil || len(r.configs) > 0 && r.configs[len(r.configs)-1].index >= index {
		return
	}
	r.configs = append(r.configs, configAt{index, *v.config})
	switch {
	case r.role == raft.RoleLeader:
	case v.config.Joint():
		c.s.triggered(whenJointReceived, r.p)
	default:
		c.s.triggered(whenFinalReceived, r.p)
	}
}

// committedConfiguration is the configuration of the last committed configuration entry.
func (c *checker) committedConfiguration() raft.Configuration {
	return c.committedAt(uint64(len(c.committed)) - 1).config
}

// inJoint reports whether some leader has appended a joint configuration that no final one has followed.
func (c *checker) inJoint() bool {
	for _, p := range c.s.procs {
		if r := c.records[p.member]; p.alive && r != nil && r.config().Joint() {
			return true
		}
	}
	return false
}

// committedAt returns the configuration in force at a committed index.
func (c *checker) committedAt(index uint64) configAt {
	for i := len(c.configs) - 1; i >= 0; i-- {
		if c.configs[i].index <= index {
			return c.configs[i]
		}
	}
	if c.initial == nil {
		return configAt{}
	}
	return configAt{0, configurationOf(c.initial)}
}

func configurationOf(initial *raft.InitialConfig) raft.Configuration {
	var config raft.Configuration
	for i := range initial.Members {
		config.Voters = append(config.Voters, initial.Members[i].Member)
	}
	return config
}

// controlProposed checks a leader that appends a Control entry: none before it in the log is unapplied, and the rules of
// configurations hold.
func (c *checker) controlProposed(r *record, e *raft.Event) {
	ctl := e.Control
	for i := r.applied + 1; i < e.Index; i++ {
		at, ok := r.at(i)
		if !ok {
			continue
		}
		if other := c.variant(i, at.term); other.kind == raft.EntryControl {
			c.s.fail("one control at a time", "%v appends %v at %d, its Control entry %d is not applied", r.p, ctl.Kind, e.Index, i)
		}
	}
	if !c.model.bootstrapped && ctl.Kind != raft.ControlBootstrap && ctl.Kind != raft.ControlBurn {
		c.s.fail("bootstrap first", "%v appends %v before Bootstrap is applied", r.p, ctl.Kind)
	}
	switch ctl.Kind {
	case raft.ControlRejoin:
		// One's own learner, never promoted, is replaced at once.
		under := c.model.replacement
		learner := under != nil && under.newcomer == ctl.Replaces
		if at, ok := r.acks[ctl.Replaces]; ok && !learner && r.p.ticks-at < c.electionTicks() {
			c.s.fail("rejoin replaces the dead", "%v appends the rejoin over %v, which it still hears", r.p, ctl.Replaces)
		}
	case raft.ControlBootstrap:
		c.s.triggered(whenBootstrapProposed, r.p)
	case raft.ControlServiceOpen:
		c.s.triggered(whenOpenProposed, r.p)
	case raft.ControlJoint:
		c.jointProposed(r, e)
	case raft.ControlFinal:
		c.finalProposed(r, e)
	case raft.ControlAbort:
		if r.configBefore(e.Index).Joint() {
			c.s.fail("forward only", "%v appends an abort at %d, behind a joint configuration", r.p, e.Index)
		}
	}
}

// configBefore is the configuration in force in front of an index.
func (r *record) configBefore(index uint64) raft.Configuration {
	for i := len(r.configs) - 1; i >= 0; i-- {
		if r.configs[i].index < index {
			return r.configs[i].config
		}
	}
	return raft.Configuration{}
}

func (c *checker) jointProposed(r *record, e *raft.Event) {
	config := e.Control.Configuration
	before := r.configBefore(e.Index)
	if before.Joint() || !config.Joint() || !equalMembers(config.Voters, before.Voters) {
		c.s.fail("configurations alternate", "%v appends %v behind %v", r.p, config, before)
	}
	if !config.IsVoter(r.member) || !contains(config.Next, r.member) {
		c.s.fail("no configuration without its leader", "%v appends %v", r.p, config)
	}
	goal := r.commits[(r.p.ticks+1)%len(r.commits)] // what was committed at the beginning of the last round, at the latest
	for _, m := range config.Next {
		if other := c.records[m]; !contains(config.Voters, m) && (other == nil || other.last() < goal) {
			c.s.fail("caught up before joint", "%v appends the joint configuration, %v does not hold %d", r.p, m, goal)
		}
	}
	c.s.cover[CoverJoint]++
	if old := c.s.byIncarnation[c.model.predecessor().Incarnation]; old != nil && old.alive {
		c.s.cover[CoverJointLiveVictim]++
	}
	c.s.triggered(whenJointProposed, r.p)
}

// finalProposed checks the rule without which two leaders in one term are possible: the joint entry is committed, and an
// entry of the leader's own term at or behind it.
func (c *checker) finalProposed(r *record, e *raft.Event) {
	config := e.Control.Configuration
	joint := configAt{}
	for _, k := range r.configs {
		if k.index < e.Index {
			joint = k
		}
	}
	switch {
	case config.Joint() || !joint.config.Joint() || !equalMembers(config.Voters, joint.config.Next):
		c.s.fail("configurations alternate", "%v appends %v behind %v", r.p, config, joint.config)
	case r.commit < joint.index:
		c.s.fail("final after joint", "%v appends the final configuration, the joint one at %d is not committed (%d is)", r.p, joint.index, r.commit)
	case r.firstOf == 0 || r.commit < max(r.firstOf, joint.index):
		c.s.fail("final after own term", "%v appends the final configuration; committed is %d, its own first entry %d", r.p, r.commit, r.firstOf)
	case !contains(config.Voters, r.member):
		c.s.fail("no configuration without its leader", "%v appends %v", r.p, config)
	}
	c.s.triggered(whenFinalProposed, r.p)
}

// controlCommitted tells of configuration entries as they are committed.
func (c *checker) controlCommitted(r *record, index uint64, v *variant) {
	switch {
	case v.config == nil:
	case v.config.Joint():
		c.s.triggered(whenJointCommitted, r.p)
	default:
		c.s.cover[CoverFinal]++
		c.s.triggered(whenFinalCommitted, r.p)
	}
	if v.control == raft.ControlServiceOpen {
		c.checkAllHoldBootstrap(index)
	}
}

// checkSender checks that nobody is heard whom the receiver's applied state knows as retired.
func (c *checker) checkSender(p, from *process) {
	r := c.records[p.member]
	if at := c.model.retiredAt(from.member); at > 0 && at <= r.applied {
		c.s.fail("retired are not heard", "%v (applied %d) is sent to by %v, retired at %d", p, r.applied, from, at)
	}
	if m := c.model.named(from.member.NodeID); !m.IsZero() && m != from.member && c.model.admittedAt(m) <= r.applied {
		c.s.fail("retired are not heard", "%v (applied %d) is sent to by %v; that NodeId is %v", p, r.applied, from, m)
	}
}

// introduced checks a refusal: who is not yet known is let in, and nobody is refused without a reason.
func (c *checker) introduced(p, from *process, refusal raft.Refusal) {
	r := c.records[p.member]
	switch refusal {
	case raft.RefuseRetired, raft.RefuseOtherIncarnation:
		at := c.model.retiredAt(from.member)
		other := c.model.named(from.member.NodeID)
		if (at == 0 || at > r.applied) && (other.IsZero() || other == from.member) && !c.model.voidAt(from.member.NodeID, r.applied) {
			c.s.fail("unknown are let in", "%v (applied %d) refuses %v: %v", p, r.applied, from, refusal)
		}
	case raft.RefuseRegressed, raft.RefuseSelf, raft.RefuseReceiver:
		c.s.fail("identities are unique", "%v refuses %v: %v", p, from, refusal)
	}
}

func contains(members []raft.Member, m raft.Member) bool {
	for i := range members {
		if members[i] == m {
			return true
		}
	}
	return false
}

// equalMembers reports whether two lists hold the same members.
func equalMembers(a, b []raft.Member) bool {
	if len(a) != len(b) {
		return false
	}
	for _, m := range a {
		if !contains(b, m) {
			return false
		}
	}
	return true
}

// controlMark is the state before a control request.
type controlMark struct {
	events   int
	registry uint64
}

// beforeControl notes what a refused control request must leave as it is.
func (c *checker) beforeControl(p *process) controlMark {
	return controlMark{c.records[p.member].events, hashRegistry(p.node.Registry())}
}

// afterControl checks that a refused request had no effect.
func (c *checker) afterControl(p *process, before controlMark, request *raft.Control, err error) {
	if err == nil {
		return
	}
	if now := c.beforeControl(p); now != before {
		c.s.fail("refused without effect", "%v refuses %v (%v) and has changed", p, request.Kind, err)
	}
}
