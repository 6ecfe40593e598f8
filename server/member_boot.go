package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	crand "crypto/rand"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

const (
	// bootRepeat is how often acceptances are sent again to nodes that do not take part in Raft yet.
	bootRepeat = time.Second
	// burnGrace is how long after the credential's end a node waits for a domain that does not open.
	burnGrace = 60 * time.Second
)

// freshIncarnation names this process.
func freshIncarnation() (i raft.Incarnation) {
	crand.Read(i[:])
	return i
}

// freshRand is a generator that no other process shares.
func freshRand() *rand.Rand {
	var seed [32]byte
	crand.Read(seed[:])
	return rand.New(rand.NewChaCha8(seed))
}

// bootstrap takes part in the making of a new domain, until Raft runs.
func (m *member) bootstrap(ctx context.Context) error {
	m.aim()
	ticker := time.NewTicker(bootRepeat)
	defer ticker.Stop()
	for {
		if started, err := m.advanceBootstrap(); started || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.news:
		case <-ticker.C:
		}
	}
}

func (m *member) bootstrapConfig() raft.BootstrapConfig {
	c := m.plan.bootstrap
	cfg := raft.BootstrapConfig{
		Domain: m.plan.domain, TokenBase: c.TokenBase, NotAfterMillis: c.NotAfterMillis, Credential: m.plan.credential, AfterLoss: c.AfterLoss,
		Self:        raft.MemberInfo{Member: m.self, Seat: m.plan.seat, PeerAddr: m.plan.peerAddr, ClientAddr: m.clientAddr},
		OtherDomain: m.plan.otherDomain, TokenMark: m.plan.tokenMark,
	}
	for _, s := range c.Seats {
		cfg.Seats = append(cfg.Seats, raft.SeatAddr{Seat: raft.Seat(s.Seat), PeerAddr: s.PeerAddr})
	}
	return cfg
}

// bootstrapInfo is what a peer has shown of itself.
func (m *member) bootstrapInfo(in *peerIntroduction) raft.MemberInfo {
	info := raft.MemberInfo{Member: in.Sender, Seat: in.seat, ClientAddr: in.clientAddr}
	for _, s := range m.plan.bootstrap.Seats {
		if raft.Seat(s.Seat) == in.seat {
			info.PeerAddr = s.PeerAddr
		}
	}
	return info
}

// advanceBootstrap does what can be done now. It reports whether Raft has started.
func (m *member) advanceBootstrap() (started bool, err error) {
	m.engine.mu.Lock()
	proposed := m.boot.Propose()
	c := m.offered
	if c == nil {
		c = proposed
	}
	accepted := m.boot.AcceptedConfig()
	if c != nil && accepted == nil && m.boot.Check(c) != nil {
		c, m.offered = nil, nil
	}
	m.engine.mu.Unlock()
	if c != nil && accepted == nil {
		// The marker is on the disk before the acceptance is told to anybody.
		if err := m.marker.enter(m.life()); err != nil {
			return false, err
		}
		m.engine.mu.Lock()
		m.boot.Accept(c)
		m.engine.mu.Unlock()
	}
	m.engine.batch(&m.own, func(now lock.Time) {
		m.tellAcceptances(proposed)
		if s, ok := m.boot.Start(); ok {
			err = m.startRaft(s.Initial, s.TokenBase, s.AfterLoss)
			started = err == nil
		}
		if m.missing == nil || now.Wall <= m.plan.credentialEnd { // later, nodes end one after the other
			m.missing = m.boot.Missing()
		}
		m.replica.waiting = bootstrapWait(m.boot.Missing(), m.otherCredential)
		if now.Wall > m.plan.credentialEnd+burnGrace.Milliseconds() && !started && err == nil {
			err = m.burned(m.missing)
		}
		m.engine.noteReadiness(now.Mono)
	})
	return started, err
}

// burned is the end of a node whose domain did not open in time.
func (m *member) burned(missing []raft.Seat) error {
	who := ""
	if len(missing) > 0 {
		who = ": " + seatsText(missing) + " did not take part"
	}
	return nodeErrorf("the new domain did not open before its credential ended%s; make another one with `ticketing cluster init`", who)
}

// bootstrapWait says whom a bootstrap waits for; other is a seat whose node was given another credential, or 0.
func bootstrapWait(missing []raft.Seat, other raft.Seat) string {
	verb := "do"
	if len(missing) == 1 {
		verb = "does"
	}
	text := fmt.Sprintf("waiting for the nodes of the bootstrap: %s %s not take part yet", seatsText(missing), verb)
	if other != 0 {
		text += fmt.Sprintf("; the node of seat %d was given another credential than this one: %s", other, sameCredential)
	}
	return text
}

