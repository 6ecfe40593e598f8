package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// Bounds of how long a join credential may be valid.
const (
	leastValid = time.Second
	mostValid  = 24 * time.Hour
)

// control implements peerDriver.
func (m *member) control(from *peerIntroduction, request *wire.ControlRequest, answer func(*wire.ControlReply)) {
	m.engine.batch(&m.own, func(now lock.Time) {
		switch request.Kind {
		case wire.ControlStatus:
			answer(m.statusReply())
		case wire.ControlTransfer:
			answer(m.transfer(raft.Seat(request.Seat)))
		case wire.ControlCanStop:
			answer(m.canStop(raft.Seat(request.Seat)))
		default:
			m.change(now, request, answer)
		}
	})
}

// change puts a request that changes the membership into the log.
func (m *member) change(now lock.Time, request *wire.ControlRequest, answer func(*wire.ControlReply)) {
	c, err := m.controlOf(now, request)
	if err != nil {
		answer(&wire.ControlReply{Code: wire.ControlRejected, Reason: uint8(raft.ReasonMalformed), Text: err.Error()})
		return
	}
	m.propose(now, c, func(o raft.Outcome, err error) {
		if err == nil && o.Result == raft.ResultControlRejected {
			err = o.Reason
		}
		if errors.Is(err, raft.ReasonTooSoon) {
			err = fmt.Errorf("%w %d s", err, paceSeconds(m.node.Registry(), c.Seat, now.Wall))
		}
		if err != nil {
			answer(m.refusalReply(err))
			return
		}
		reply := m.statusReply()
		reply.Seat, reply.Member, reply.PeerAddr, reply.ExpiresMillis = uint8(o.Seat), pairOf(o.Member), o.PeerAddr, o.ExpiresMillis
		answer(reply)
	})
}

// paceSeconds is how long the next rejoin of a seat has to wait from wallMillis on, in s, rounded up.
func paceSeconds(registry *raft.Registry, seat raft.Seat, wallMillis int64) int64 {
	for _, p := range registry.Paces {
		if p.Seat == seat {
			return max(1, (p.LastMillis+p.IntervalMillis-wallMillis+999)/1000)
		}
	}
	return 1
}

// controlOf translates a request.
func (m *member) controlOf(now lock.Time, r *wire.ControlRequest) (*raft.Control, error) {
	c := &raft.Control{Seat: raft.Seat(r.Seat), Newcomer: memberOf(r.Self), PeerAddr: r.PeerAddr, ClientAddr: r.ClientAddr}
	switch r.Kind {
	case wire.ControlPrepare:
		c.Kind, c.Newcomer = raft.ControlPrepare, raft.Member{}
		valid := time.Duration(min(r.ValidMillis, uint64(mostValid.Milliseconds()))) * time.Millisecond
		c.ExpiresMillis = now.Wall + max(valid, leastValid).Milliseconds()
	case wire.ControlAbort:
		c.Kind, c.Newcomer, c.Cause = raft.ControlAbort, raft.Member{}, raft.AbortOperator
	case wire.ControlAdmit:
		return c, m.readJoin(c, r)
	case wire.ControlRejoin:
		c.Kind, c.Newcomer.NodeID = raft.ControlRejoin, 0
		for _, p := range r.Marker {
			c.Marker = append(c.Marker, memberOf(p))
		}
	default:
		return nil, errors.New("an unknown request")
	}
	return c, nil
}

// readJoin takes from the credential what only it may say.
func (m *member) readJoin(c *raft.Control, r *wire.ControlRequest) error {
	credential, id, err := auth.ParseJoin(m.link.secrets.Load(), r.Credential)
	if err != nil {
		return err
	}
	if raft.Domain(credential.Domain) != m.plan.domain {
		return errors.New("the join credential is of another domain")
	}
	c.Kind, c.Seat, c.Credential = raft.ControlAdmit, raft.Seat(credential.Seat), raft.CredentialID(id)
	c.Newcomer.NodeID, c.PeerAddr, c.ExpiresMillis = raft.NodeID(credential.NodeID), credential.PeerAddr, credential.NotAfterMillis
	return nil
}

// refusalReply turns an error of raft into the reply to a request.
func (m *member) refusalReply(err error) *wire.ControlReply {
	var reason raft.Reason
	reply := &wire.ControlReply{Code: wire.ControlUnavailable, Text: err.Error(), Domain: m.plan.domain, Seat: uint8(m.plan.seat)}
	switch {
	case errors.As(err, &reason):
		reply.Code, reply.Reason = wire.ControlRejected, uint8(reason)
	case errors.Is(err, raft.ErrNotLeader):
		reply.Code, reply.Leader = wire.ControlNotLeader, m.leaderPeerAddr()
		if m.node != nil && m.node.Registry().Open {
			reply.Reason = uint8(raft.ReasonAlreadyOpen) // for one that does not know whether its domain ever was
		}
	case errors.Is(err, errFateUnknown):
		reply.Code = wire.ControlUnknown
	}
	return reply
}

