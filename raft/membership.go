package raft

import (
	"slices"
	"time"
)

// Limits of a replacement.
const (
	learnerSilence  = 60 * time.Second
	catchUpMillis   = 10 * 60 * 1000
	tokenEpoch      = 1767225600000 // 2026-01-01 UTC, Unix milliseconds
	tokensPerMilli  = 14            // as a shift: 16,384
	maxWallForToken = 1 << 48       // no overflow of the shift
	maxJointBytes   = 512           // what a joint entry is charged, rounded up
)

// ProposeControl validates c against the applied registry and appends it with wallMillis as its wall time. From outside
// come ControlPrepare, ControlAdmit, ControlRejoin (with Marker; Replaces is filled in) and ControlAbort. Errors:
// ErrNotLeader, ErrNotServing, ErrControlBusy, ErrTransferBusy, or a Reason; nothing is appended then.
func (n *Node) ProposeControl(c *Control, wallMillis int64) (ControlProposal, error) {
	n.mustBeOpen()
	switch {
	case n.role != RoleLeader:
		return ControlProposal{}, ErrNotLeader
	case n.applied < n.reign.noop:
		return ControlProposal{}, ErrNotServing
	case n.reign.transfer.active:
		return ControlProposal{}, ErrTransferBusy
	case !n.controlIdle():
		return ControlProposal{}, ErrControlBusy
	}
	request := *c
	request.WallMillis = wallMillis
	switch request.Kind {
	case ControlPrepare, ControlAdmit:
	case ControlAbort:
		request.Cause = AbortOperator
		if conf := n.confs.current().conf; n.faults.AbortAfterJoint && conf.Joint() {
			return n.appendControl(Control{Kind: ControlFinal, Configuration: Configuration{Voters: conf.Voters}}), nil
		}
	case ControlRejoin:
		request.Replaces = n.replacedBy(&request)
	default:
		return ControlProposal{}, ReasonMalformed
	}
	if answer, ok := n.registry.answered(&request); ok {
		return ControlProposal{Outcome: answer}, nil
	}
	if reason := n.checkRejoining(&request); reason != 0 {
		return ControlProposal{}, reason
	}
	if reason := n.registry.check(&request, &n.faults); reason != 0 {
		return ControlProposal{}, reason
	}
	return n.appendControl(request), nil
}

// replacedBy finds the pair that a rejoining process replaces: the seat's voter if that is one of the incarnations in
// its marker, or its own learner that was never promoted.
func (n *Node) replacedBy(c *Control) Member {
	marked := func(m Member) bool {
		for _, own := range c.Marker {
			if own.Incarnation == m.Incarnation && own.Incarnation != (Incarnation{}) {
				return true
			}
		}
		return false
	}
	if rep := n.registry.Replacement; rep != nil && rep.Seat == c.Seat && marked(rep.Newcomer) {
		return rep.Newcomer
	}
	if voter := n.registry.Voter(c.Seat); voter != nil && (marked(voter.Member) || n.faults.RejoinOverLiving) {
		return voter.Member
	}
	return Member{}
}

// checkRejoining checks what only the leader can know about a rejoin.
func (n *Node) checkRejoining(c *Control) Reason {
	if c.Kind != ControlRejoin {
		return 0
	}
	voter := n.registry.Voter(c.Seat)
	switch {
	case voter == nil:
		return ReasonUnknownSeat
	case c.Replaces.IsZero() && n.registry.Replacement != nil:
		return ReasonUnderWay // wait: the seat may be its own again afterwards
	case c.Replaces.IsZero():
		return ReasonSeatTaken
	case c.Replaces != voter.Member || n.faults.RejoinOverLiving:
		return 0
	case voter.Member == n.self:
		return ReasonStillHeard
	}
	if p := n.peer(voter.Member); p != nil && n.now-p.ackedAt < n.electionTicks {
		return ReasonStillHeard
	}
	return 0
}

// controlIdle reports whether no Control entry in the log is unapplied: the condition for appending one.
func (n *Node) controlIdle() bool {
	return n.reign.control <= n.applied || n.faults.ControlConcurrently
}

// appendControl appends a Control that fits.
func (n *Node) appendControl(c Control) ControlProposal {
	if c.WallMillis == 0 {
		c.WallMillis = n.wallMillis
	}
	index := n.appendEntry(n.term, EntryControl, AppendControl(nil, &c))
	n.reign.control = index
	n.trace(Event{Kind: EventControlProposed, Index: index, Control: &c})
	return ControlProposal{Index: index, Term: n.term}
}

// duties does what a leader does of its own accord: it opens a new domain, and takes a replacement through its steps. All of it
// follows from the registry and the log, so the next leader carries on.
func (n *Node) duties() {
	conf := n.confs.current()
	if n.faults.FinalEarly && conf.conf.Joint() && n.reign.control == conf.index {
		n.appendControl(Control{Kind: ControlFinal, Configuration: Configuration{Voters: conf.conf.Next}})
	}
	if n.role != RoleLeader || n.applied < n.reign.noop || n.reign.transfer.active || !n.controlIdle() {
		return
	}
	switch rep := n.registry.Replacement; {
	case !n.registry.Open:
		n.openDomain()
	case rep == nil:
	case conf.conf.Joint():
		n.completeReplacement(conf.conf)
	case !rep.Admitted():
		if n.wallMillis > rep.ExpiresMillis {
			n.abortReplacement(AbortExpired)
		}
	default:
		n.promoteLearner(rep, conf.conf)
	}
}

