package rafttest

import (
	"encoding/binary"
	"errors"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// The first byte of an EntryCommand tells what the rest is.
const (
	tagCommand         = 1 // a lock.Command
	tagFiller          = 2 // nothing: to fill the log
	tagTokenFromLeader = 3 // the token (8 bytes), a lock.Command; see the fault TokensFromLeader
)

func commandBytes(data []byte) []byte {
	if data[0] == tagTokenFromLeader {
		return data[9:]
	}
	return data[1:]
}

// proposal is something proposed at this process and not decided yet. They are decided in the order of proposing.
type proposal struct {
	fate    fate
	managed bool   // the lock manager's: it is told
	paced   bool   // it must not be refused for a quota
	data    []byte // while deferred
	hash    uint64
}

type fate uint8

const (
	deferred fate = iota // not given to the node yet: the driver is applying, or the node is full
	inNode
	dead // refused by the node after it had been accepted here
)

// proposer is the manager's Log.
type proposer struct{ p *process }

// Propose implements lock.Log.
func (l proposer) Propose(_ lock.Time, c *lock.Command) (lock.Verdict, wire.Busy) {
	p := l.p
	p.s.check.proposes(p, c)
	data := append(p.s.buffer[:0], tagCommand)
	if p.s.faults.TokensFromLeader && c.Kind == lock.KindGrant {
		p.ownGrants++
		data = binary.BigEndian.AppendUint64(append(data[:0], tagTokenFromLeader), p.node.Registry().TokenBase+p.ownGrants)
	}
	data = lock.AppendCommand(data, c)
	p.s.buffer = data
	if err := p.propose(data, true, c.Paced); errors.Is(err, raft.ErrOverloaded) {
		return lock.Refused, wire.BusyOverloaded
	} else if err != nil {
		return lock.Refused, wire.BusyNotLeader
	}
	return lock.Pending, 0
}

// propose gives data to the node, now or, while that takes no input, later.
func (p *process) propose(data []byte, managed, paced bool) error {
	item := proposal{managed: managed, paced: paced, hash: hashBytes(fnvOffset, data)}
	if p.inReady && !p.s.opt.proposeInReady || p.hasDeferred() {
		item.data = append([]byte(nil), data...)
		p.proposals = append(p.proposals, item)
		return nil
	}
	err := p.node.Propose(data)
	if err != nil && !(paced && errors.Is(err, raft.ErrOverloaded)) {
		return err
	}
	if item.fate = inNode; err != nil {
		item.fate, item.data = deferred, append([]byte(nil), data...)
	}
	p.proposals = append(p.proposals, item)
	return nil
}

func (p *process) hasDeferred() bool {
	return len(p.proposals) > 0 && p.proposals[len(p.proposals)-1].fate == deferred
}

// retryProposals gives the node what could not be given before, in order.
func (p *process) retryProposals() {
	if !p.hasDeferred() {
		return
	}
	for i := range p.proposals {
		item := &p.proposals[i]
		if item.fate != deferred {
			continue
		}
		err := p.node.Propose(item.data)
		if item.paced && errors.Is(err, raft.ErrOverloaded) {
			break
		}
		if item.fate = inNode; err != nil {
			item.fate = dead
		}
		item.data = nil
	}
	p.dropDead()
}

// dropDead tells the manager of what is dead and has nothing undecided before it.
func (p *process) dropDead() {
	for len(p.proposals) > 0 && p.proposals[0].fate == dead {
		item := p.proposals[0]
		p.proposals = p.proposals[1:]
		if item.managed {
			p.locks.Lost(p.clock(), wire.BusyNotLeader)
		}
	}
}

// take removes the oldest proposal, which must be the node's.
func (p *process) take(why string) proposal {
	if len(p.proposals) == 0 || p.proposals[0].fate != inNode {
		p.s.fail("proposals", "%v: the node settles a proposal (%s) that nobody made", p, why)
	}
	item := p.proposals[0]
	p.proposals = p.proposals[1:]
	return item
}

// takeOwn removes the oldest proposal, whose data this must be.
func (p *process) takeOwn(data []byte) proposal {
	item := p.take("own")
	if item.hash != hashBytes(fnvOffset, data) {
		p.s.fail("proposals", "%v: an entry is called its own oldest proposal, but holds other data", p)
	}
	return item
}

func (p *process) settleLost(count int) {
	for range count {
		p.s.cover[CoverProposalLost]++
		if p.take("lost").managed {
			p.locks.Lost(p.clock(), wire.BusyNotLeader)
		}
		p.dropDead()
	}
}

func (p *process) settleUnknown(count int) {
	for range count {
		p.s.cover[CoverProposalUnknown]++
		if p.take("unknown").managed {
			p.locks.Unknown(p.clock())
		}
		p.dropDead()
	}
}
