package server

import (
	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// leadership is what clients are told about who serves.
type leadership struct {
	serving bool   // this node: alone, or the leader of an open domain
	leader  string // the client address of another node that leads, as far as this one knows; "" for none
	term    uint64
}

// standalone is the leadership of a server that is nobody's follower.
func standalone() leadership { return leadership{serving: true} }

// setLeadership takes notice of who leads. When that has changed every session is told, before anything else is: a hint where
// to go precedes a B not_leader. Called inside a batch.
func (e *engine) setLeadership(now lock.Time, l leadership) {
	if e.leadership == l {
		return
	}
	moved := e.leadership.leader != l.leader || e.leadership.serving != l.serving
	e.leadership = l
	if !moved {
		return
	}
	for _, c := range e.sessions {
		switch {
		case c == nil:
		case c.shard == e.current:
			c.moved(e)
		default:
			e.post(mail{to: c, kind: mailMoved})
		}
	}
}

// moved tells c where to go: a node that serves names itself, for its client may have been told by its welcome that it does
// not. To a v0 client any such line means to go elsewhere, so it is told nothing then.
func (c *conn) moved(e *engine) {
	l := &e.leadership
	leader := l.leader
	if l.serving {
		leader = e.welcomer.clientAddr
	}
	switch {
	case c.state != stateOpen:
	case c.legacy == nil:
		o := c.box()
		o.bytes = wire.AppendReply(o.bytes, &wire.Reply{Op: wire.OpMoved, Token: l.term, Text: []byte(leader)})
	case !l.serving:
		c.legacy.moved(e, c)
	}
}

// moved tells a v0 client where to go. It gives up all its calls then and makes them anew elsewhere; an answer to one of them
// would be taken for one to a later call. So they are forgotten here too.
func (l *legacySession) moved(e *engine, c *conn) {
	for name, k := range l.keys {
		k.acquires, k.releases = nil, nil
		if len(k.grants) == 0 {
			delete(l.keys, name)
		}
	}
	clear(l.calls)
	l.open = 0
	o := c.box()
	if leader := e.leadership.leader; leader != "" {
		o.bytes = wire.AppendLegacyReply(o.bytes, &wire.LegacyReply{Op: wire.OpMoved, Text: []byte(leader)})
	} else {
		o.bytes = wire.AppendLegacyError(o.bytes, wire.LegacyNoLeader)
	}
}
