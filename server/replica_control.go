package server

import (
	"errors"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
)

// awaitedControl is a request whose entry is in the log and not decided yet.
type awaitedControl struct {
	index, term uint64
	answer      func(raft.Outcome, error) // called once, under the engine's lock; must not block
}

// errFateUnknown says that a request may or may not take effect.
var errFateUnknown = errors.New("whether the request takes effect cannot be known here: look at `ticketing cluster status`")

// propose puts a Control request of an operator or a joiner into the log; answer gets what became of it.
func (r *replica) propose(now lock.Time, c *raft.Control, answer func(raft.Outcome, error)) {
	if r.node == nil {
		answer(raft.Outcome{}, raft.ErrNotLeader)
		return
	}
	p, err := r.node.ProposeControl(c, now.Wall)
	if err != nil || p.Index == 0 {
		answer(p.Outcome, err)
		return
	}
	r.controls = append(r.controls, awaitedControl{index: p.Index, term: p.Term, answer: answer})
}

// applyControl follows a Control entry, which the node has applied to its registry.
func (r *replica) applyControl(now lock.Time, c *raft.Committed) {
	if c.Control == nil || c.Outcome.Result == raft.ResultControlRejected {
		return
	}
	switch c.Control.Kind {
	case raft.ControlBootstrap:
		r.engine.manager.RaiseToken(c.Control.TokenBase)
	case raft.ControlServiceOpen:
		if r.node.Registry().AfterLoss {
			r.pauseEnd = now.Mono + afterLossPause
		}
	}
	r.follow(now, c)
}

// answerControls tells the outcome to whoever waits for this entry, or for another in its place: that one had no effect.
func (r *replica) answerControls(c *raft.Committed) {
	kept := r.controls[:0]
	for _, a := range r.controls {
		switch {
		case a.index > c.Index:
			kept = append(kept, a)
		case a.index == c.Index && a.term == c.Term:
			a.answer(c.Outcome, nil)
		default:
			a.answer(raft.Outcome{}, raft.ErrNotLeader)
		}
	}
	clear(r.controls[len(kept):])
	r.controls = kept
}
