package server

import (
	"net/netip"
	"time"
)

const (
	// peerPlacesInAll is how many accepted connections may be in their handshake, and memberPlaces how many of them only
	// addresses of members can have.
	peerPlacesInAll = 64
	memberPlaces    = 16
	// peerGrace is how long a handshake is left alone when all places are taken.
	peerGrace = time.Second
)

// peerPlaces are the places of accepted connections whose other side has not proved the cluster secret yet: some for everybody,
// and some for the addresses of members alone, so that strangers cannot keep members out.
type peerPlaces struct {
	everybody, members []unproved // each oldest first
}

// unproved is a connection in its handshake.
type unproved struct {
	conn   *peerConn
	source netip.Addr
	since  int64 // mono ns
}

// enter gives c a place. If all are taken, victim has lost its own to c and is to be closed; ok is false if nobody can make
// room: then c is to be closed.
func (p *peerPlaces) enter(c *peerConn, source netip.Addr, member bool, now int64) (victim *peerConn, ok bool) {
	u := unproved{conn: c, source: source, since: now}
	if member && len(p.members) < memberPlaces {
		p.members = append(p.members, u)
		return nil, true
	}
	if len(p.everybody) < peerPlacesInAll-memberPlaces {
		p.everybody = append(p.everybody, u)
		return nil, true
	}
	list := &p.everybody
	i := evictable(*list, now)
	if i < 0 && member {
		list = &p.members
		i = evictable(*list, now)
	}
	if i < 0 {
		return nil, false
	}
	victim = (*list)[i].conn
	*list = append(append((*list)[:i], (*list)[i+1:]...), u)
	return victim, true
}

// evictable returns the place of the connection that has to make room: of those older than the grace, the oldest of the source
// with the most; -1 if there is none.
func evictable(list []unproved, now int64) int {
	found, most := -1, 0
	for i, u := range list {
		if now-u.since <= int64(peerGrace) {
			continue
		}
		n := 0
		for _, other := range list {
			if other.source == u.source {
				n++
			}
		}
		if n > most {
			found, most = i, n
		}
	}
	return found
}

// leave frees c's place, if it has one.
func (p *peerPlaces) leave(c *peerConn) {
	for _, list := range []*[]unproved{&p.everybody, &p.members} {
		for i, u := range *list {
			if u.conn == c {
				*list = append((*list)[:i], (*list)[i+1:]...)
				return
			}
		}
	}
}
