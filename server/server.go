package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"

	"ticketing.internal/auth"
	"ticketing.internal/lock"
	"ticketing.internal/tlsconf"
)

// Server is one lock server: open ports, an engine, and what carries its connections.
type Server struct {
	// Immutable after New.
	cfg       Config
	log       *slog.Logger
	loops     int
	clock     *clock
	engine    *engine
	admission *admission
	streams   *streams
	transport *transport
	acceptor  *acceptor
	reloader  *tlsconf.Reloader // nil on plaintext
	addr      net.Addr
	startedAt int64 // mono ns
	self      shard // for the server's own batches
	admin     *admin

	stopping sync.Once
	stop     chan struct{}   // closed by Stop
	killed   context.Context // ends with Kill
	kill     context.CancelFunc
}

// maxLoops bounds the event loops. Decisions are made under one lock, so more loops would only wait for it.
const maxLoops = 4

// New opens everything that a server with cfg needs: the state directory, certificates, ports. Nothing is served before Run.
// An error says what to do; ExitCode turns it into the exit code.
func New(cfg Config, log *slog.Logger) (*Server, error) {
	// Server and clients often share a machine, and one loop can keep a core busy: half of the cores is plenty.
	return newServer(cfg, log, min(max(runtime.NumCPU()/2, 1), maxLoops))
}

func newServer(cfg Config, log *slog.Logger, loops int) (*Server, error) {
	s := &Server{cfg: cfg, log: log, loops: loops, clock: newClock(), stop: make(chan struct{})}
	s.killed, s.kill = context.WithCancel(context.Background())
	s.self.wake = func() {}
	s.startedAt = s.clock.mono()
	if err := s.build(); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func (s *Server) build() error {
	for _, w := range s.cfg.Warnings() {
		s.log.Warn(w)
	}
	if err := s.loadCertificates(); err != nil {
		return err
	}
	if err := s.buildEngine(); err != nil {
		return err
	}
	places, err := connectionPlaces(s.cfg.MaxConnections, raiseFileLimit())
	if err != nil {
		return err
	}
	if places < s.cfg.MaxConnections {
		s.log.Warn("the limit of open files leaves fewer places than TICKETING_MAX_CONNECTIONS asks for: raise it (LimitNOFILE, ulimit -n)",
			"places", places, "wanted", s.cfg.MaxConnections)
	}
	s.admission = newAdmission(places, int(s.cfg.MaxBuffered))
	s.streams = &streams{
		engine: s.engine, admission: s.admission, tls: s.certificates(), idle: s.cfg.IdleTimeout, open: map[*stream]struct{}{},
	}
	if s.transport, err = newTransport(s.engine, s.streams, s.loops); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	s.admin, err = newAdmin(&s.cfg, s.certificates(), observer{s}, s.engine.events)
	return err
}

func (s *Server) loadCertificates() (err error) {
	if s.cfg.TLSCert == "" {
		return nil
	}
	s.reloader, err = tlsconf.NewServer(s.cfg.clientFiles())
	if err != nil {
		return &ConfigError{Problems: []string{err.Error()}}
	}
	s.reloader.Now = s.clock.wall
	s.reloader.OnError = func(err error) {
		s.log.Error("the certificate was not replaced: the one before stays in use", "why", err)
	}
	watchDates(s.reloader, clientCertificate, s.log)
	return nil
}

// certificates is the TLS configuration of the client and admin ports, nil on plaintext.
func (s *Server) certificates() *tls.Config {
	if s.reloader == nil {
		return nil
	}
	return s.reloader.Config()
}

func (s *Server) buildEngine() error {
	notifier, err := newNotifier(s.cfg.NotifySocket, s.cfg.Watchdog)
	if err != nil {
		return fmt.Errorf("connecting to the service manager's socket (NOTIFY_SOCKET): %w", err)
	}
	e := &engine{
		clock: s.clock, notifier: notifier, legacy: legacyRoom{limit: legacyGrantsPerKey * s.cfg.MaxKeys}, events: newEvents(s.clock, s.log), sessions: make([]*conn, 1),
		welcomer: welcomer{legacy: s.cfg.Legacy, clientAddr: s.cfg.AdvertisedAddr(), inFlight: uint32(s.cfg.MaxInFlight)},
	}
	s.engine = e
	var seed [32]byte
	rand.Read(seed[:])
	e.owners = mrand.NewChaCha8(seed)
	e.welcomer.tokens.Store(auth.NewTokens(s.cfg.clientTokens()...))
	base, err := s.openAuthority()
	if err != nil {
		return err
	}
	e.manager = lock.NewManager(lock.Config{
		Limits: lock.Limits{
			Keys: s.cfg.MaxKeys, Waiters: s.cfg.MaxWaiters, WaitersPerKey: s.cfg.MaxWaitersPerKey, InFlight: s.cfg.MaxInFlight,
		},
		Seed: maphash.MakeSeed(), TokenBase: base, Log: e.authority, Sink: e,
	})
	e.noteReadiness(s.clock.mono())
	e.progress.Store(s.clock.mono())
	return nil
}

// openAuthority opens the authority for the mode in which this process starts, and returns the token above which grants start.
func (s *Server) openAuthority() (base uint64, err error) {
	var state *stateFile
	if s.cfg.StateDir != "" {
		if state, err = openStateFile(s.cfg.StateDir); err != nil {
			return 0, err
		}
	}
	plan, marker, err := planStart(&s.cfg, state, s.clock.now().Wall)
	if err != nil {
		if state != nil {
			state.close()
		}
		return 0, err
	}
	for _, note := range plan.notes {
		s.log.Warn(note)
	}
	if plan.mode == startAlone {
		return s.openAlone(state)
	}
	return 0, s.openMember(plan, state, marker) // a cluster's token base is in its log
}

// openMember makes this server a node of a cluster. What it has opened when it fails is given back by release.
func (s *Server) openMember(plan startDecision, state *stateFile, marker *markerFile) error {
	m, err := openMember(&s.cfg, plan, state, marker, s.engine, s.log)
	m.describeServer = func() Status { return s.describe(observer{s}.ready()) }
	if m.linkTLS != nil {
		watchDates(m.linkTLS, peerCertificate, s.log)
	}
	s.engine.authority, s.engine.welcomer.domain = m, plan.domain
	return err
}

func (s *Server) openAlone(state *stateFile) (base uint64, err error) {
	a, err := openAlone(&s.cfg, s.clock, state)
	s.engine.authority, s.engine.leadership = a, standalone()
	if err != nil {
		return 0, err
	}
	a.engine = s.engine
	rand.Read(s.engine.welcomer.domain[:])
	return a.tokenBase(), nil
}

func (s *Server) listen() error {
	l, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening for clients on TICKETING_LISTEN=%s: %w; stop what uses the port, or choose another", s.cfg.Listen, err)
	}
	s.addr = l.Addr()
	port, err := s.transport.port(l.(*net.TCPListener))
	if err != nil {
		l.Close()
		return err
	}
	s.acceptor = newAcceptor(acceptor{engine: s.engine, admission: s.admission, port: port, start: s.transport.adopt})
	return nil
}

