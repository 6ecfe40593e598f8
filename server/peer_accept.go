package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// accept takes connections from the peer port until close.
func (t *peerTransport) accept() {
	defer t.running.Done()
	for {
		tcp, err := t.listener.AcceptTCP()
		switch {
		case err == nil:
			t.admitUnproved(tcp)
		case t.over():
			return
		case errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.EINTR):
		default:
			t.events.acceptFailed(err)
			if !t.pause(t.ctx, acceptRetryDelay, nil) {
				return
			}
		}
	}
}

// admitUnproved gives a connection a place in which to prove the cluster secret.
func (t *peerTransport) admitUnproved(tcp *net.TCPConn) {
	c := newPeerConn(t, tcp)
	source := c.intro().remote.Addr()
	member := t.isMemberAddr(source)
	t.mu.Lock()
	victim, ok := t.places.enter(c, source, member, t.clock.mono())
	t.mu.Unlock()
	if victim != nil {
		victim.close()
	}
	if !ok {
		t.events.peerPlacesTaken(c.intro())
		c.close()
		return
	}
	if !t.track(c) {
		return
	}
	t.running.Add(1)
	go t.serve(c)
}

// isMemberAddr reports whether a is an address of a peer, as it was resolved last.
func (t *peerTransport) isMemberAddr(a netip.Addr) bool {
	for _, d := range *t.dialers.Load() {
		if d.hasAddr(a) {
			return true
		}
	}
	return false
}

// serve runs an accepted connection to its end.
func (t *peerTransport) serve(c *peerConn) {
	defer t.running.Done()
	defer t.untrack(c)
	err := t.handshake(c)
	t.mu.Lock()
	t.places.leave(c)
	t.mu.Unlock()
	if err != nil {
		t.events.peerHandshakeFailed(c, err)
		return
	}
	if c.intro().role == wire.PeerRolePeer {
		err = t.servePeer(c)
	} else {
		err = t.serveRequests(c)
	}
	if !t.over() {
		t.events.peerEnded(c, err)
	}
}

// handshake lets the other side prove the cluster secret. After a failure it waits a little, so that the refusal can arrive.
func (t *peerTransport) handshake(c *peerConn) error {
	limit := t.limits.handshake
	c.tcp.SetDeadline(deadlineIn(limit))
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	if err := c.secure(ctx, t.tlsServer(c.tcp)); err != nil {
		var record tls.RecordHeaderError
		if errors.As(err, &record) && record.Conn != nil { // plaintext came, so plaintext is understood
			c.shake.refuse(peerRefusal{reason: raft.RefuseTLS, text: tlsAdvice})
			c.drain()
		}
		return err
	}
	err := c.shake.accept()
	if err != nil {
		c.drain()
	}
	return err
}

// servePeer carries the frames of another node until the connection ends.
func (t *peerTransport) servePeer(c *peerConn) error {
	if err := c.start(t.reader); err != nil {
		return err
	}
	if why := t.letIn(c); why.reason != raft.RefuseNone {
		t.events.peerRefused(c.intro(), &why)
		c.refuse(why)
		c.carry()
		return nil
	}
	err := c.carry()
	c.close()
	close(c.done)
	t.turnover.Lock()
	defer t.turnover.Unlock()
	if t.forget(c) {
		t.driver.ended(c.intro())
	}
	return err
}

// mostStrangers bounds the accepted connections of the role peer with processes that this node does not dial: first nodes and newcomers
// that it does not know as members yet, and whoever else has the cluster secret.
const mostStrangers = 16

// letIn asks the driver whether to let c in, and asks again if a member was dropped meanwhile, because that may have been this one. If
// c is let in, it replaces an older connection of the same pair.
func (t *peerTransport) letIn(c *peerConn) (why peerRefusal) {
	t.turnover.Lock()
	defer t.turnover.Unlock()
	for drops := -1; ; {
		t.mu.Lock()
		if t.drops == drops {
			break // still what the driver has decided about
		}
		drops = t.drops
		t.mu.Unlock()
		if why = t.driver.admit(c.intro()); why.reason != raft.RefuseNone {
			return why
		}
	}
	if !t.hasRoom(c.intro().Sender) {
		t.mu.Unlock()
		return peerRefusal{reason: raft.RefuseOverloaded}
	}
	old := t.accepted[c.intro().Sender]
	t.accepted[c.intro().Sender] = c
	t.noteAnswered()
	t.mu.Unlock()
	if old != nil {
		old.close()
		<-old.done
	}
	for _, d := range *t.dialers.Load() {
		d.heardFrom(c.intro().Sender)
	}
	return why
}

