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
	alone     *alone
	admission *admission
	streams   *streams
	transport *transport
	acceptor  *acceptor
	reloader  *tlsconf.Reloader // nil on plaintext
	state     *stateFile        // nil without a state directory
	addr      net.Addr
	startedAt int64 // mono ns
	self      shard // for the server's own batches
	admin     *admin

	stopping sync.Once
	stop     chan struct{} // closed by Stop
	killing  sync.Once
	kill     chan struct{} // closed by Kill
}

const (
	// reservedFiles are the descriptors that connections leave for the rest of the process.
	reservedFiles = 64
	// mostLoops bounds the event loops: decisions are made under one lock, which more loops would only wait for.
	mostLoops = 4
)

// New opens everything that a server with cfg needs: the state directory, certificates, ports. Nothing is served before Run.
// An error says what to do; ExitCode turns it into the exit code.
func New(cfg Config, log *slog.Logger) (*Server, error) {
	// Server and clients often share a machine, and one loop keeps a core busy: half of the cores is plenty.
	return newServer(cfg, log, min(max(runtime.NumCPU()/2, 1), mostLoops))
}

func newServer(cfg Config, log *slog.Logger, loops int) (*Server, error) {
	s := &Server{cfg: cfg, log: log, loops: loops, clock: newClock(), stop: make(chan struct{}), kill: make(chan struct{})}
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
	places := min(s.cfg.MaxConnections, raiseFileLimit()-reservedFiles)
	if places < s.cfg.MaxConnections {
		s.log.Warn("the limit of open files leaves fewer places than TICKETING_MAX_CONNECTIONS asks for: raise it (LimitNOFILE, ulimit -n)",
			"places", places, "wanted", s.cfg.MaxConnections)
	}
	s.admission = newAdmission(places, int(s.cfg.MaxBuffered))
	s.streams = &streams{
		engine: s.engine, admission: s.admission, tls: s.certificates(), idle: s.cfg.IdleTimeout, open: map[*stream]struct{}{},
	}
	var err error
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
	s.reloader, err = tlsconf.NewServer(tlsconf.ServerFiles{Cert: s.cfg.TLSCert, Key: s.cfg.TLSKey, ClientCA: s.cfg.TLSClientCA})
	if err != nil {
		return &ConfigError{Problems: []string{err.Error()}}
	}
	s.reloader.Now = s.clock.wall
	s.reloader.OnError = func(err error) {
		s.log.Error("the certificate was not replaced: the one before stays in use", "why", err)
	}
	return nil
}

// certificates is the TLS configuration of the open ports, nil on plaintext.
func (s *Server) certificates() *tls.Config {
	if s.reloader == nil {
		return nil
	}
	return s.reloader.Config()
}