// leaderPeerAddr is where the leader is asked, "" if none is known.
func (m *member) leaderPeerAddr() string {
	if m.node == nil {
		return ""
	}
	if info := m.node.Registry().Member(m.replica.state.Leader); info != nil {
		return info.PeerAddr
	}
	return ""
}

func (m *member) transfer(seat raft.Seat) *wire.ControlReply {
	if m.node == nil {
		return m.refusalReply(raft.ErrNotLeader)
	}
	var to raft.Member
	if seat != 0 {
		voter := m.node.Registry().Voter(seat)
		switch {
		case voter == nil:
			return m.refusalReply(raft.ReasonUnknownSeat)
		case voter.Member == m.self && m.replica.state.Role == raft.RoleLeader:
			return &wire.ControlReply{Code: wire.ControlDone, Domain: m.plan.domain, Text: m.seatText(voter.Member) + " leads already"}
		}
		to = voter.Member
	}
	err := m.node.TransferLeadership(to)
	switch {
	case errors.Is(err, raft.ErrNotEligible) && seat != 0:
		return &wire.ControlReply{Code: wire.ControlRejected, Text: m.absence(to) + ": start it, or name another seat"}
	case errors.Is(err, raft.ErrNotEligible):
		return &wire.ControlReply{Code: wire.ControlRejected, Text: "no other node answers: start one"}
	case err != nil:
		return m.refusalReply(err)
	}
	return &wire.ControlReply{Code: wire.ControlDone, Domain: m.plan.domain}
}

// canStop says whether a node may stop now without taking the majority along.
func (m *member) canStop(seat raft.Seat) *wire.ControlReply {
	if m.node == nil {
		return m.refusalReply(raft.ErrNotLeader)
	}
	if seat == 0 {
		seat = m.plan.seat
	}
	voter := m.node.Registry().Voter(seat)
	if voter == nil {
		return m.refusalReply(raft.ReasonUnknownSeat)
	}
	err := m.node.MayStop(voter.Member)
	var refusal raft.StopRefusal
	switch {
	case errors.As(err, &refusal) && refusal.Reason != 0:
		why := "a change of the members is under way: wait for it"
		if r := m.node.Registry().Replacement; r != nil {
			why = fmt.Sprintf("seat %d is being replaced by node %d (%s): wait for it, or give it up with ticketing cluster abort", r.Seat, r.Newcomer.NodeID, phaseName(r))
		}
		return &wire.ControlReply{Code: wire.ControlRejected, Text: why}
	case errors.As(err, &refusal):
		return &wire.ControlReply{Code: wire.ControlRejected, Text: fmt.Sprintf("%s, and without it and seat %d there is no majority: wait, or start it",
			m.absence(refusal.Member), seat)}
	case err != nil:
		return m.refusalReply(err)
	}
	return &wire.ControlReply{Code: wire.ControlDone, Domain: m.plan.domain, Seat: uint8(seat), Text: m.seatText(voter.Member) + " may stop"}
}

// seatText names a member as operators do.
func (m *member) seatText(of raft.Member) string {
	info := m.node.Registry().Member(of)
	if info == nil {
		return of.String()
	}
	return fmt.Sprintf("seat %d (%s)", info.Seat, info.PeerAddr)
}

// absence says why a voter does not count as alive and up to date. Called on the leader.
func (m *member) absence(of raft.Member) string {
	st := m.node.Status()
	i := slices.IndexFunc(st.Peers, func(p raft.PeerStatus) bool { return p.Member == of })
	if i < 0 {
		return m.seatText(of) + " is new"
	}
	p := st.Peers[i]
	silence := time.Duration(p.HeardTicks) * raftTick
	switch {
	case !p.Heard:
		return m.seatText(of) + " does not answer"
	case silence > 3*m.cluster.Heartbeat:
		return fmt.Sprintf("%s has not answered for %v", m.seatText(of), silence)
	case p.Snapshot:
		return m.seatText(of) + " is being sent a snapshot"
	case p.Match < st.Last:
		return fmt.Sprintf("%s is %d entries behind", m.seatText(of), st.Last-p.Match)
	}
	return m.seatText(of) + " is catching up"
}

func (m *member) statusReply() *wire.ControlReply {
	st := m.describeServer()
	data, err := json.Marshal(&st)
	if err != nil {
		return m.refusalReply(err)
	}
	reply := &wire.ControlReply{Code: wire.ControlDone, Domain: m.plan.domain, Leader: m.leaderPeerAddr(), Seat: uint8(m.plan.seat), Data: data}
	if m.replica.state.Role != raft.RoleLeader { // it knows less than the leader
		reply.Code, reply.Text = wire.ControlNotLeader, raft.ErrNotLeader.Error()
	}
	return reply
}
