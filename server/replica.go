package server

import (
	"errors"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// replica is the authority of a node of a cluster: a command takes effect once a majority of the members has recorded it. It
// drives one raft.Node inside the engine's batches. Everything here is called under the engine's lock unless it says otherwise.
type replica struct {
	engine *engine
	peers  peerSender
	node   *raft.Node // nil until this process takes part in Raft

	state    raft.State // as of the last drain
	tickAt   int64      // mono ns of the node's next tick
	pauseEnd int64      // mono ns until which leases of a lost domain may run; 0: no pause
	// leaderlessAt is since when no leader is known, in mono ns; 0: one is. After electionPatience (ns) that is more than an election.
	leaderlessAt, electionPatience int64
	undecided                      undecided
	controls                       []awaitedControl // requests whose entries are not applied yet
	scratch                        []byte           // an encoded command
	message                        raft.Message     // a decoded one

	waiting   string                                 // what a node that does not take part in Raft yet waits for
	follow    func(now lock.Time, c *raft.Committed) // called for each Control entry that took effect
	changed   func()                                 // called after each change of state
	installed func()                                 // called after each snapshot that took effect
}

// undecided keeps track of this node's proposals whose fate is not known from the log yet, after a step-down that has left some.
type undecided struct {
	// written is how many of the oldest of them have been answered already, because the log took too long.
	written int
	// giveUp is when those of an ended reign are answered E indeterminate, in mono ns; never without one.
	giveUp int64
}

// peerSender is what the replica needs of the transport between nodes.
type peerSender interface {
	// send queues m for m.To. It never blocks: without a connection, or room, m is dropped, which Raft repairs.
	send(m *raft.Message)
	// flush starts to write what was queued. It is called without the engine's lock.
	flush()
}

const (
	// raftTick is what one tick of the node stands for.
	raftTick = 10 * time.Millisecond
	// indeterminateAfter is how long after a step-down proposals may stay undecided until their clients are told so.
	indeterminateAfter = int64(10 * time.Second)
	// afterLossPause is how long leases of a lost domain may run, in ns.
	afterLossPause = int64(wire.MaxLeaseMillis) * int64(time.Millisecond)
)

// Propose implements lock.Log.
func (r *replica) Propose(_ lock.Time, c *lock.Command) (lock.Verdict, wire.Busy) {
	if r.node == nil {
		return lock.Refused, wire.BusyNoLeader
	}
	r.scratch = lock.AppendCommand(r.scratch[:0], c)
	switch err := r.node.Propose(r.scratch); {
	case err == nil:
		return lock.Pending, 0
	case errors.Is(err, raft.ErrOverloaded):
		return lock.Refused, wire.BusyOverloaded
	}
	return lock.Refused, r.whereElse()
}

// whereElse is what a client is told that asks a node that does not serve.
func (r *replica) whereElse() wire.Busy {
	if r.engine.leadership.leader != "" {
		return wire.BusyNotLeader
	}
	return wire.BusyNoLeader
}

// step takes a message from another member. Called inside a batch.
func (r *replica) step(now lock.Time, m *raft.Message) {
	if r.node == nil {
		return
	}
	if m.Kind == raft.MsgInstallSnapshot {
		// It can replace the state at once, which is for a node that has drained and does not lead.
		r.drain(now)
	}
	r.node.Step(m)
}

// decide implements authority: time passes for the node, and what it has to say is worked off.
func (r *replica) decide(now lock.Time) {
	if r.node == nil {
		return
	}
	if now.Mono >= r.tickAt && now.Mono >= r.engine.holdTick {
		r.tick(now)
	}
	r.drain(now)
	if now.Mono >= r.undecided.giveUp {
		r.giveUp(now)
	}
}

// tick makes the node catch up with the time. After a stall it does not: what had arrived has been stepped, and time starts anew.
func (r *replica) tick(now lock.Time) {
	if r.tickAt == 0 || now.Mono-r.tickAt > stallGap {
		r.tickAt = now.Mono
	}
	for ; r.tickAt <= now.Mono; r.tickAt += int64(raftTick) {
		r.node.Tick(now.Wall)
	}
	r.refuse(now)
}

// drain works off the node's output until there is none.
func (r *replica) drain(now lock.Time) {
	for r.node.HasReady() {
		rd := r.node.Ready()
		r.depose(now, &rd.State)
		for i := range rd.Messages {
			r.peers.send(&rd.Messages[i])
		}
		if rd.Installed != nil {
			r.installed()
			r.settle(rd.Installed.Unknown, func() { r.engine.manager.Unknown(now) })
		}
		for i := range rd.Committed {
			r.apply(now, &rd.Committed[i])
		}
		r.settle(rd.Lost, func() { r.engine.manager.Lost(now, wire.BusyNotLeader) })
		if rd.Changed {
			r.assume(now, &rd.State)
		}
		r.node.Advance()
	}
}

// settle tells the manager about the n oldest undecided proposals, but for those that were answered before.
func (r *replica) settle(n int, tell func()) {
	early := min(n, r.undecided.written)
	r.undecided.written -= early
	for range n - early {
		tell()
	}
}

// apply applies one committed entry.
func (r *replica) apply(now lock.Time, c *raft.Committed) {
	r.settle(c.Lost, func() { r.engine.manager.Lost(now, wire.BusyNotLeader) })
	switch c.Kind {
	case raft.EntryCommand:
		r.applyCommand(now, c)
	case raft.EntryControl:
		r.applyControl(now, c)
	}
	if len(r.controls) > 0 {
		r.answerControls(c)
	}
}

func (r *replica) applyCommand(now lock.Time, c *raft.Committed) {
	own := c.Own
	if own && r.undecided.written > 0 {
		r.undecided.written--
		own = false
	}
	if own {
		r.engine.manager.ApplyOldest(now)
		return
	}
	var cmd lock.Command
	if lock.DecodeCommand(c.Data, &cmd) != nil {
		return // apply is total: what does not fit does nothing, on every member alike
	}
	r.engine.manager.Apply(now, &cmd, false)
}

// giveUp answers what the log has not decided in time after a step-down.
func (r *replica) giveUp(now lock.Time) {
	r.undecided.giveUp = never
	r.giveUpControls()
	for {
		if _, ok := r.engine.manager.Oldest(); !ok {
			return
		}
		r.undecided.written++
		r.engine.manager.Unknown(now)
	}
}

// giveUpControls answers the requests whose entries are not decided: whether they take effect cannot be known here.
func (r *replica) giveUpControls() {
	for _, a := range r.controls {
		a.answer(raft.Outcome{}, errFateUnknown)
	}
	clear(r.controls)
	r.controls = r.controls[:0]
}

// vouch implements authority. A grant that the log holds may be sent.
func (r *replica) vouch(first, now int64) error { return nil }

// deadline implements authority.
func (r *replica) deadline() int64 {
	if r.node == nil {
		return never
	}
	return min(r.tickAt, r.undecided.giveUp)
}

// afterBatch implements authority.
func (r *replica) afterBatch() { r.peers.flush() }
