package client

import (
	"log/slog"
	"slices"
	"time"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 3200 * time.Millisecond
	shortLived = time.Second // a session that lived for less counts as a failure to connect
)

// peer is an address that this client keeps dialling. Its goroutine dials, shakes hands, and then reads the session to its end.
type peer struct {
	b      *Broker
	addr   string
	hinted bool          // named by a node, not in Config.Addrs
	soon   chan struct{} // cuts a pause short; holds one

	// guarded by b.mu
	session  *session
	err      error // of the last attempt or session
	stranger bool  // the last attempt met a serving node of another domain
}

// addPeer starts to dial addr. b.mu is held.
func (b *Broker) addPeer(addr string, hinted bool) {
	if b.closed {
		return
	}
	p := &peer{b: b, addr: addr, hinted: hinted, soon: make(chan struct{}, 1)}
	b.peers = append(b.peers, p)
	b.tasks.Go(p.run)
}

// hurry makes the peer dial now if it is pausing.
func (p *peer) hurry() {
	select {
	case p.soon <- struct{}{}:
	default:
	}
}

func (p *peer) run() {
	failures := 0
	for {
		lived := p.attempt()
		if lived >= shortLived {
			failures = 0
		}
		if p.retire() {
			return
		}
		if !p.pause(failures) {
			return
		}
		failures++
	}
}

// attempt dials once and serves the session to its end. It returns how long that lived, 0 if there was none.
func (p *peer) attempt() (lived time.Duration) {
	b := p.b
	if h := b.set.hooks.Dial; h != nil {
		h(p.addr)
	}
	began := b.sys.clock.Now()
	g, err := b.connect(b.dialing, p.addr)
	opened := b.sys.clock.Now()

	var s *session
	var level slog.Level
	moved := false
	b.mu.Lock()
	b.stats.Dials++
	p.stranger = false
	if err == nil {
		s, moved, err = p.open(g, opened)
	}
	if err != nil {
		level = p.failed(err)
	}
	domain := b.domain
	b.unlock()

	if err != nil {
		if g != nil {
			g.raw.Close()
		}
		if b.dialing.Err() == nil {
			b.set.log.Log(b.dialing, level, "no connection", "addr", p.addr, "reason", err)
		}
		return 0
	}
	if moved {
		b.set.log.Warn("the domain before is over, another has taken its place", "addr", p.addr, "domain", domain.String())
	}
	b.set.log.Info("connected", "addr", p.addr, "serving", s.role == roleServing, "domain", domain.String())
	if h := b.set.hooks.Connect; h != nil {
		h(p.addr, opened-began)
	}
	err = s.serve()
	b.set.log.Warn("connection ended", "addr", p.addr, "reason", err)
	if h := b.set.hooks.Disconnect; h != nil {
		h(p.addr, err)
	}
	return b.sys.clock.Now() - opened
}

// open makes the session of a connection whose node has proved itself, unless its domain is refused. moved is admit's. b.mu is held.
func (p *peer) open(g *greeted, now time.Duration) (s *session, moved bool, err error) {
	b := p.b
	moved, err = b.admit(p, g, now)
	if err == nil && b.closed {
		err = ErrClosed
	}
	if err != nil {
		return nil, false, err
	}
	s = newSession(p, g, now)
	b.sessions = append(b.sessions, s)
	p.session, p.err = s, nil
	if leader, bad := address(g.leader); bad == nil {
		if b.term == 0 { // a welcome names no term: any hint with one is worth more
			b.leader, b.hinted = leader, now
		}
		b.seek(leader)
	}
	b.reroute(now)
	b.tasks.Go(s.write)
	return s, moved, nil
}

// failed notes that an attempt has ended without a session, and returns the level at which to log that: an address that stays down
// is worth one warning. b.mu is held.
func (p *peer) failed(err error) slog.Level {
	p.b.stats.DialFailures++
	level := slog.LevelWarn
	if p.err != nil && p.err.Error() == err.Error() {
		level = slog.LevelDebug
	}
	p.err = err
	p.b.announce()
	return level
}

// retire reports whether the peer is to be given up: an address from a hint is dialled again only while the hint stands.
func (p *peer) retire() bool {
	b := p.b
	b.mu.Lock()
	defer b.unlock()
	if b.closed {
		return true
	}
	if !p.hinted || b.leader == p.addr {
		return false
	}
	b.peers = slices.DeleteFunc(b.peers, func(other *peer) bool { return other == p })
	return true
}

// pause waits before the next attempt, longer after each failure. It returns false when the Broker is closed.
func (p *peer) pause(failures int) bool {
	delay := maxBackoff
	if failures < 5 {
		delay = minBackoff << failures
	}
	// Between half of it and all of it, so that the clients of a server that comes back do not come all at once.
	delay -= time.Duration(p.b.sys.random() * float64(delay) / 2)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.soon:
	case <-p.b.dialing.Done():
		return false
	}
	return true
}