// hasRoom reports whether m may have a connection of the role peer. Called with mu held.
func (t *peerTransport) hasRoom(m raft.Member) bool {
	if t.accepted[m] != nil || t.isTarget(m) {
		return true
	}
	strangers := 0
	for other := range t.accepted {
		if !t.isTarget(other) {
			strangers++
		}
	}
	return strangers < mostStrangers
}

// isTarget reports whether this node dials m.
func (t *peerTransport) isTarget(m raft.Member) bool {
	return slices.ContainsFunc(*t.dialers.Load(), func(d *peerDialer) bool { return d.target.member == m })
}

// forget removes c from accepted. It reports false if a newer connection of the same pair has replaced c there.
func (t *peerTransport) forget(c *peerConn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.accepted[c.intro().Sender] != c {
		return false
	}
	delete(t.accepted, c.intro().Sender)
	t.noteAnswered()
	return !t.closed
}

// noteAnswered lists the connections that replies go over. Called with mu held.
func (t *peerTransport) noteAnswered() {
	var conns []*peerConn
	for _, c := range t.accepted {
		if c.intro().bound() {
			conns = append(conns, c)
		}
	}
	t.answered.Store(&conns)
}

// serveRequests answers the requests of a command or of a joining process until the connection ends.
func (t *peerTransport) serveRequests(c *peerConn) error {
	if err := c.start(nil); err != nil {
		return err
	}
	if why := t.mayAsk(c.intro()); why.reason != raft.RefuseNone {
		t.events.peerRefused(c.intro(), &why)
		c.refuse(why)
		c.read(nil)
		return nil
	}
	defer func() {
		t.mu.Lock()
		t.requests--
		t.mu.Unlock()
	}()
	c.tcp.SetReadDeadline(deadlineIn(t.limits.idleRequests))
	return c.read(func(frames []wire.PeerFrame) error {
		c.tcp.SetReadDeadline(deadlineIn(t.limits.idleRequests))
		for _, f := range frames {
			if err := t.request(c, f); err != nil {
				return err
			}
		}
		return nil
	})
}

// mayAsk decides whether a connection of the role join or control may stay, and counts it if so. A command need not know the domain.
func (t *peerTransport) mayAsk(in *peerIntroduction) (why peerRefusal) {
	if in.role == wire.PeerRoleJoin {
		why = t.driver.admit(in)
	} else if id := t.driver.identity(in.Sender); in.Domain != (raft.Domain{}) && in.Domain != id.domain {
		why.reason = raft.RefuseDomain
	}
	if why.reason != raft.RefuseNone {
		return why
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == mostRequestConns {
		return peerRefusal{reason: raft.RefuseOverloaded}
	}
	t.requests++
	return why
}

func (t *peerTransport) request(c *peerConn, f wire.PeerFrame) error {
	if f.Type != wire.PeerTypeControl {
		return c.endedBy(&f)
	}
	r, err := wire.DecodeControlRequest(f.Body)
	if err != nil {
		return err
	}
	if !r.Kind.AllowedIn(c.intro().role) {
		return fmt.Errorf("%w: a request for %v on a connection of the role %v", errPeerUnexpected, r.Kind, c.intro().role)
	}
	id := f.RequestID
	t.driver.control(c.intro(), r, func(reply *wire.ControlReply) {
		if !c.queue.add(wire.PeerTypeControlReply, id, func(dst []byte) []byte { return wire.AppendControlReply(dst, reply) }) {
			c.close() // whoever asked must not wait for what cannot be sent
			return
		}
		c.wake()
	})
	return nil
}

// pause waits for d, or for early. It reports false when ctx is over.
func (t *peerTransport) pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-early:
	case <-timer.C:
	}
	return true
}
