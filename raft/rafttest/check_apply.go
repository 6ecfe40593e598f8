package rafttest

import (
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// appliedEntry is what applying an entry did on the first node that did; every other must do the same.
type appliedEntry struct {
	result   lock.Result
	outcome  raft.Outcome
	registry uint64 // hash, behind a Control entry
	state    uint64 // hash of the lock table, 0: not taken
	granted  time.Duration
}

// applies checks the entry that a node is about to apply: the next one, and the committed one.
func (c *checker) applies(p *process, e *raft.Entry) {
	r := c.records[p.member]
	if e.Index != r.applied+1 || e.Index > r.commit {
		c.s.fail("applied in order", "%v applies %d after %d, committed is %d", p, e.Index, r.applied, r.commit)
	}
	v := c.variant(e.Index, c.committed[e.Index].term)
	data := hashWord(hashBytes(fnvOffset, e.Data), uint64(e.Kind))
	if v.term != e.Term || v.data != data {
		c.s.fail("state machine safety", "%v applies another entry %d (of term %d) than was committed (of term %d)", p, e.Index, e.Term, v.term)
	}
	for uint64(len(c.results)) <= e.Index {
		c.results = append(c.results, appliedEntry{})
	}
}

// hashEvery is how many entries lie between two comparisons of whole lock tables.
const hashEvery = 32

// applied ends the check of one entry.
func (c *checker) applied(p *process, index uint64) {
	r := c.records[p.member]
	r.applied = index
	first := index > c.model.applied
	c.model.applied = max(c.model.applied, index)
	if v := c.variant(index, c.committed[index].term); v.kind == raft.EntryNoop {
		r.noop = v.term
	}
	if index%hashEvery != 0 {
		return
	}
	state := p.locks.StateHash()
	if row := &c.results[index]; first {
		row.state = state
	} else if row.state != state {
		c.s.fail("state machine safety", "%v has another lock table after %d than the first that applied it", p, index)
	}
}

// result checks what a command did on one node.
func (c *checker) result(p *process, index uint64, cmd *lock.Command, got lock.Result) {
	row := &c.results[index]
	if index <= c.model.applied {
		if got != row.result {
			c.s.fail("state machine safety", "%v: entry %d gave %+v, elsewhere %+v", p, index, got, row.result)
		}
		return
	}
	before := c.model.token
	want := c.model.command(index, cmd)
	if got.Outcome == lock.Granted && (got.Token <= before || got.Token <= c.tokens) {
		c.s.fail("tokens grow", "%v: entry %d is granted token %d after %d (%d in the domain before)", p, index, got.Token, before, c.tokens)
	}
	if got.Outcome == lock.Granted && want.Outcome != lock.Granted {
		c.s.fail("mutual exclusion", "%v: entry %d grants %q, which is held", p, index, cmd.Key)
	}
	if got != want {
		c.s.fail("lock table", "%v: entry %d (%+v of %q) gave %+v, the model says %+v", p, index, cmd, cmd.Key, got, want)
	}
	row.result, row.granted = got, c.s.now
	if want.Outcome == lock.Granted && int(cmd.Owner) <= len(c.s.acquires) {
		c.ownerGranted(index, cmd)
	}
}

// ownerGranted checks a grant against what its client was told: T and B are definite.
func (c *checker) ownerGranted(index uint64, cmd *lock.Command) {
	a := c.s.acquires[cmd.Owner-1]
	if a.state == denied {
		c.s.fail("answers are final", "entry %d grants %q to owner %d, which was told that it never will", index, cmd.Key, cmd.Owner)
	}
	a.grantedAt, a.lease = c.s.now, time.Duration(cmd.LeaseMillis)*time.Millisecond
}

// proposes checks an Expire: the lease has passed by everybody's clock, however wrong within the bound.
func (c *checker) proposes(p *process, cmd *lock.Command) {
	if cmd.Kind != lock.KindExpire {
		return
	}
	g, ok := c.model.grants[cmd.Token]
	if !ok || g.owner > uint64(len(c.s.acquires)) {
		return
	}
	a := c.s.acquires[g.owner-1]
	fastest := time.Duration(max(c.fastest, c.s.opt.clockPPM))
	if passed := c.s.now - a.grantedAt; passed+passed/1_000_000*fastest < a.lease {
		c.s.fail("leases last", "%v proposes to expire token %d after %v of %v", p, cmd.Token, passed, a.lease)
	}
}

// control checks a Control entry as it is applied.
func (c *checker) control(p *process, e *raft.Committed) {
	row := &c.results[e.Index]
	registry := hashRegistry(p.node.Registry())
	if e.Index <= c.model.applied {
		if row.outcome != e.Outcome {
			c.s.fail("state machine safety", "%v: Control entry %d gave %+v, elsewhere %+v", p, e.Index, e.Outcome, row.outcome)
		}
		return
	}
	row.outcome, row.registry = e.Outcome, registry
	if e.Control == nil {
		c.s.fail("codec", "%v: Control entry %d does not decode", p, e.Index)
	}
	if e.Control.Kind == raft.ControlServiceOpen {
		c.openIndex = e.Index
	}
	if e.Outcome.Result == raft.ResultControlRejected {
		c.s.cover[CoverControlRejected]++
		if k := e.Control.Kind; k == raft.ControlJoint || k == raft.ControlFinal {
			c.s.fail("configurations are never rejected", "%v rejects %v at %d: %v", p, k, e.Index, e.Outcome.Reason)
		}
		return
	}
	c.model.control(e.Index, e.Control, &e.Outcome)
	c.compareMembers(p, e.Index)
	switch e.Control.Kind {
	case raft.ControlPrepare:
		c.s.triggered(whenPrepared, p)
	case raft.ControlAdmit, raft.ControlRejoin:
		c.s.triggered(whenAdmitted, p)
	}
}

// compareMembers compares the voters of the registry with the model's.
func (c *checker) compareMembers(p *process, index uint64) {
	for i := range p.node.Registry().Members {
		row := &p.node.Registry().Members[i]
		want := c.model.voters[row.Seat]
		if row.Learner {
			want = c.model.newcomer()
		}
		if row.Member != want {
			c.s.fail("registry", "%v: seat %d holds %v behind entry %d, the model says %v", p, row.Seat, row.Member, index, want)
		}
	}
}

// openIn reports whether ServiceOpen is applied at a node.
func (c *checker) openIn(r *record) bool { return c.openIndex > 0 && c.openIndex <= r.applied }

// acquireAnswered checks the answer to an acquire.
func (c *checker) acquireAnswered(p *process, a *acquire, r *reply) {
	if a.state != asked && a.state != unknown {
		c.s.fail("one answer", "%v answers owner %d again: %v", p, r.owner, r.op)
	}
	switch r.op {
	case wire.OpGranted:
		if g := c.model.grants[r.token]; g.key != a.key || g.owner != r.owner {
			c.s.fail("granted means committed", "%v tells owner %d of token %d for %q; the log says %+v", p, r.owner, r.token, a.key, g)
		}
	case wire.OpTimeout, wire.OpBusy:
		if c.model.owners[r.owner] {
			c.s.fail("answers are final", "%v tells owner %d %v, and the log has its grant", p, r.owner, r.op)
		}
	}
}

// releaseAnswered checks the answer to a release: after R, and after N, the token does not hold its key.
func (c *checker) releaseAnswered(p *process, r *reply) {
	if held, ok := c.model.holders[r.key]; ok && held == (holder{r.owner, r.token}) {
		c.s.fail("answers are final", "%v answers %v for token %d of %q, which it still holds", p, r.op, r.token, r.key)
	}
}

// hashRegistry hashes what every member's registry must agree on.
func hashRegistry(r *raft.Registry) uint64 {
	h := hashWord(fnvOffset, uint64(r.Issued))
	member := func(m raft.Member) { h = hashWord(hashBytes(h, m.Incarnation[:]), uint64(m.NodeID)) }
	for i := range r.Members {
		row := &r.Members[i]
		member(row.Member)
		h = hashWord(hashBytes(hashBytes(h, []byte(row.PeerAddr)), []byte(row.ClientAddr)), uint64(row.Seat))
	}
	for i := range r.Retired {
		member(r.Retired[i].Member)
	}
	for i := range r.Consumed {
		h = hashBytes(h, r.Consumed[i].Credential[:])
	}
	for i := range r.Paces {
		h = hashWord(h, uint64(r.Paces[i].Seat)<<56^uint64(r.Paces[i].LastMillis)^uint64(r.Paces[i].IntervalMillis)<<20)
	}
	if r.Replacement != nil {
		member(r.Replacement.Predecessor)
		member(r.Replacement.Newcomer)
		h = hashWord(h, uint64(r.Replacement.ExpiresMillis))
	}
	for _, flag := range []bool{r.Bootstrapped, r.Open, r.Burned, r.AfterLoss} {
		h = hashWord(h, map[bool]uint64{true: 1}[flag])
	}
	return hashWord(h, r.TokenBase)
}
