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
	// hintPatience is how long a connected node that others name as the leader may take to say so itself.
	hintPatience = time.Second
)

// reroute works out anew where requests go: to the leader that the newest hint names, or else in turn to all nodes that
// say they serve. It must be called after any change of sessions, their roles or the hint. b.mu is held.
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

// route returns the session for the next request, or nil. An acquire needs a session with room for it; sessions whose writer
// is not stuck are preferred. b.mu is held.
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
	// A node knows whether it leads itself, but a claim to lead in a term that is over is void.
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

// askAgain ends the sessions that are older than the hint, once for each hint, while nobody serves: one of them may lead
// without having said so, and its next welcome tells its role. That is how a leader is found whose advertised address differs
// from the one that we dial. b.mu is held.
func (b *Broker) askAgain() {
	for _, s := range b.sessions {
		if s.opened < b.hinted {
			s.end(fmt.Errorf("asking for its role again: %s is said to lead and nobody serves", b.leader))
		}
	}
}

// obstacles says, for each address, why no serving node is reached there. b.mu is held.
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
			hint := "is it the client port?"
			if b.set.tls == nil {
				hint = "is it the client port? if the server speaks TLS, set TLS"
			}
			err = fmt.Errorf("connect to %s: no answer yet (%s)", p.addr, hint)
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

// refusedEverywhere reports whether waiting is pointless: every peer's last attempt ended with a refused proof, token or
// certificate. b.mu is held.
func (b *Broker) refusedEverywhere() bool {
	for _, p := range b.peers {
		if p.session != nil || !errors.Is(p.err, ErrAuth) {
			return false
		}
	}
	return true
}

// obstacles are several errors, none of which caused another.
type obstacles []error

func (o obstacles) Error() string {
	texts := make([]string, len(o))
	for i, err := range o {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (o obstacles) Unwrap() []error { return o }
