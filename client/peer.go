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

// peer is an address that is dialled again and again. Its goroutine dials, shakes hands and then reads the session.
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

// hurry has the peer dial now if it pauses.
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

// attempt dials once and serves the session to its end. lived is 0 if none came about.
func (p *peer) attempt() (lived time.Duration) {
	b := p.b
	if h := b.set.hooks.Dial; h != nil {
		h(p.addr)
	}
	began := b.sys.clock.Now()
	g, err := b.connect(b.dialing, p.addr)
	opened := b.sys.clock.Now()

	b.mu.Lock()
	b.stats.Dials++
	var s *session
	var level slog.Level
	moved := false
	if err == nil {
		moved, err = b.admit(p, g, opened)
		if err == nil && b.closed {
			err = ErrClosed
		}
	} else {
		p.stranger = false
	}
	if err == nil {
		s = newSession(p, g, opened)
		b.sessions = append(b.sessions, s)
		p.session, p.err = s, nil
		if leader, bad := address(g.leader); bad == nil {
			if b.term == 0 { // a welcome names no term: any hint with one is worth more
				b.leader, b.hinted = leader, opened
			}
			b.seek(leader)
		}
		b.reroute(opened)
		b.tasks.Go(s.write)
	} else {
		b.stats.DialFailures++
		level = slog.LevelDebug
		if p.err == nil || p.err.Error() != err.Error() {
			level = slog.LevelWarn // once: an address that stays down does not fill the log
		}
		p.err = err
		b.announce()
	}
	domain := b.domain
	b.unlock()

	if s == nil {
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

// retire reports whether the peer is done with: a hinted address is not dialled again unless it is named still.
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
	// Between half and the whole of it, so that the clients of a server that comes back do not come all at once.
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