func (s *Server) buildEngine() error {
	var store stateStore
	if s.cfg.StateDir != "" {
		var err error
		if s.state, err = openStateFile(s.cfg.StateDir); err != nil {
			return err
		}
		store = s.state
	}
	boot, err := readBootID()
	if err != nil {
		return err
	}
	gate, err := openGate(store, s.clock.now(), boot, s.cfg.TokenFloor)
	if err != nil {
		return err
	}
	notifier, err := newNotifier(s.cfg.NotifySocket, s.cfg.Watchdog)
	if err != nil {
		return fmt.Errorf("connecting to the service manager's socket (NOTIFY_SOCKET): %w", err)
	}
	s.alone = &alone{gate: gate}
	e := &engine{
		clock: s.clock, authority: s.alone, leadership: standalone(), notifier: notifier, events: newEvents(s.clock, s.log), sessions: make([]*conn, 1),
		welcomer: welcomer{legacy: s.cfg.Legacy, inFlight: uint32(s.cfg.MaxInFlight)},
	}
	var seed [32]byte
	rand.Read(seed[:])
	e.owners = mrand.NewChaCha8(seed)
	rand.Read(e.welcomer.domain[:])
	e.welcomer.tokens.Store(auth.NewTokens(s.cfg.clientTokens()...))
	e.manager = lock.NewManager(lock.Config{
		Limits: lock.Limits{
			Keys: s.cfg.MaxKeys, Waiters: s.cfg.MaxWaiters, WaitersPerKey: s.cfg.MaxWaitersPerKey, InFlight: s.cfg.MaxInFlight,
		},
		Seed: maphash.MakeSeed(), TokenBase: gate.tokenBase(), Log: s.alone, Sink: e,
	})
	s.alone.manager = e.manager
	e.noteReadiness(s.clock.mono())
	e.progress.Store(s.clock.mono())
	s.engine = e
	return nil
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

// release gives back what build got, when it or Run ends.
func (s *Server) release() {
	if s.acceptor != nil {
		s.acceptor.port.close()
	}
	if s.admin != nil {
		s.admin.close()
	}
	if s.engine != nil {
		s.engine.notifier.end()
	}
	if s.state != nil {
		s.state.close()
	}
}

// Addr is the address on which clients are served.
func (s *Server) Addr() net.Addr { return s.addr }

// Run serves until ctx ends or Stop is called, then drains, and returns nil after a clean end.
func (s *Server) Run(ctx context.Context) error {
	go s.engine.events.run()
	writer := startStateWriter(s.written)
	s.alone.start = writer.start
	s.transport.run()
	go s.acceptor.run()
	s.admin.run()
	if why := s.alone.unready(s.clock.mono()); why != "" {
		s.log.Warn("acquires are refused for now", "why", why)
	}
	s.log.Info("serving", "clients", s.addr.String(), "admin", s.adminText(), "tls", s.reloader != nil, "pid", os.Getpid())
	dropStartPages()
	s.engine.notifier.ready()
	select {
	case <-ctx.Done():
	case <-s.stop:
	}
	s.drain()
	return s.end(writer)
}

// written takes the outcome of a write of the state file.
func (s *Server) written(err error) {
	s.engine.batch(&s.self, func(now lock.Time) {
		s.alone.written(now, err)
		s.engine.noteReadiness(now.Mono)
	})
}

// Stop makes Run drain and return.
func (s *Server) Stop() { s.stopping.Do(func() { close(s.stop) }) }

// Kill makes Run return without waiting for holders.
func (s *Server) Kill() {
	s.killing.Do(func() { close(s.kill) })
	s.Stop()
}

// drain stops accepting, sends the waiters away, and waits until no connected client holds a key, or for the drain time-out.
func (s *Server) drain() {
	s.engine.notifier.stopping()
	s.acceptor.stop()
	drained := make(chan struct{})
	s.engine.batch(&s.self, func(now lock.Time) {
		s.engine.manager.Drain(now)
		s.engine.draining, s.engine.drained = true, drained
		s.engine.noteReadiness(now.Mono)
	})
	s.log.Info("stopping: waiting for clients to give back what they hold", "at_most", s.cfg.DrainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	select {
	case <-drained:
	case <-ctx.Done():
	case <-s.kill:
	}
}

// end closes everything. Connections go before the last record of the state file is made, so that no grant comes after it.
func (s *Server) end(writer *stateWriter) error {
	s.transport.stop()
	var last stateWrite
	var keep bool
	s.engine.batch(&s.self, func(now lock.Time) {
		end, _ := s.engine.manager.LatestLeaseEnd()
		last, keep = s.alone.final(now, end)
	})
	if keep {
		writer.start(last)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	err := writer.stop(ctx)
	s.admin.stop()
	s.engine.events.stop()
	held := s.engine.manager.Stats().Held
	s.release()
	if err != nil {
		return errors.Join(errors.New("writing the state file at the end: the next start will wait for leases to end"), err)
	}
	s.log.Info("stopped", "still_held", held)
	return nil
}

// Reload reads secrets and certificates again. What cannot be read stays as it was, and is in the error.
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
	}
	return errors.Join(problems...)
}
