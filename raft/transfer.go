package raft

import "slices"

// transfer is a hand-over of leadership. It is part of the reign, dies with it, and ends after one election timeout at
// the latest.
type transfer struct {
	active    bool
	target    Member
	sent      bool   // TimeoutNow is on its way
	endsAt    uint64 // tick
	notBefore uint64 // tick before which no other may begin
}

// TransferLeadership hands over to a voter, or to the most up-to-date one when to is zero. Proposals wait until it has
// ended. Errors: ErrNotLeader, ErrTransferBusy, ErrNotEligible.
func (n *Node) TransferLeadership(to Member) error {
	n.mustBeOpen()
	t := &n.reign.transfer
	switch {
	case n.role != RoleLeader:
		return ErrNotLeader
	case t.active || n.now < t.notBefore:
		return ErrTransferBusy
	}
	if to.IsZero() {
		to = n.mostUpToDate()
	}
	p := n.peer(to)
	if p == nil || !n.eligible(p) {
		return ErrNotEligible
	}
	*t = transfer{active: true, target: to, endsAt: n.now + n.electionTicks}
	n.trace(Event{Kind: EventTransferStarted, Peer: to})
	n.maybeTimeoutNow(p)
	return nil
}

// eligible reports whether p may be handed leadership: it votes in the half that stays, and is alive.
func (n *Node) eligible(p *progress) bool {
	return slices.Contains(n.confs.current().conf.Target(), p.member) && n.fresh(p)
}

// fresh reports whether p has answered within the last heartbeats.
func (n *Node) fresh(p *progress) bool { return p.heard && n.now-p.ackedAt <= 3*n.heartbeatTicks }

// mostUpToDate returns the eligible member with the longest log known, or nobody.
func (n *Node) mostUpToDate() Member {
	var best *progress
	for i := range n.reign.peers {
		if p := &n.reign.peers[i]; n.eligible(p) && (best == nil || p.match > best.match) {
			best = p
		}
	}
	if best == nil {
		return Member{}
	}
	return best.member
}

// maybeTimeoutNow asks the target to stand once it holds the whole log.
func (n *Node) maybeTimeoutNow(p *progress) {
	t := &n.reign.transfer
	if !t.active || t.sent || t.target != p.member || p.match < n.log.last && !n.faults.TransferToLaggard {
		return
	}
	t.sent = true
	n.send(Message{Kind: MsgTimeoutNow, To: p.member, Term: n.term, Target: p.member})
}

// tickTransfer takes up the work again when the target did not take over in time.
func (n *Node) tickTransfer() {
	if t := &n.reign.transfer; !t.active || n.now < t.endsAt || n.faults.TransferNeverEnds {
		return
	}
	n.endTransfer("not taken over in time")
	n.releaseHeld()
}

// releaseHeld appends the proposals that had to wait, unless a transfer still keeps them.
func (n *Node) releaseHeld() {
	if !n.reign.transfer.active {
		n.proposals.release(n.propose)
	}
}

func (n *Node) endTransfer(why string) {
	if t := &n.reign.transfer; t.active {
		n.trace(Event{Kind: EventTransferEnded, Peer: t.target, Detail: why})
		*t = transfer{notBefore: n.now + n.electionTicks}
	}
}
