package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/tlsconf"
)

// member is this process as a member of a cluster, or on its way to becoming one: who it is, whom it lets in, and what it answers to
// operators. It is the authority of a node, and the driver of the transport between nodes.
type member struct {
	// Guarded by the engine's lock.
	replica

	self    raft.Member            // NodeID 0 until it is admitted
	shown   map[raft.Member]uint64 // the highest term that each pair has shown
	boot    *raft.Bootstrap        // while the domain is being made
	offered *raft.InitialConfig    // received, and not accepted yet
	// otherCredential is a seat of the bootstrap whose node has shown another credential; 0: none.
	otherCredential raft.Seat
	ahead           *markerAhead // from the start of Raft on
	missing         []raft.Seat  // who had not taken part in the bootstrap when its credential ended
	// farewell: the domain is burned, and the others have been told so for a while.
	farewell bool
	// introduced are the members that the leader has named when it admitted this process.
	introduced []StatusMember

	// Immutable once begun.
	log        *slog.Logger
	cluster    *ClusterConfig
	clientAddr string
	plan       startDecision
	state      *stateFile
	marker     *markerFile
	link       *peerTransport
	linkTLS    *tlsconf.Reloader // of the peer port; nil on plaintext
	writer     *stateWriter
	fail       func(error) // ends the server with an error; only the first counts
	cancel     context.CancelFunc
	lived      chan struct{} // closed when live has returned
	news       chan struct{} // gets a value when live or handOver may have something to do
	own        shard         // for batches of its own
	sawOpen    atomic.Bool   // a member of the domain has answered, and the domain is open

	describeServer func() Status // what /status says; called under the engine's lock
}

// openMember prepares the node that plan describes, and opens its peer port.
func openMember(cfg *Config, plan startDecision, state *stateFile, marker *markerFile, e *engine, log *slog.Logger) (*member, error) {
	m := &member{
		log: log, cluster: &cfg.Cluster, clientAddr: cfg.AdvertisedAddr(), plan: plan, state: state, marker: marker,
		shown: map[raft.Member]uint64{},
		lived: make(chan struct{}), news: make(chan struct{}, 1), own: shard{wake: func() {}},
	}
	m.replica = replica{
		engine: e, follow: m.followControl, changed: m.tell, installed: m.installedSnapshot, undecided: undecided{giveUp: never}, waiting: plan.mode.waiting(),
		electionPatience: max(leastElectionPatience, 4*int64(cfg.Cluster.ElectionTimeout)), // twice the longest time-out
	}
	m.self.Incarnation = freshIncarnation()
	switch plan.mode {
	case startBootstrap:
		m.self.NodeID = raft.NodeID(plan.seat)
		// The first node that connects may do so before live runs, and shows itself once.
		boot, err := raft.NewBootstrap(m.bootstrapConfig())
		if err != nil {
			return m, nodeErrorf("TICKETING_BOOTSTRAP: %v", err)
		}
		m.boot = boot
	case startJoin:
		m.self.NodeID = raft.NodeID(plan.join.NodeID)
	}
	return m, m.openLink()
}

// openLink opens the peer port.
func (m *member) openLink() error {
	secrets, err := m.cluster.secrets()
	if err != nil {
		return &ConfigError{Problems: []string{err.Error()}}
	}
	options := peerOptions{driver: m, secrets: secrets, events: m.engine.events, clock: m.engine.clock, jitter: freshRand()}
	if m.cluster.TLSCert != "" {
		m.linkTLS, err = tlsconf.NewServer(tlsconf.ServerFiles{Cert: m.cluster.TLSCert, Key: m.cluster.TLSKey, ClientCA: m.cluster.TLSCA})
		if err != nil {
			return &ConfigError{Problems: []string{err.Error()}}
		}
		options.tls = m.linkTLS
		m.linkTLS.Now = m.engine.clock.wall
		m.linkTLS.OnError = func(err error) {
			m.log.Error("the peer certificate was not replaced: the one before stays in use", "why", err)
		}
	}
	if m.link, err = openPeerTransport(m.cluster.PeerListen, options); err != nil {
		return err
	}
	m.peers = m.link
	return nil
}

// waiting says what a process that has just started waits for.
func (m startMode) waiting() string {
	switch m {
	case startBootstrap:
		return "waiting for the other nodes of the bootstrap"
	case startJoin:
		return "joining: waiting to be admitted by the leader"
	}
	return "rejoining: waiting to be admitted by the leader as this seat's replacement"
}

// tell wakes live, or handOver.
func (m *member) tell() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// begin implements authority.
func (m *member) begin(fail func(error)) {
	var once sync.Once
	m.fail = func(err error) { once.Do(func() { fail(err) }) }
	m.writer = startStateWriter(func(err error) {
		m.engine.batch(&m.own, func(now lock.Time) {
			if m.ahead != nil {
				m.ahead.written(now.Mono, err)
			}
		})
	})
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.link.reader = m.engine.peerReader
	m.link.start()
	go func() {
		defer close(m.lived)
		if err := m.live(ctx); err != nil && ctx.Err() == nil {
			m.fail(err)
		}
	}()
}

// decide implements authority.
func (m *member) decide(now lock.Time) {
	m.replica.decide(now)
	if m.ahead == nil {
		return
	}
	m.ahead.applied(m.engine.manager.LastToken())
	if w, ok := m.ahead.advance(now.Mono); ok {
		m.writer.start(w)
	}
}

// unready implements authority. A node that takes over a seat is not ready before its predecessor is retired: until then an operator must not
// stop the next node.
func (m *member) unready(now int64) string {
	if m.node != nil && (m.plan.mode != startBootstrap || m.node.Registry().Open) {
		if voter := m.node.Registry().Voter(m.plan.seat); voter == nil || voter.Member != m.self {
			return "this node is catching up to take over its seat"
		}
	}
	return m.replica.unready(now)
}

// handOver implements authority: a leader lets another node lead before it stops.
func (m *member) handOver(ctx context.Context) {
	leads := false
	m.engine.batch(&m.own, func(lock.Time) {
		leads = m.node != nil && m.replica.state.Role == raft.RoleLeader && m.node.TransferLeadership(raft.Member{}) == nil
	})
	for leads {
		select {
		case <-ctx.Done():
			return
		case <-m.news:
		}
		m.engine.mu.Lock()
		leads = m.replica.state.Role == raft.RoleLeader && m.node.Status().State.Transferring
		m.engine.mu.Unlock()
	}
}

// end implements authority.
func (m *member) end(ctx context.Context) error {
	m.cancel()
	m.link.close()
	<-m.lived
	m.engine.mu.Lock()
	m.node, m.ahead = nil, nil // nothing is decided or written any more
	m.engine.mu.Unlock()
	if err := m.writer.stop(ctx); err != nil {
		return fmt.Errorf("writing the marker at the end: %w; it says less than it could, which the next start repairs", err)
	}
	return nil
}

// reload implements authority. Open connections stay as they are.
func (m *member) reload(fresh *Config) error {
	secrets, err := fresh.Cluster.secrets()
	if err == nil {
		m.link.setSecrets(secrets)
	}
	if m.linkTLS != nil {
		err = errors.Join(err, m.linkTLS.Reload())
	}
	return err
}

// release implements authority.
func (m *member) release() {
	if m.link != nil {
		m.link.close()
	}
	m.state.close()
}