// sameCredential is what to do about nodes of one bootstrap that were given different credentials.
const sameCredential = "all first nodes need the same TICKETING_BOOTSTRAP"

// seatsText is "seat 3" or "seats 1, 3".
func seatsText(seats []raft.Seat) string {
	var numbers []string
	for _, s := range seats {
		numbers = append(numbers, fmt.Sprint(s))
	}
	if len(seats) == 1 {
		return "seat " + numbers[0]
	}
	return "seats " + strings.Join(numbers, ", ")
}

// life returns what the marker is to say when this process enters its domain.
func (m *member) life() newLife {
	l := newLife{domain: m.plan.domain, seat: m.plan.seat, self: m.self, peerAddr: m.plan.peerAddr, peers: m.plan.lookAt, credentialEnd: m.plan.credentialEnd}
	if m.plan.mode != startBootstrap {
		l.self.NodeID = 0
	}
	return l
}

// tellAcceptances sends what is known of the bootstrap to everybody whom this node is connected to.
func (m *member) tellAcceptances(initial *raft.InitialConfig) {
	if initial != nil {
		m.link.broadcast(wire.PeerTypeInitialConfig, func(dst []byte) []byte { return raft.AppendInitialConfig(dst, initial) })
	}
	for _, a := range m.boot.Known() {
		m.link.broadcast(wire.PeerTypeAccepted, func(dst []byte) []byte { return raft.AppendAccepted(dst, &a) })
	}
}

// takeInitialConfig notes an InitialConfig, which live checks and accepts.
func (m *member) takeInitialConfig(body []byte) error {
	c, err := raft.DecodeInitialConfig(body)
	if err != nil {
		return err
	}
	if m.boot != nil && m.boot.AcceptedConfig() == nil {
		m.offered = c
		m.tell()
	}
	return nil
}

func (m *member) takeAccepted(body []byte) error {
	a, err := raft.DecodeAccepted(body)
	if err != nil {
		return err
	}
	if m.boot != nil && m.boot.Record(a) { // what is known already is not told again: else the nodes keep each other busy
		m.tell()
	}
	return nil
}

// startRaft makes this process a member that takes part: a voter of the InitialConfig, or without one a learner that knows
// nothing yet.
func (m *member) startRaft(initial *raft.InitialConfig, tokenBase uint64, afterLoss bool) error {
	node, err := raft.New(raft.Config{
		Domain: m.plan.domain, Self: m.self, Initial: initial, TokenBase: tokenBase, AfterLoss: afterLoss,
		Tick: raftTick, Heartbeat: m.cluster.Heartbeat, ElectionTimeout: m.cluster.ElectionTimeout, LogBytes: int(m.cluster.LogMemory),
		StateMachine: &m.replica, Rand: freshRand(), Trace: m.trace,
	})
	if err != nil {
		return nodeErrorf("starting Raft: %v", err)
	}
	m.node = node
	m.tickAt = m.engine.now.Mono
	m.ahead = newMarkerAhead(m.marker)
	m.aim()
	return nil
}

// aim tells the transport which nodes to connect to: the members or, while the registry is not known here, the seats of the bootstrap
// or the members that the leader has named.
func (m *member) aim() {
	var targets []peerTarget
	switch {
	case m.node == nil && m.plan.mode == startBootstrap:
		for _, s := range m.plan.bootstrap.Seats {
			if raft.Seat(s.Seat) != m.plan.seat {
				targets = append(targets, peerTarget{addr: s.PeerAddr})
			}
		}
	case m.node != nil && len(m.node.Registry().Members) > 0:
		for _, info := range m.node.Registry().Members {
			if info.PeerAddr != m.plan.peerAddr { // at this node's own address is nobody else, whatever the registry says
				targets = append(targets, peerTarget{member: info.Member, addr: info.PeerAddr})
			}
		}
	default: // a learner without a snapshot knows those of whom the leader has told it
		for i := range m.introduced {
			if target := m.introduced[i].target(); target.addr != m.plan.peerAddr {
				targets = append(targets, target)
			}
		}
	}
	m.link.setTargets(m.self, targets)
}

// peerAddrs are where the other members are.
func (m *member) peerAddrs() []string {
	var addrs []string
	for _, info := range m.node.Registry().Members {
		if info.Member != m.self && !slices.Contains(addrs, info.PeerAddr) {
			addrs = append(addrs, info.PeerAddr)
		}
	}
	return addrs
}
