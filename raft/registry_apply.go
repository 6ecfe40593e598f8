package raft

import "slices"

// apply applies a Control entry. It is total and deterministic: it reads the registry and the entry and nothing else,
// and what does not fit is rejected without effect.
func (r *Registry) apply(index uint64, c *Control, faults *Faults) Outcome {
	r.prune(c.WallMillis)
	if answer, ok := r.answered(c); ok {
		return answer
	}
	if reason := r.check(c, faults); reason != 0 {
		return Outcome{Result: ResultControlRejected, Reason: reason, Seat: c.Seat}
	}
	switch c.Kind {
	case ControlBootstrap:
		r.Bootstrapped, r.BootstrapIndex = true, index
		r.TokenBase, r.AfterLoss = c.TokenBase, c.AfterLoss
		r.consume(c.Initial.Credential, c.Initial.NotAfterMillis)
		return Outcome{Result: ResultBootstrapRecorded}
	case ControlServiceOpen:
		r.Open = true
	case ControlBurn:
		r.Burned = true
	case ControlPrepare:
		return r.applyPrepare(c, faults)
	case ControlAdmit:
		r.consume(c.Credential, r.Replacement.ExpiresMillis)
		r.Replacement.Newcomer.Incarnation = c.Newcomer.Incarnation
		return r.admit(c)
	case ControlRejoin:
		return r.applyRejoin(c)
	case ControlJoint:
		r.Replacement.Joint = true
		return Outcome{Result: ResultControlApplied, Seat: r.Replacement.Seat, Member: r.Replacement.Newcomer}
	case ControlFinal:
		return r.applyFinal(c)
	case ControlAbort:
		return r.abort()
	}
	return Outcome{Result: ResultControlApplied}
}

// answered returns the answer that the same newcomer was given before: a request that is repeated after a lost reply
// changes nothing.
func (r *Registry) answered(c *Control) (Outcome, bool) {
	if c.Kind != ControlAdmit && c.Kind != ControlRejoin {
		return Outcome{}, false
	}
	for i := range r.Members {
		m := &r.Members[i]
		if m.Member.Incarnation == c.Newcomer.Incarnation && m.Seat == c.Seat &&
			(c.Kind == ControlRejoin || m.Member == c.Newcomer) {
			return Outcome{Result: ResultAdmissionAccepted, Seat: m.Seat, Member: m.Member, PeerAddr: m.PeerAddr}, true
		}
	}
	return Outcome{}, false
}

// check says why c does not fit, or 0. The leader asks it before it proposes, and apply asks it again.
func (r *Registry) check(c *Control, faults *Faults) Reason {
	switch c.Kind {
	case ControlBootstrap:
		return r.checkBootstrap(c)
	case ControlServiceOpen, ControlBurn:
		return r.checkOpening(c)
	}
	if !r.Open {
		if r.Burned {
			return ReasonBurned
		}
		return ReasonNotOpen
	}
	switch c.Kind {
	case ControlPrepare:
		return r.checkPrepare(c)
	case ControlAdmit:
		return r.checkAdmit(c, faults)
	case ControlRejoin:
		return r.checkRejoin(c, faults)
	case ControlJoint, ControlFinal:
		return r.checkConfiguration(c, faults)
	case ControlAbort:
		switch {
		case r.Replacement == nil || c.Newcomer.NodeID != 0 && c.Newcomer.NodeID != r.Replacement.Newcomer.NodeID:
			return ReasonNoReplacement
		case r.Replacement.Joint && !faults.AbortAfterJoint:
			return ReasonJointAppended
		}
		return 0
	}
	return ReasonMalformed
}

func (r *Registry) checkBootstrap(c *Control) Reason {
	switch {
	case r.Bootstrapped:
		return ReasonBootstrapTwice
	case r.Burned:
		return ReasonBurned
	case c.Initial == nil || c.Initial.Validate() != nil || c.Initial.Domain != r.Domain || !slices.Equal(c.Initial.Members, r.Members):
		return ReasonMalformed
	}
	return 0
}

