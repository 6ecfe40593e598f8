package server

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// legacySession is what the server remembers for a connection that speaks v0, whose requests carry neither an owner nor a
// token: which of its calls are unanswered, and which grants of each key are its own.
type legacySession struct {
	keys   map[string]*legacyKey
	calls  map[uint64]*legacyCall // those that the manager has yet to answer, by owner
	open   int                    // unanswered calls, including those whose outcome waits behind an older call's
	grants int                    // remembered grants of all keys
	room   *legacyRoom            // shared by all sessions
	sweep  int                    // number of remembered grants at which the expired ones are dropped
	// squeezeAt is the mono ns before which making room for another grant is not tried again.
	squeezeAt int64
}

// legacyKey is one key of one v0 connection.
type legacyKey struct {
	name               string
	acquires, releases []*legacyCall // unanswered, oldest first: clients match replies by operation and key, in order
	grants             []legacyGrant // granted to this connection and not released, oldest first
}

// legacyCall is a request that waits for its own outcome, or for an older call's answer.
type legacyCall struct {
	key     *legacyKey
	release bool
	lease   uint32  // ms, of an acquire
	outcome wire.Op // 0 while it is open
	token   uint64
	ref     uint32
	grant   legacyGrant // of a release: what it gives back
}

// legacyGrant is a grant that a later v0 release of the key can mean.
type legacyGrant struct {
	owner, token uint64
	forget       int64 // mono ns after which a release no longer means it
}

func newLegacySession(room *legacyRoom) *legacySession {
	return &legacySession{keys: map[string]*legacyKey{}, calls: map[uint64]*legacyCall{}, room: room, sweep: minSweep}
}

// consumeLegacy is the request path of v0.
func (e *engine) consumeLegacy(now lock.Time, c *conn, data []byte) (rest []byte) {
	var r wire.LegacyRequest
	for len(data) > 0 {
		n, err := wire.DecodeLegacyRequest(data, &r)
		if err != nil || c.legacy.open > int(e.welcomer.inFlight) {
			e.events.malformed(c.remote)
			e.closeSession(now, c)
			c.sayLegacy(wire.Malformed)
			c.state = stateClosing
			return nil
		}
		if n == 0 {
			return data
		}
		switch {
		case r.Op == wire.OpKeepAlive:
		case !e.leadership.serving:
			c.moved(e)
		case r.Op == wire.OpAcquire:
			e.legacyAcquire(now, c, &r)
		default:
			e.legacyRelease(now, c, &r)
		}
		data = data[n:]
	}
	return nil
}

// sayLegacy appends an E line.
func (c *conn) sayLegacy(f wire.Failure) {
	o := c.box()
	o.bytes = wire.AppendLegacyError(o.bytes, f.String())
}

func (e *engine) legacyAcquire(now lock.Time, c *conn, r *wire.LegacyRequest) {
	l := c.legacy
	k := l.key(r.Key)
	call := &legacyCall{key: k, lease: uint32(r.LeaseSeconds) * 1000}
	k.acquires = append(k.acquires, call)
	l.open++
	if !e.mayRemember(now.Mono, l) {
		call.outcome = wire.OpTimeout
		l.settle(c, k)
		return
	}
	if f, ok := checkLegacyAcquire(r); !ok {
		if f == wire.InvalidKey {
			e.events.badLegacyKey(c.remote)
		}
		c.sayLegacy(f)
		call.outcome = wire.OpTimeout
		l.settle(c, k)
		return
	}
	wait := min(r.WaitSeconds, wire.MaxLegacyWaitSeconds)
	if wait == 0 {
		wait = wire.MaxLegacyWaitSeconds
	}
	owner := l.freshOwner(e.owners)
	l.calls[owner] = call
	e.request = wire.Request{Op: wire.OpAcquire, Wait: uint32(wait) * 1000, Lease: call.lease, Owner: owner, Key: r.Key}
	e.manager.Acquire(now, c.session, &e.request)
}

func checkLegacyAcquire(r *wire.LegacyRequest) (wire.Failure, bool) {
	if !wire.ValidKey(r.Key) {
		return wire.InvalidKey, false
	}
	if r.LeaseSeconds < wire.MinLegacyLeaseSeconds || r.LeaseSeconds > wire.MaxLegacyLeaseSeconds {
		return wire.InvalidLease, false
	}
	return 0, true
}