// openDomain takes a new domain to service, or declares it burned.
func (n *Node) openDomain() {
	r := &n.registry
	switch {
	case r.Burned:
	case n.wallMillis > r.NotAfterMillis:
		n.appendControl(Control{Kind: ControlBurn})
	case !r.Bootstrapped && n.cfg.Initial != nil:
		n.appendControl(Control{
			Kind: ControlBootstrap, Initial: n.cfg.Initial, AfterLoss: n.cfg.AfterLoss,
			TokenBase: max(n.cfg.TokenBase, n.cfg.Initial.TokenBase, clockTokenBase(n.wallMillis)),
		})
	case r.Bootstrapped && n.allAcknowledged():
		n.appendControl(Control{Kind: ControlServiceOpen})
	}
}

// allAcknowledged reports whether every initial voter, not a majority, has acknowledged the Bootstrap entry: so either
// all took part in the domain, or it has never promised anything.
func (n *Node) allAcknowledged() bool {
	have := 0
	for _, m := range n.registry.Initial {
		if n.matchOf(m) >= n.registry.BootstrapIndex {
			have++
		}
	}
	return have == len(n.registry.Initial) || n.faults.OpenByMajority && have > len(n.registry.Initial)/2
}

// clockTokenBase is the token base by the clock (docs/semantics.md, Tokens over restarts).
func clockTokenBase(wallMillis int64) uint64 {
	if wallMillis <= tokenEpoch || wallMillis >= maxWallForToken {
		return 0
	}
	return uint64(wallMillis-tokenEpoch) << tokensPerMilli
}

// promoteLearner appends the joint configuration when the newcomer and everybody else are ready, or gives up.
func (n *Node) promoteLearner(rep *Replacement, conf Configuration) {
	p := n.peer(rep.Newcomer)
	switch {
	case p == nil:
		return
	case n.now-p.ackedAt >= uint64(learnerSilence/n.cfg.Tick):
		n.abortReplacement(AbortSilent)
		return
	case n.wallMillis-rep.AdmittedMillis > catchUpMillis:
		n.abortReplacement(AbortSlow)
		return
	}
	joint := Configuration{Voters: conf.Voters, Next: replaced(conf.Voters, rep.Predecessor, rep.Newcomer)}
	if !joint.valid() || !n.faults.PromoteWithoutCatchUp && !n.readyForJoint(p, joint) {
		return
	}
	if rep.Predecessor == n.self {
		_ = n.TransferLeadership(Member{}) // refused or not, it is tried again after an election timeout
		return
	}
	n.appendControl(Control{Kind: ControlJoint, Configuration: joint})
}

// readyForJoint reports whether the joint configuration may be entered. It cannot be left without both majorities, so it is not
// entered while a living member is behind. What the newcomer lacks must fit into one message together with the joint entry,
// even if the next leader sends it (sendLimit).
func (n *Node) readyForJoint(newcomer *progress, joint Configuration) bool {
	caughtUp := newcomer.caughtUpAt != 0 && n.now-newcomer.caughtUpAt <= 3*n.heartbeatTicks &&
		newcomer.state == stateReplicate && n.fresh(newcomer) &&
		n.log.bytesAfter(newcomer.match) <= maxMessageBytes-maxJointBytes
	if !caughtUp {
		return false
	}
	for i := range n.reign.peers {
		p := &n.reign.peers[i]
		if joint.IsVoter(p.member) && n.now-p.ackedAt < n.electionTicks && !n.fresh(p) {
			return false
		}
	}
	return n.quorum(joint, func(m Member) uint64 {
		if p := n.peer(m); m == n.self || p != nil && n.fresh(p) {
			return 1
		}
		return 0
	}) == 1
}

// completeReplacement appends the final configuration. The joint entry and the Noop of this reign are applied, and both
// were committed under both majorities: an entry of this term, at or after the joint entry, is among them. Without that
// two leaders in one term are possible when the predecessor was only believed dead.
func (n *Node) completeReplacement(conf Configuration) {
	if !slices.Contains(conf.Next, n.self) {
		_ = n.TransferLeadership(Member{}) // the predecessor leads: again each election timeout
		return
	}
	n.appendControl(Control{Kind: ControlFinal, Configuration: Configuration{Voters: conf.Next}})
}

func (n *Node) abortReplacement(cause AbortCause) {
	n.appendControl(Control{Kind: ControlAbort, Newcomer: n.registry.Replacement.Newcomer, Cause: cause})
}

// MayStop reports whether m may stop now without taking the majority along: no replacement is under way, and without m
// a majority of the voters is alive and current. It is asked of a leader. Errors: ErrNotLeader, a StopRefusal.
func (n *Node) MayStop(m Member) error {
	conf := n.confs.current().conf
	switch {
	case n.role != RoleLeader:
		return ErrNotLeader
	case !conf.IsVoter(m):
		return nil
	case conf.Joint() || n.registry.Replacement != nil || !n.controlIdle():
		return StopRefusal{Reason: ReasonUnderWay}
	}
	var absent Member
	stays := func(o Member) uint64 {
		if o == m {
			return 0
		}
		if p := n.peer(o); p != nil && (!n.fresh(p) || p.state != stateReplicate || p.snapshots.retain) {
			absent = o
			return 0
		}
		return 1
	}
	if n.quorum(conf, stays) == 0 {
		return StopRefusal{Member: absent}
	}
	return nil
}

// StopRefusal says why a member may not stop.
type StopRefusal struct {
	Reason Reason // ReasonUnderWay, or 0
	Member Member // the voter that is silent or behind
}

// Error returns the refusal in words.
func (r StopRefusal) Error() string {
	if r.Reason != 0 {
		return "raft: may not stop: " + r.Reason.Error()
	}
	return "raft: may not stop: voter " + r.Member.String() + " is silent or behind"
}
