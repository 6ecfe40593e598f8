package rafttest

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// driver is the part of a process that drives its raft.Node and its lock.Manager, as the server does: inputs, then every
// Ready to its end. It takes no decision of the protocol.
type driver struct {
	node    *raft.Node
	locks   *lock.Manager
	start   raft.Start
	state   raft.State // of the last Ready
	leading bool       // the manager leads
	reign   uint64     // the term in which it does
	inReady bool       // between Ready and Advance, when the node takes nothing but proposals

	proposals []proposal
	waiting   []waitingControl
	sessions  []lock.Session
	replies   []reply

	openedAt     time.Duration // local time from which after-loss counts; 0: not open
	recoverUntil time.Duration // local time of the end of the after-loss pause
	dropOwnUntil time.Duration // see opDropOwnTerm
	ownGrants    uint64        // of the fault TokensFromLeader
	ticks        int
}

// startRaft makes the node. Its start has no InitialConfig in a process that joins.
func (p *process) startRaft(start raft.Start) {
	o := &p.s.opt
	p.start = start
	limits := lock.Limits{Keys: 1000, Waiters: 1000, WaitersPerKey: 100, InFlight: 500}
	p.locks = lock.NewManager(lock.Config{Limits: limits, Seed: maphash.MakeSeed(), Log: proposer{p}, Sink: sink{p}})
	p.locks.StepDown(p.clock())
	for i := range clients {
		p.sessions = append(p.sessions, p.locks.OpenSession(client(i)))
	}
	node, err := raft.New(raft.Config{
		Domain: p.domain, Self: p.member, Initial: start.Initial, TokenBase: start.TokenBase, AfterLoss: start.AfterLoss,
		Tick: o.tick, Heartbeat: o.heartbeat, ElectionTimeout: o.election,
		LogBytes: o.logBytes, RetainBytes: 8 * o.logBytes, MaxMessageBytes: o.messageBytes, WindowMessages: o.windowMessages,
		StateMachine: stateMachine{p}, Rand: stream(p.s.seed, fmt.Sprint("node ", p.id)),
		Trace: func(e *raft.Event) { p.s.check.traced(p, e) }, TraceEntries: true, Faults: &p.s.faults.Faults,
	})
	if err != nil {
		p.s.fail("start", "%v: %v", p, err)
	}
	p.node = node
	p.s.check.started(p)
	p.settle()
}

// scheduleTick lets p tick for as long as it lives, at the rate of its clock.
func (p *process) scheduleTick() {
	span := p.s.opt.tick * 1_000_000 / time.Duration(1_000_000+p.ppm)
	p.s.queue.push(event{at: p.s.now + span, tick: p})
}

// tick is one tick of node and manager.
func (p *process) tick() {
	if p.node == nil || p.paused() {
		return
	}
	p.ticks++
	p.s.check.ticks(p)
	p.node.Tick(p.wall())
	p.giveUpControls()
	p.settle()
	if !p.alive {
		return
	}
	if p.recoverUntil > 0 && p.local() >= p.recoverUntil {
		p.recoverUntil = 0
		p.refuse()
	}
	p.locks.Tick(p.clock(), 1000)
	p.settle()
	if p.ticks%16 == 0 {
		p.s.check.memory(p)
		p.s.check.checkLeader(p)
	}
}

// settle works off all that the node has to say, and ends the manager's batch.
func (p *process) settle() {
	p.retryProposals()
	for p.alive && p.node.HasReady() {
		rd := p.node.Ready()
		p.inReady = true
		p.react(rd.State)
		for i := range rd.Messages {
			p.s.check.sends(p, &rd.Messages[i])
			p.s.network.send(p, &rd.Messages[i])
		}
		if rd.Installed != nil {
			p.s.check.installed(p, rd.Installed)
			p.settleUnknown(rd.Installed.Unknown)
			p.closeRefused()
		}
		for i := 0; i < len(rd.Committed) && p.alive; i++ {
			p.apply(&rd.Committed[i])
		}
		if !p.alive {
			return
		}
		p.settleLost(rd.Lost)
		p.inReady = false
		p.node.Advance()
		p.retryProposals()
	}
	if !p.alive {
		return
	}
	p.lead()
	p.locks.EndBatch(p.clock())
	p.readReplies()
	p.s.check.settled(p)
}

// react follows the node's state: a step-down first of all.
func (p *process) react(state raft.State) {
	if p.leading && (!state.Serving || state.Term != p.reign) {
		p.stepDown()
	}
	changed := state.HoldBack != p.state.HoldBack
	p.state = state
	if changed {
		p.refuse()
	}
}