func (r *Registry) checkOpening(c *Control) Reason {
	ended := c.WallMillis > r.NotAfterMillis
	switch {
	case r.Open:
		return ReasonAlreadyOpen
	case r.Burned:
		return ReasonBurned
	case c.Kind == ControlBurn && !ended:
		return ReasonNotLate
	case c.Kind == ControlServiceOpen && !r.Bootstrapped:
		return ReasonNotBootstrapped
	case c.Kind == ControlServiceOpen && ended:
		return ReasonCredentialExpired
	}
	return 0
}

func (r *Registry) checkPrepare(c *Control) Reason {
	switch {
	case r.Replacement != nil:
		return ReasonUnderWay
	case r.Voter(c.Seat) == nil:
		return ReasonUnknownSeat
	case c.PeerAddr == "" || len(c.PeerAddr) > MaxAddr:
		return ReasonMalformed
	case r.addressTaken(c.PeerAddr, c.Seat):
		return ReasonAddressInUse
	case c.ExpiresMillis <= c.WallMillis:
		return ReasonCredentialExpired
	}
	return 0
}

// addressTaken reports whether a member of another seat has the address.
func (r *Registry) addressTaken(addr string, s Seat) bool {
	return slices.ContainsFunc(r.Members, func(m MemberInfo) bool { return m.PeerAddr == addr && m.Seat != s })
}

func (r *Registry) checkAdmit(c *Control, faults *Faults) Reason {
	rep := r.Replacement
	switch {
	case rep == nil || rep.Newcomer.NodeID != c.Newcomer.NodeID || rep.Seat != c.Seat:
		return ReasonNoReplacement
	case c.Newcomer.Incarnation == Incarnation{} || len(c.ClientAddr) > MaxAddr:
		return ReasonMalformed
	case r.knows(c.Newcomer.Incarnation):
		return ReasonIncarnationKnown
	case (rep.Admitted() || r.IsConsumed(c.Credential)) && !faults.ReadmitOtherIncarnation:
		return ReasonCredentialConsumed
	case c.PeerAddr != rep.PeerAddr:
		return ReasonAddressMismatch
	case c.WallMillis > rep.ExpiresMillis:
		return ReasonCredentialExpired
	}
	return 0
}

// knows reports whether a member, present or retired, has that incarnation.
func (r *Registry) knows(i Incarnation) bool {
	return slices.ContainsFunc(r.Members, func(m MemberInfo) bool { return m.Member.Incarnation == i }) ||
		slices.ContainsFunc(r.Retired, func(m RetiredMember) bool { return m.Member.Incarnation == i })
}

func (r *Registry) checkRejoin(c *Control, faults *Faults) Reason {
	voter := r.Voter(c.Seat)
	if voter == nil {
		return ReasonUnknownSeat
	}
	switch {
	case c.Newcomer.Incarnation == Incarnation{} || len(c.ClientAddr) > MaxAddr:
		return ReasonMalformed
	case r.knows(c.Newcomer.Incarnation):
		return ReasonIncarnationKnown
	}
	replaced := r.Member(c.Replaces)
	overLearner := r.Replacement != nil && r.Replacement.Seat == c.Seat && r.Replacement.Newcomer == c.Replaces
	switch {
	case replaced == nil || replaced.Seat != c.Seat || replaced != voter && !overLearner:
		if !faults.RejoinOverLiving {
			return ReasonReplacedMeanwhile
		}
	case replaced.PeerAddr != c.PeerAddr:
		return ReasonAddressMismatch
	}
	switch {
	case r.Replacement != nil && (!overLearner || r.Replacement.Joint):
		return ReasonUnderWay
	case r.tooSoon(c.Seat, c.WallMillis):
		return ReasonTooSoon
	}
	return 0
}

