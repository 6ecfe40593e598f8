package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ticketing.internal/wire"
)

const (
	roleServing = wire.RoleServing
	// maxHinted bounds the addresses outside Config.Addrs that are dialled because a node named them as the leader.
	maxHinted = 8
	// hintPatience is how long a named leader that is connected may take to say itself that it serves.
	hintPatience = time.Second
)

// reroute works out anew where requests go: to the leader that the newest hint names, or else in turn to all that
// say they serve. To be called after any change of sessions, their roles or the hint. b.mu is held.
func (b *Broker) reroute(now time.Duration) {
	before := len(b.routes)
	b.routes = b.routes[:0]
	led := b.leader != "" && slices.ContainsFunc(b.sessions, func(s *session) bool { return s.serving && s.peer.addr == b.leader })
	for _, s := range b.sessions {
		if s.serving && (!led || s.peer.addr == b.leader) {
			b.routes = append(b.routes, s)
		}
	}
	if before > 0 && len(b.routes) == 0 {
		b.lastServed = now
		b.sweepBy(now + hintPatience)
	}
	b.announce()
	b.unpark(now)
}

func (b *Broker) servingSessions() (n int) {
	for _, s := range b.sessions {
		if s.serving {
			n++
		}
	}
	return n
}

// route returns where the next request goes, nil if nowhere. An acquire needs a session with room for it, and one
// whose writer is not stuck is better. b.mu is held.
func (b *Broker) route(forAcquire bool, now time.Duration) (best *session) {
	for range b.routes {
		b.next++
		s := b.routes[b.next%len(b.routes)]
		switch {
		case forAcquire && len(s.calls) >= s.inFlight:
		case !s.stuck(now):
			return s
		case best == nil:
			best = s
		}
	}
	return best
}

// unpark sends what waited for a serving node, if there is one now. b.mu is held.
func (b *Broker) unpark(now time.Duration) {
	if len(b.routes) == 0 {
		return
	}
	for _, r := range b.releases {
		if r.session == nil && r.retryAt <= now {
			b.placeRelease(r, now)
		}
	}
	calls := b.parked
	b.parked = nil
	for _, c := range calls {
		if c.abandoned {
			b.recycle(c)
		} else {
			b.place(c, now)
		}
	}
}

// redirect is a hint that was taken, for the hook and the log.
type redirect struct {
	from, leader string
	term         uint64
}

// moved takes an M of session s: its node's idea of the leader. b.mu is held.
func (b *Broker) moved(s *session, leader string, term uint64, now time.Duration) (taken bool) {
	if leader != "" {
		var err error
		if leader, err = address(leader); err != nil {
			return false
		}
	}
	// Of itself a node knows, but a claim to lead in a term that is over is void.
	s.serving = leader == s.peer.addr && term >= b.term
	if term >= b.term && (term != b.term || leader != b.leader) {
		taken = true
		b.leader, b.term, b.hinted = leader, term, now
		b.stats.Redirects++
		if leader != "" {
			b.seek(leader)
		}
		b.sweepBy(now + hintPatience)
	}
	b.reroute(now)
	if !s.serving && leader != "" {
		b.moveReleases(s, now)
	}
	return taken
}

// seek makes sure that a named leader is dialled, and soon. b.mu is held.
func (b *Broker) seek(leader string) {
	hinted := 0
	for _, p := range b.peers {
		if p.addr == leader {
			if p.session == nil {
				p.hurry()
			}
			return
		}
		if p.hinted {
			hinted++
		}
	}
	if hinted < maxHinted {
		b.addPeer(leader, true)
	}
}

// askAgain ends, once a hint, the sessions that are older than the hint and may lead without having said so, while
// nobody serves: their next welcome tells their role. A leader whose advertised address differs from the one that
// we dial is found so. b.mu is held.
func (b *Broker) askAgain() {
	for _, s := range b.sessions {
		if s.opened < b.hinted {
			s.end(fmt.Errorf("asking for its role again: %s is said to lead and nobody serves", b.leader))
		}
	}
}

// obstacles is what stands between each address and a serving node. b.mu is held.
func (b *Broker) obstacles() error {
	var list obstacles
	if b.twoDomains() {
		list = append(list, errTwoDomains)
	}
	for _, p := range b.peers {
		var err error
		switch {
		case p.session != nil && p.session.serving:
			continue
		case p.session != nil:
			err = fmt.Errorf("%s: connected, and does not serve", p.addr)
		case p.err != nil:
			err = p.err
		default:
			hint := ""
			if b.set.tls == nil {
				hint = " (if the server speaks TLS, set TLS)"
			}
			err = fmt.Errorf("connect to %s: no answer yet%s", p.addr, hint)
		}
		if !slices.ContainsFunc(list, func(e error) bool { return e.Error() == err.Error() }) {
			list = append(list, err)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// refusedEverywhere reports whether waiting is in vain: every peer's last attempt ended in a refused proof,
// token or certificate. b.mu is held.
func (b *Broker) refusedEverywhere() bool {
	for _, p := range b.peers {
		if p.session != nil || !errors.Is(p.err, ErrAuth) {
			return false
		}
	}
	return true
}

// obstacles are errors that stand side by side.
type obstacles []error

func (o obstacles) Error() string {
	texts := make([]string, len(o))
	for i, err := range o {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (o obstacles) Unwrap() []error { return o }
