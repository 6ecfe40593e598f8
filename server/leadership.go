package server

import "ticketing.internal/wire"

// leadership is what clients are told about who serves.
type leadership struct {
	serving bool   // this node: alone, or the leader of an open domain
	leader  string // the client address of another node that leads, as far as this one knows; "" for none
	term    uint64
}

// standalone is the leadership of a server that is nobody's follower.
func standalone() leadership { return leadership{serving: true} }

// setLeadership notes who leads. If that has changed, every session is told before it is told anything else: the hint where to go
// precedes a B not_leader. Called inside a batch.
func (e *engine) setLeadership(l leadership) {
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

// moved tells c where to go. A node that serves names itself, because its welcome may have said that it does not serve. A v0 client
// would take any such line as a reason to go elsewhere, so it is told nothing then.
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

// moved tells a v0 client where to go. The client then gives up all its calls and makes them anew elsewhere, and it would take an
// answer to one of them for the answer to a later call. So they are forgotten here too.
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
