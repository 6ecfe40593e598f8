package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// peerDialer keeps this node connected to one target: one goroutine dials, makes the handshake, waits for the end, and dials again.
type peerDialer struct {
	// Immutable.
	t      *peerTransport
	target peerTarget
	ctx    context.Context
	cancel context.CancelFunc

	current atomic.Pointer[peerConn]     // what frames go over; nil while there is none
	addrs   atomic.Pointer[[]netip.Addr] // as the target's name was resolved last
	early   chan struct{}                // has a value when dialling at once is worthwhile
}

// peerDialLimit is how long one address may take to answer. Dialling again finds a healed path sooner than the kernel does, which
// doubles the time before each of its own attempts.
const peerDialLimit = 2 * time.Second

// startDialer begins to connect to target. Called with mu held.
func (t *peerTransport) startDialer(target peerTarget) *peerDialer {
	d := &peerDialer{t: t, target: target, early: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(t.ctx)
	t.running.Add(1)
	go d.run()
	return d
}

// usable returns the connection to send over, or nil.
func (d *peerDialer) usable() *peerConn {
	if c := d.current.Load(); c != nil && !c.ending.Load() {
		return c
	}
	return nil
}

// hasAddr reports whether a is among the target's addresses.
func (d *peerDialer) hasAddr(a netip.Addr) bool {
	addrs := d.addrs.Load()
	return addrs != nil && slices.Contains(*addrs, a)
}

// heardFrom notes that m has just connected to this node. If m is the target, a dial will probably succeed now.
func (d *peerDialer) heardFrom(m raft.Member) {
	if d.current.Load() == nil && (d.target.member == m || d.target.member.IsZero()) {
		select {
		case d.early <- struct{}{}:
		default:
		}
	}
}

// run keeps this node connected until it is cancelled.
func (d *peerDialer) run() {
	defer d.t.running.Done()
	defer d.cancel()
	wait := d.t.limits.backoffMin
	for {
		select {
		case <-d.early: // it was about the dial that follows
		default:
		}
		began := d.t.clock.mono()
		if d.connect() && d.t.clock.mono()-began >= int64(d.t.limits.backoffMax) {
			wait = d.t.limits.backoffMin
		}
		if !d.t.pause(d.ctx, d.t.spread(wait), d.early) {
			return
		}
		wait = min(2*wait, d.t.limits.backoffMax)
	}
}

// spread draws a time between half of most and most, so that nodes do not dial in step.
func (t *peerTransport) spread(most time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return most/2 + time.Duration(t.jitter.Int64N(int64(most/2)+1))
}

// connect makes one connection and keeps it until it ends. It reports whether the other side let this node in.
func (d *peerDialer) connect() bool {
	t := d.t
	ctx, cancel := context.WithTimeout(d.ctx, t.limits.handshake)
	defer cancel()
	tcp, host, err := dialPeer(ctx, &t.limits, d.target.addr, func(addrs []netip.Addr) { d.addrs.Store(&addrs) })
	if err != nil {
		if d.ctx.Err() == nil {
			t.setLost(d.target.addr, true)
			t.events.peerUnreachable(d.target.addr, err)
		}
		return false
	}
	c := newPeerConn(t, tcp)
	c.intro().dialled = d.target.addr
	if !t.track(c) {
		return false
	}
	defer t.untrack(c)
	defer context.AfterFunc(d.ctx, c.close)()
	c.tcp.SetDeadline(deadlineIn(t.limits.handshake))
	var session *tls.Conn
	if t.tls != nil {
		session = tls.Client(tcp, t.tls.PeerClient(host))
	}
	if err = c.secure(ctx, session); err == nil {
		err = c.shake.dial(wire.PeerRolePeer, d.target.member)
	}
	if err != nil {
		if d.ctx.Err() == nil {
			t.events.peerHandshakeFailed(c, err)
		}
		return false
	}
	return d.use(c)
}

// use carries frames over c until it ends. It reports whether the other side let this one in, as far as it has said.
func (d *peerDialer) use(c *peerConn) bool {
	t := d.t
	if err := c.start(t.reader); err != nil {
		t.events.peerEnded(c, err)
		return false
	}
	if why := t.driver.admit(c.intro()); why.reason != raft.RefuseNone {
		t.events.peerRefused(c.intro(), &why)
		c.refuse(why)
		c.carry()
		return false
	}
	d.current.Store(c)
	if t.setLost(d.target.addr, false) {
		t.events.peerReachable(c.intro())
	}
	t.driver.connected(c.intro())
	err := c.carry()
	d.current.Store(nil)
	if d.ctx.Err() == nil {
		t.events.peerEnded(c, err)
	}
	return !c.wasRefused && !c.ending.Load()
}

// dialPeer resolves the name in addr and connects to the first of its addresses that answers. host is the name.
func dialPeer(ctx context.Context, limits *peerLimits, addr string, resolved func([]netip.Addr)) (tcp *net.TCPConn, host string, err error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, host, fmt.Errorf("peer address %q: %w", addr, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, host, fmt.Errorf("peer address %q: the port is no number from 0 to 65535", addr)
	}
	addrs, err := resolvePeer(ctx, limits, host)
	if err != nil {
		return nil, host, fmt.Errorf("resolving %q: %w", host, err)
	}
	resolved(addrs)
	var errs []error
	for i, a := range addrs {
		limit := peerDialLimit
		if deadline, ok := ctx.Deadline(); ok { // what is left of the time is shared by the addresses that are left
			limit = min(limit, untilDeadline(deadline)/time.Duration(len(addrs)-i))
		}
		attempt, cancel := context.WithTimeout(ctx, limit)
		nc, err := new(net.Dialer).DialContext(attempt, "tcp", netip.AddrPortFrom(a, uint16(port)).String())
		cancel()
		if err == nil {
			return nc.(*net.TCPConn), host, nil
		}
		errs = append(errs, err)
	}
	return nil, host, errors.Join(errs...)
}

// resolvePeer returns at least one address, IPv4 as IPv4.
func resolvePeer(ctx context.Context, limits *peerLimits, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	found, err := limits.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		if a = a.Unmap(); !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, errors.New("the name has no address")
	}
	return addrs, nil
}
