package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

const (
	askTimeout  = 15 * time.Second
	askPauseMin = 200 * time.Millisecond
	askPauseMax = 3200 * time.Millisecond
	// askPatience is how many pauses a handshake may take: a node that is silent, as one that is stopped, must not take the time of
	// those that would answer. It grows with the pause, for nodes that are only slow.
	askPatience = 5
	chorePause  = time.Second
)

// live brings this process into its domain, and then does its chores until ctx ends.
func (m *member) live(ctx context.Context) (err error) {
	switch m.plan.mode {
	case startBootstrap:
		err = m.bootstrap(ctx)
	case startJoin:
		err = m.join(ctx)
	default:
		err = m.rejoin(ctx)
	}
	if err != nil {
		return err
	}
	ticker := time.NewTicker(chorePause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		m.engine.batch(&m.own, func(now lock.Time) { err = m.chores(now) })
		if err != nil {
			return err
		}
	}
}

// chores repeats what others may have missed while the domain is being made, and ends a node whose domain never opened.
func (m *member) chores(now lock.Time) error {
	registry := m.node.Registry()
	if why := m.ahead.failing(now.Mono); why != "" {
		m.engine.events.markerFailing(why)
	}
	switch {
	case m.farewell:
		return m.burned(nil)
	case registry.Burned:
		m.farewell = true // until the next time the others hear of it, which nobody could tell them afterwards
		return nil
	case m.boot == nil:
		return nil
	}
	if registry.Open {
		m.boot = nil
		return nil
	}
	m.tellAcceptances(m.boot.Propose())
	if now.Wall > m.plan.credentialEnd+burnGrace.Milliseconds() && !m.node.Status().BootstrapHeld {
		return m.burned(nil)
	}
	return nil
}

// join asks to be the replacement that the credential names.
func (m *member) join(ctx context.Context) error {
	if m.plan.otherDomain {
		// The marker of another domain is given up only for one that is there.
		if _, err := m.ask(ctx, &wire.ControlRequest{Kind: wire.ControlStatus}, nil); err != nil {
			return err
		}
	}
	if err := m.marker.enter(m.life()); err != nil {
		return err
	}
	request := &wire.ControlRequest{
		Kind: wire.ControlAdmit, Self: pairOf(m.self), PeerAddr: m.plan.peerAddr, ClientAddr: m.clientAddr, Credential: string(m.cluster.Join),
	}
	reply, err := m.ask(ctx, request, nil)
	if err != nil {
		return err
	}
	if reply.Code == wire.ControlDone {
		return m.admitted(reply)
	}
	if m.plan.elseRejoin {
		m.log.Warn("the join credential is of no use any more: this node asks to be its own replacement", "why", reply.Text)
		return m.rejoin(ctx)
	}
	return nodeErrorf("TICKETING_JOIN is refused: %s; get another one with `ticketing cluster replace --seat %d`", reply.Text, m.plan.seat)
}

// rejoin asks to be the replacement of an earlier process of this node.
func (m *member) rejoin(ctx context.Context) error {
	seat, addr := m.plan.seat, m.plan.peerAddr
	if m.plan.mode == startJoin {
		seat, addr = m.plan.marker.seat, m.plan.marker.peerAddr
		m.engine.mu.Lock()
		m.self = raft.Member{Incarnation: freshIncarnation()}
		m.engine.mu.Unlock()
	}
	if err := m.marker.addIncarnation(m.self.Incarnation); err != nil {
		return err
	}
	kept, _ := m.marker.read()
	request := &wire.ControlRequest{
		Kind: wire.ControlRejoin, Seat: uint8(seat), Self: pairOf(m.self), PeerAddr: addr, ClientAddr: m.clientAddr,
	}
	for _, i := range kept.incarnations {
		request.Marker = append(request.Marker, pairOf(i))
	}
	giveUp := func(now lock.Time) error {
		if !kept.opened && !m.sawOpen.Load() && now.Wall > kept.credentialEnd+burnGrace.Milliseconds() {
			return m.burned(nil)
		}
		return nil
	}
	reply, err := m.ask(ctx, request, giveUp)
	if err != nil {
		return err
	}
	switch {
	case reply.Code == wire.ControlDone:
		return m.admitted(reply)
	case raft.Reason(reply.Reason) == raft.ReasonIncarnationKnown:
		// It was admitted, did not hear of it, and was given up as a silent learner.
		return errGivenUp
	}
	return nodeErrorf("seat %d cannot be taken again: %s; use `ticketing cluster replace --seat %d`", seat, reply.Text, seat)
}