// checkConfiguration checks the entries that a leader makes of its own accord. A leader appends them when no Control entry is
// unapplied, so the registry it judged by is the one at apply, and none of them is ever rejected.
func (r *Registry) checkConfiguration(c *Control, faults *Faults) Reason {
	rep := r.Replacement
	if rep == nil {
		return ReasonNoReplacement
	}
	if !rep.Admitted() {
		return ReasonNotLearner
	}
	old := r.voters()
	next := replaced(old, rep.Predecessor, rep.Newcomer)
	want := Configuration{Voters: old, Next: next}
	if c.Kind == ControlFinal {
		want = Configuration{Voters: next}
	}
	backOut := faults.AbortAfterJoint && c.Kind == ControlFinal && slices.Equal(c.Configuration.Voters, old)
	if rep.Joint != (c.Kind == ControlFinal) || !c.Configuration.Equal(want) && !backOut {
		return ReasonConfiguration
	}
	return 0
}

// voters returns the members that are no learners, sorted.
func (r *Registry) voters() []Member {
	var voters []Member
	for i := range r.Members {
		if !r.Members[i].Learner {
			voters = append(voters, r.Members[i].Member)
		}
	}
	return voters
}

// issue returns the next NodeID. It is drawn when an entry is applied, never from a leader's memory.
func (r *Registry) issue() NodeID {
	r.Issued++
	return r.Issued
}

func (r *Registry) applyPrepare(c *Control, faults *Faults) Outcome {
	id := r.issue()
	if faults.ReuseNodeID && r.IsRetired(id-1) {
		r.Issued--
		id--
	}
	r.Replacement = &Replacement{
		Seat: c.Seat, Predecessor: r.Voter(c.Seat).Member, Newcomer: Member{NodeID: id},
		PeerAddr: c.PeerAddr, ExpiresMillis: c.ExpiresMillis,
	}
	return Outcome{
		Result: ResultReplacementPrepared, Seat: c.Seat, Member: Member{NodeID: id},
		PeerAddr: c.PeerAddr, ExpiresMillis: c.ExpiresMillis,
	}
}

// admit makes the newcomer of the replacement a learner.
func (r *Registry) admit(c *Control) Outcome {
	rep := r.Replacement
	rep.AdmittedMillis = c.WallMillis
	r.insert(MemberInfo{
		Member: rep.Newcomer, Seat: rep.Seat, Learner: true, PeerAddr: rep.PeerAddr, ClientAddr: c.ClientAddr,
	})
	return Outcome{Result: ResultAdmissionAccepted, Seat: rep.Seat, Member: rep.Newcomer, PeerAddr: rep.PeerAddr}
}

func (r *Registry) applyRejoin(c *Control) Outcome {
	var retired Member
	predecessor := r.Voter(c.Seat).Member
	if r.Replacement != nil {
		retired = r.Replacement.Newcomer
		r.retire(retired, c.Seat)
	}
	r.recordRejoin(c.Seat, c.WallMillis)
	r.Replacement = &Replacement{
		Seat: c.Seat, Predecessor: predecessor, PeerAddr: c.PeerAddr,
		Newcomer: Member{NodeID: r.issue(), Incarnation: c.Newcomer.Incarnation},
	}
	out := r.admit(c)
	out.Retired = retired
	return out
}

// applyFinal ends the replacement: the predecessor is retired.
func (r *Registry) applyFinal(c *Control) Outcome {
	rep := r.Replacement
	if slices.Contains(c.Configuration.Voters, rep.Predecessor) {
		return r.abort() // Faults.AbortAfterJoint
	}
	r.retire(rep.Predecessor, rep.Seat)
	if m := r.Member(rep.Newcomer); m != nil {
		m.Learner = false
	}
	r.Replacement = nil
	return Outcome{Result: ResultControlApplied, Seat: rep.Seat, Member: rep.Newcomer, Retired: rep.Predecessor}
}

// abort gives the replacement up; the newcomer's NodeID is retired with it.
func (r *Registry) abort() Outcome {
	rep := r.Replacement
	r.Replacement = nil
	r.retire(rep.Newcomer, rep.Seat)
	return Outcome{Result: ResultControlApplied, Seat: rep.Seat, Retired: rep.Newcomer, PeerAddr: rep.PeerAddr}
}