func (p *process) stepDown() {
	p.leading = false
	p.locks.StepDown(p.clock())
	p.readReplies()
}

// lead begins to serve once all that was handed out is applied.
func (p *process) lead() {
	if p.leading || !p.state.Serving {
		return
	}
	p.leading, p.reign = true, p.state.Term
	p.locks.Lead(p.clock())
	p.readReplies()
}

// apply applies one committed entry.
func (p *process) apply(c *raft.Committed) {
	p.settleLost(c.Lost)
	p.s.check.applies(p, &c.Entry)
	switch {
	case c.Kind == raft.EntryControl:
		p.applyControl(c)
	case c.Kind == raft.EntryCommand:
		p.applyCommand(c)
	}
	p.answerControls(c)
	p.readReplies()
	p.s.check.applied(p, c.Index)
}

func (p *process) applyCommand(c *raft.Committed) {
	var own proposal
	if c.Own {
		own = p.takeOwn(c.Data)
	}
	if c.Data[0] == tagFiller {
		p.dropDead()
		return
	}
	cmd := &p.s.applying
	if err := lock.DecodeCommand(commandBytes(c.Data), cmd); err != nil {
		p.s.fail("codec", "%v: entry %d does not decode: %v", p, c.Index, err)
	}
	if p.s.faults.ExpireAnyToken && cmd.Kind == lock.KindExpire {
		cmd.Token = p.s.check.model.holderBefore(c.Index, cmd.Key, cmd.Token)
	}
	before := *cmd // the manager may use the simulator's command for what it proposes next
	key := string(cmd.Key)
	result := p.locks.Apply(p.clock(), cmd, own.managed)
	if c.Data[0] == tagTokenFromLeader && result.Outcome == lock.Granted {
		result.Token = binary.BigEndian.Uint64(c.Data[1:])
	}
	before.Key = []byte(key)
	p.s.check.result(p, c.Index, &before, result)
	if mark := &p.host.marker.tokenMark; result.Token+1<<23 > *mark && result.Token > 0 {
		*mark = result.Token + 1<<24
	}
	p.dropDead()
}

func (p *process) applyControl(c *raft.Committed) {
	p.s.check.control(p, c)
	if p.s.log != nil && c.Control != nil {
		p.s.logf("%v applies %d: %v %v %v", p, c.Index, c.Control.Kind, c.Outcome.Result, c.Outcome.Member)
	}
	if c.Control == nil || c.Outcome.Result == raft.ResultControlRejected {
		return
	}
	switch c.Control.Kind {
	case raft.ControlBootstrap:
		p.locks.RaiseToken(c.Control.TokenBase)
	case raft.ControlServiceOpen:
		p.host.marker.seenOpen = true
		p.openedAt = p.local()
		p.pauseAfterLoss(afterLossPause)
	case raft.ControlBurn:
		defer p.exit78("the domain is burned")
	}
	if retired := p.s.byIncarnation[c.Outcome.Retired.Incarnation]; retired != nil && retired != p {
		p.conn(retired).open = false
	}
	if p.member == c.Outcome.Retired {
		defer p.exit78("retired by what it applied itself")
	}
}

// afterLossPause is how long acquires wait in a domain that follows a lost one: the longest lease.
const afterLossPause = 250 * time.Second

// pauseAfterLoss refuses acquires for span, if the domain follows a lost one.
func (p *process) pauseAfterLoss(span time.Duration) {
	if p.node.Registry().AfterLoss && span > 0 {
		p.recoverUntil = p.local() + span
		p.refuse()
	}
}

// refuse tells the manager why it may not take acquires now, if there is a reason.
func (p *process) refuse() {
	switch {
	case p.recoverUntil > 0:
		p.locks.Refuse(wire.BusyRecovering)
	case p.state.HoldBack:
		p.locks.Refuse(wire.BusyOverloaded)
	default:
		p.locks.Refuse(0)
	}
}

// dropsOwnTerm is the fault of opDropOwnTerm: appends that carry an entry of the leader's own term are lost.
func (p *process) dropsOwnTerm(m *raft.Message) bool {
	if p.s.now >= p.dropOwnUntil || m.Kind != raft.MsgAppendEntries || len(m.Entries) == 0 {
		return false
	}
	return m.Entries[len(m.Entries)-1].Term == m.Term
}