// admitted makes this process the learner that the leader has admitted.
func (m *member) admitted(reply *wire.ControlReply) (err error) {
	self := memberOf(reply.Member)
	var st Status
	if err := json.Unmarshal(reply.Data, &st); err != nil {
		return fmt.Errorf("reading who the members are: %w", err)
	}
	if err := m.marker.setNodeID(self, raft.Seat(reply.Seat), reply.PeerAddr); err != nil {
		return err
	}
	m.log.Info("admitted: catching up as a learner", "member", self.String(), "seat", reply.Seat)
	m.engine.batch(&m.own, func(now lock.Time) {
		m.self, m.plan.seat, m.plan.peerAddr = self, raft.Seat(reply.Seat), reply.PeerAddr
		m.introduced = st.Members
		err = m.startRaft(nil, 0, false)
	})
	return err
}

// ask puts request to one member after the other, and to the leader that they name, until the answer is final: done, or rejected for
// a reason that does not pass by itself. giveUp, if not nil, is called after each round and ends ask by an error.
func (m *member) ask(ctx context.Context, request *wire.ControlRequest, giveUp func(lock.Time) error) (*wire.ControlReply, error) {
	leader := ""
	for pause := askPauseMin; ; pause = min(2*pause, askPauseMax) {
		var reply *wire.ControlReply
		if reply, leader = m.askRound(ctx, request, leader, askPatience*pause); reply != nil && final(reply) {
			return reply, nil
		}
		if giveUp != nil {
			if err := giveUp(m.engine.clock.now()); err != nil {
				return nil, err
			}
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// askRound puts request to one address after the other, to first first and to the leader that one names next, until one answers as the
// leader. It returns that answer and from where; nil: there was none.
func (m *member) askRound(ctx context.Context, request *wire.ControlRequest, first string, patience time.Duration) (*wire.ControlReply, string) {
	queue := slices.Clone(m.plan.lookAt)
	rand.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	if first != "" {
		queue = slices.Insert(queue, 0, first)
	}
	asked, answered := map[string]bool{}, false
	for redirects := 0; len(queue) > 0; {
		addr := queue[0]
		queue = queue[1:]
		if asked[addr] {
			continue
		}
		asked[addr] = true
		reply, err := m.askOne(ctx, addr, request, patience, &answered)
		switch {
		case err != nil:
		case reply.Code == wire.ControlDone, reply.Code == wire.ControlRejected:
			return reply, addr
		case reply.Leader != "" && redirects < mostRedirects:
			redirects++
			queue = slices.Insert(queue, 0, reply.Leader)
		}
	}
	return nil, ""
}

// askOne asks at one address. answered is set once somebody has answered in this round: from then on an address that is out of reach
// is not shown as the reason for waiting.
func (m *member) askOne(ctx context.Context, addr string, request *wire.ControlRequest, patience time.Duration, answered *bool) (*wire.ControlReply, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	reply, err := m.link.ask(ctx, addr, request, patience)
	if refusal := (*provedRefusal)(nil); errors.As(err, &refusal) && (refusal.reason == raft.RefuseRetired || refusal.reason == raft.RefuseOtherIncarnation) {
		// The credential's NodeID, or this process, had its time, or another process has the NodeID: that is an answer.
		reply, err = &wire.ControlReply{Code: wire.ControlRejected, Reason: uint8(raft.ReasonCredentialConsumed), Text: refusal.words()}, nil
	}
	why := ""
	if err == nil {
		switch raft.Reason(reply.Reason) {
		case raft.ReasonUnderWay, raft.ReasonTooSoon, raft.ReasonStillHeard, raft.ReasonAlreadyOpen: // of an open domain alone
			m.sawOpen.Store(true)
		}
	}
	switch {
	case err != nil:
		why = err.Error()
	case reply.Code != wire.ControlDone:
		why = strings.TrimPrefix(reply.Text, "raft: ")
		if reply.Code == wire.ControlNotLeader && reply.Leader == "" {
			why = "it knows no leader; " + majorityAdvice
		}
	}
	if why != "" {
		if err == nil || !*answered {
			m.engine.mu.Lock()
			m.replica.waiting = fmt.Sprintf("%v: asked %s to be admitted: %s", m.plan.mode, addr, why)
			m.engine.mu.Unlock()
		}
		m.engine.events.notAdmitted(addr, why)
	}
	*answered = *answered || err == nil
	return reply, err
}

// final reports whether asking again is pointless.
func final(reply *wire.ControlReply) bool {
	return reply.Code == wire.ControlDone || reply.Code == wire.ControlRejected && !raft.Reason(reply.Reason).Retry()
}