// release gives back what build has opened, when build fails or Run ends.
func (s *Server) release() {
	if s.acceptor != nil {
		s.acceptor.port.close()
	}
	if s.admin != nil {
		s.admin.close()
	}
	if s.engine != nil {
		s.engine.notifier.end()
		if s.engine.authority != nil {
			s.engine.authority.release()
		}
	}
	if s.transport != nil {
		s.transport.close()
	}
}

// Addr is the address on which clients are served.
func (s *Server) Addr() net.Addr { return s.addr }

// Run serves until ctx ends or Stop is called, then drains, and returns nil after a clean end.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go s.engine.events.run()
	s.engine.authority.begin(func(err error) { failed <- err })
	s.transport.run()
	go s.acceptor.run()
	s.admin.run()
	if why := *s.engine.unready.Load(); why != "" {
		s.log.Warn("acquires are refused for now", "why", why)
	}
	s.log.Info("serving", "clients", s.addr.String(), "admin", s.adminText(), "tls", s.reloader != nil, "pid", os.Getpid())
	running, stopped := context.WithCancel(context.Background())
	defer stopped()
	go keepFootprintSmall(running)
	s.engine.notifier.ready()
	var err error
	select {
	case <-ctx.Done():
	case <-s.stop:
	case err = <-failed:
		s.Kill()
	}
	s.drain()
	return errors.Join(err, s.end())
}

// Stop makes Run drain and return.
func (s *Server) Stop() { s.stopping.Do(func() { close(s.stop) }) }

// Kill makes Run return without waiting for holders.
func (s *Server) Kill() {
	s.kill()
	s.Stop()
}

// drain stops accepting, lets another node lead, sends the waiters away, and waits until no connected client holds a key or the
// drain time-out is over.
func (s *Server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	stopWaiting := context.AfterFunc(s.killed, cancel)
	defer stopWaiting()
	s.engine.notifier.stopping()
	s.acceptor.stop()
	s.engine.authority.handOver(ctx)
	drained := make(chan struct{})
	s.engine.batch(&s.self, func(now lock.Time) {
		s.engine.manager.Drain(now)
		s.engine.draining, s.engine.drained = true, drained
		s.engine.noteReadiness(now.Mono)
	})
	s.log.Info("stopping: waiting for clients to give back what they hold", "at_most", s.cfg.DrainTimeout)
	select {
	case <-drained:
	case <-ctx.Done():
	}
}

// end closes everything. Connections go first, so that no grant comes after the authority has ended.
func (s *Server) end() error {
	s.transport.stop()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	err := s.engine.authority.end(ctx)
	s.admin.stop()
	s.engine.events.stop()
	held := s.engine.manager.Stats().Held
	s.release()
	if err == nil {
		s.log.Info("stopped", "still_held", held)
	}
	return err
}

// Reload reads secrets and certificates again. What cannot be read stays as it was; the error lists all of it.
func (s *Server) Reload() error {
	var problems []error
	if s.reloader != nil {
		problems = append(problems, s.reloader.Reload())
	}
	fresh := s.cfg
	if err := fresh.ReloadSecrets(); err != nil {
		problems = append(problems, err)
	} else {
		s.engine.welcomer.tokens.Store(auth.NewTokens(fresh.clientTokens()...))
		s.admin.setToken(fresh.AdminToken)
		problems = append(problems, s.engine.authority.reload(&fresh))
	}
	return errors.Join(problems...)
}
