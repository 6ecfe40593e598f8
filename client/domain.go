package client

import (
	"errors"
	"fmt"
	"time"
)

// domainQuiet is how long a domain must have had no serving node before another domain may take its place.
const domainQuiet = 250 * time.Second

// errTwoDomains is why nothing is acquired while nodes of two domains serve.
var errTwoDomains = errors.New("two domains serve at once: some addresses lead to another server or cluster; correct them")

// unreleased counts the tickets for which Release has not been called, by the second in which their Deadline falls. A
// deadline lies less than 251 s ahead, so no two seconds that matter share a slot.
type unreleased struct {
	slots [256]struct {
		second int64
		n      int
	}
}

func (u *unreleased) add(deadline time.Duration) {
	second := int64(deadline / time.Second)
	slot := &u.slots[second%int64(len(u.slots))]
	if slot.second != second {
		slot.second, slot.n = second, 0 // what it counted is over
	}
	slot.n++
}

func (u *unreleased) remove(deadline time.Duration) {
	second := int64(deadline / time.Second)
	if slot := &u.slots[second%int64(len(u.slots))]; slot.second == second {
		slot.n--
	}
}

// any reports whether a ticket may be before its Deadline. It errs by up to a second, on the safe side.
func (u *unreleased) any(now time.Duration) bool {
	for i := range u.slots {
		if s := &u.slots[i]; s.n > 0 && time.Duration(s.second+1)*time.Second > now {
			return true
		}
	}
	return false
}

// admit decides whether a node that has proved itself is of an acceptable domain. moved is set when that domain takes the
// place of another. b.mu is held.
func (b *Broker) admit(p *peer, g *greeted, now time.Duration) (moved bool, err error) {
	switch {
	case b.set.domain != nil && g.domain != *b.set.domain:
		return false, fmt.Errorf("connect to %s: its domain is %s, and Config.Domain allows %s alone", p.addr, g.domain, *b.set.domain)
	case !b.met:
		b.met = true
		b.adopt(g.domain, now)
	case g.domain != b.domain:
		served := b.servingSessions() > 0
		if b.unreleased.any(now) || len(b.sessions) > 0 && (served || now-b.lastServed < domainQuiet) {
			p.stranger = g.role == roleServing
			b.announce()
			return false, fmt.Errorf("connect to %s: its domain is %s, and this client is in %s, which is not over: it has a connection, or tickets before their deadline", p.addr, g.domain, b.domain)
		}
		for _, s := range b.sessions {
			s.end(errors.New("its domain serves no more, and another has taken its place"))
		}
		b.adopt(g.domain, now)
		moved = true
	}
	return moved, nil
}

// adopt makes d the domain of the Broker. Terms of another mean nothing in it.
func (b *Broker) adopt(d domain, now time.Duration) {
	b.domain = d
	b.lastServed = now
	b.leader, b.term, b.hinted = "", 0, 0
	for _, p := range b.peers {
		p.stranger = false
	}
}

// twoDomains reports whether a node of another domain serves while one of ours does. Then it cannot be known which of the
// two is to be asked for a lock. b.mu is held.
func (b *Broker) twoDomains() bool {
	if len(b.routes) == 0 {
		return false
	}
	for _, p := range b.peers {
		if p.stranger {
			return true
		}
	}
	return false
}