// freshOwner draws the owner of a v0 acquire at random, so that no v1 release guesses it.
func (l *legacySession) freshOwner(random *rand.ChaCha8) uint64 {
	for {
		owner := random.Uint64()
		if owner != 0 && l.calls[owner] == nil {
			return owner
		}
	}
}

func (e *engine) legacyRelease(now lock.Time, c *conn, r *wire.LegacyRequest) {
	l := c.legacy
	k := l.key(r.Key)
	call := &legacyCall{key: k, release: true}
	k.releases = append(k.releases, call)
	l.open++
	l.count(-k.forget(now.Mono))
	if !wire.ValidKey(r.Key) {
		e.events.badLegacyKey(c.remote)
		c.sayLegacy(wire.InvalidKey)
	}
	if len(k.grants) == 0 {
		call.outcome = wire.OpNotHeld
		l.settle(c, k)
		return
	}
	g := k.grants[0]
	k.grants = k.grants[1:]
	l.count(-1)
	call.grant = g
	l.calls[g.owner] = call
	e.request = wire.Request{Op: wire.OpRelease, Owner: g.owner, Token: g.token, Key: r.Key}
	e.manager.Release(now, c.session, &e.request)
}

// answer takes the manager's reply to one of the session's calls.
func (l *legacySession) answer(e *engine, now lock.Time, c *conn, r *lock.Reply) {
	call := l.calls[r.Owner]
	if call == nil {
		if r.Op == wire.OpGranted { // to a call that the client has given up
			e.post(mail{to: c, kind: mailTakeBack, reply: lock.Reply{Ref: r.Ref, Token: r.Token}})
		}
		return
	}
	delete(l.calls, r.Owner)
	call.outcome, call.token, call.ref = r.Op, r.Token, r.Ref
	if r.Op == wire.OpBusy {
		if call.release { // nothing happened: the grant is still there for the next attempt
			call.key.grants = append(call.key.grants, call.grant)
			slices.SortFunc(call.key.grants, func(a, b legacyGrant) int { return cmp.Compare(a.token, b.token) })
			l.count(1)
		} else {
			call.outcome = wire.OpTimeout
		}
	}
	if r.Op == wire.OpGranted {
		call.key.grants = append(call.key.grants, legacyGrant{
			owner: r.Owner, token: r.Token, forget: now.Mono + int64(call.lease)*int64(time.Millisecond) + legacyMemory,
		})
		l.count(1)
		l.maybeSweep(now.Mono)
	}
	l.settle(c, call.key)
}

// settle sends the outcomes of k's calls, of each operation up to the first call that is still open: clients match replies in
// order. A granted acquire never waits here, for the manager serves one connection's acquires of a key in order.
func (l *legacySession) settle(c *conn, k *legacyKey) {
	k.acquires = l.settleQueue(c, k, k.acquires)
	k.releases = l.settleQueue(c, k, k.releases)
	l.maybeDrop(k)
}

func (l *legacySession) settleQueue(c *conn, k *legacyKey, queue []*legacyCall) (rest []*legacyCall) {
	for len(queue) > 0 && queue[0].outcome != 0 {
		c.tellLegacy(k, queue[0])
		queue[0] = nil
		queue = queue[1:]
		l.open--
	}
	if len(queue) == 0 {
		return nil
	}
	return queue
}

// tellLegacy appends the answer to one call.
func (c *conn) tellLegacy(k *legacyKey, call *legacyCall) {
	o := c.box()
	switch call.outcome {
	case wire.OpBusy: // of a release: the client tries again elsewhere
		o.bytes = wire.AppendLegacyError(o.bytes, wire.LegacyNotActive)
	case wire.OpError: // the outcome is unknown, and no line of v0 says that: a T could be untrue
		c.doomed = true
	default:
		o.bytes = wire.AppendLegacyReply(o.bytes, &wire.LegacyReply{Op: call.outcome, Token: call.token, Text: []byte(k.name)})
	}
	if call.outcome == wire.OpGranted {
		o.grants = append(o.grants, sentMark{end: len(o.bytes), ref: call.ref, token: call.token})
	}
}

// maybeDrop forgets k if nothing is left to remember of it.
func (l *legacySession) maybeDrop(k *legacyKey) {
	if len(k.acquires)+len(k.releases)+len(k.grants) == 0 {
		delete(l.keys, k.name)
	}
}

// key returns the record of a key, making it if needed.
func (l *legacySession) key(name []byte) *legacyKey {
	k := l.keys[string(name)]
	if k == nil {
		k = &legacyKey{name: string(name)}
		l.keys[k.name] = k
	}
	return k
}
