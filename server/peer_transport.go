package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// peerTransport carries frames between nodes. Each node sends its requests over connections that it has dialled itself. Replies go back
// over the connection that brought the request: so even a node is answered that the other cannot reach or does not know yet, and the
// kernel's acknowledgement of a message travels with the reply.
//
// send, broadcast, flush, setTargets, setSecrets and drop do not block.
type peerTransport struct {
	// Immutable.
	driver   peerDriver
	tls      *tlsconf.Reloader // nil on plaintext
	events   *events
	clock    *clock
	limits   peerLimits
	listener *net.TCPListener
	reader   peerReader      // nil: goroutines read. Set before start
	ctx      context.Context // over when close begins
	cancel   context.CancelFunc

	secrets  atomic.Pointer[auth.ClusterSecrets]
	dialers  atomic.Pointer[[]*peerDialer] // replaced as a whole under mu
	answered atomic.Pointer[[]*peerConn]   // accepted connections that carry Raft; replaced as a whole under mu
	running  sync.WaitGroup                // all goroutines

	// turnover is held while an accepted connection is let in or has ended, so that the driver hears of these in order. It comes
	// before the engine's lock and is never taken under it.
	turnover sync.Mutex

	mu sync.Mutex
	// Guarded by mu, which comes after the engine's lock. Nothing is called or waited for under it.
	closed   bool
	self     raft.Member
	conns    map[*peerConn]struct{}    // all
	accepted map[raft.Member]*peerConn // of the role peer, let in, by the other side
	drops    int                       // calls of drop
	requests int                       // accepted connections of the other roles
	places   peerPlaces
	lost     map[string]bool // addresses of targets that could not be reached when they were dialled last
	jitter   *rand.Rand
}

// peerOptions is what a transport is made from.
type peerOptions struct {
	driver  peerDriver
	secrets *auth.ClusterSecrets
	tls     *tlsconf.Reloader // with the CA of the cluster as its client CA; nil: plaintext
	events  *events
	clock   *clock
	jitter  *rand.Rand // draws how long to wait before dialling again, and nothing else
	limits  peerLimits // zero fields take the defaults
}

// peerLimits are the time limits and bounds of a transport.
type peerLimits struct {
	handshake              time.Duration // from accept, or the first dial, to the other side's proof
	backoffMin, backoffMax time.Duration // between two dials
	idleRequests           time.Duration // a connection of the roles join and control without a request
	urgentBytes, bulkBytes int           // what waits for one peer
	// resolve returns the addresses of a host name.
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// mostRequestConns bounds the accepted connections of the roles join and control that are in use.
const mostRequestConns = 64

func (l peerLimits) withDefaults() peerLimits {
	setDefault(&l.handshake, 5*time.Second)
	setDefault(&l.backoffMin, 50*time.Millisecond)
	setDefault(&l.backoffMax, 2*time.Second)
	setDefault(&l.idleRequests, 2*time.Minute)
	setDefault(&l.urgentBytes, peerUrgentBytes)
	setDefault(&l.bulkBytes, peerBulkBytes)
	if l.resolve == nil {
		l.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	return l
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// openPeerTransport opens the peer port. Nothing is accepted or dialled before start.
func openPeerTransport(listen string, o peerOptions) (*peerTransport, error) {
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("TICKETING_PEER_LISTEN %q: %w", listen, err)
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening for other nodes on TICKETING_PEER_LISTEN=%s: %w; stop what uses the port, or choose another", listen, err)
	}
	t := &peerTransport{
		driver: o.driver, tls: o.tls, events: o.events, clock: o.clock, limits: o.limits.withDefaults(), listener: l,
		conns: map[*peerConn]struct{}{}, accepted: map[raft.Member]*peerConn{}, lost: map[string]bool{}, jitter: o.jitter,
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.secrets.Store(o.secrets)
	t.dialers.Store(new([]*peerDialer))
	t.answered.Store(new([]*peerConn))
	return t, nil
}

// start begins to accept.
func (t *peerTransport) start() {
	t.running.Add(1)
	go t.accept()
}

// addr is the address that the peer port listens on.
func (t *peerTransport) addr() net.Addr { return t.listener.Addr() }

// close ends everything and waits for it; the driver is not called any more when it returns. It must not be called under a
// lock that the driver takes.
func (t *peerTransport) close() {
	t.mu.Lock()
	t.closed = true
	for c := range t.conns {
		c.close()
	}
	t.mu.Unlock()
	t.cancel()
	t.listener.Close()
	t.running.Wait()
}

// setSecrets replaces the cluster secrets for the handshakes to come. Open connections stay.
func (t *peerTransport) setSecrets(s *auth.ClusterSecrets) { t.secrets.Store(s) }

// setTargets sets the nodes to be connected to from now on, and this node's own pair. Connections to targets that have not changed stay;
// those that were made as another pair are made anew.
func (t *peerTransport) setTargets(self raft.Member, targets []peerTarget) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	var dialers []*peerDialer
	for _, d := range *t.dialers.Load() {
		if self == t.self && slices.Contains(targets, d.target) {
			dialers = append(dialers, d)
		} else {
			d.cancel()
		}
	}
	t.self = self
	for _, target := range targets {
		if !slices.ContainsFunc(dialers, func(d *peerDialer) bool { return d.target == target }) {
			dialers = append(dialers, t.startDialer(target))
		}
	}
	t.dialers.Store(&dialers)
	maps.DeleteFunc(t.lost, func(addr string, _ bool) bool {
		return !slices.ContainsFunc(targets, func(target peerTarget) bool { return target.addr == addr })
	})
}

// setLost notes whether the target at addr is out of reach, and reports whether it was.
func (t *peerTransport) setLost(addr string, lost bool) (before bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before = t.lost[addr]
	if lost {
		t.lost[addr] = true
	} else {
		delete(t.lost, addr)
	}
	return before
}

// send queues m for m.To. It is dropped if there is no connection bound to both pairs, or too much waits for it already.
func (t *peerTransport) send(m *raft.Message) {
	var c *peerConn
	kind := wire.PeerType(m.Kind)
	if kind.IsRaftReply() {
		c = t.acceptedFrom(m.To)
	}
	if c == nil {
		c = t.dialled(m.To)
	}
	if c != nil && c.intro().bound() {
		c.queue.add(kind, 0, func(dst []byte) []byte { return raft.AppendMessage(dst, m) })
	}
}

// acceptedFrom returns the connection on which m is answered, or nil.
func (t *peerTransport) acceptedFrom(m raft.Member) *peerConn {
	for _, c := range *t.answered.Load() {
		if c.intro().Sender == m && !c.ending.Load() {
			return c
		}
	}
	return nil
}

// broadcast queues a frame of the bootstrap, InitialConfig or Accepted, on every connection that this node has dialled, also
// on those that are bound to no known pair.
func (t *peerTransport) broadcast(kind wire.PeerType, body func(dst []byte) []byte) {
	for _, d := range *t.dialers.Load() {
		if c := d.usable(); c != nil {
			c.queue.add(kind, 0, body)
		}
	}
}

// flush starts to write what was queued: what the kernel takes at once, and the rest as soon as it takes more. It is called without
// the engine's lock.
func (t *peerTransport) flush() {
	for _, d := range *t.dialers.Load() {
		if c := d.usable(); c != nil {
			c.push()
		}
	}
	for _, c := range *t.answered.Load() {
		c.push()
	}
}

// drop tells m why it is refused on every connection with it, and closes them.
func (t *peerTransport) drop(m raft.Member, why peerRefusal) {
	if c := t.dialled(m); c != nil {
		c.refuse(why)
	}
	t.mu.Lock()
	t.drops++
	c := t.accepted[m]
	t.mu.Unlock()
	if c != nil {
		c.refuse(why)
	}
}

// dialled returns the connection that carries frames to m, or nil.
func (t *peerTransport) dialled(m raft.Member) *peerConn {
	for _, d := range *t.dialers.Load() {
		if c := d.usable(); c != nil && c.intro().Sender == m {
			return c
		}
	}
	return nil
}

// track takes note of c until untrack. It reports false, and closes c, if the transport is closed.
func (t *peerTransport) track(c *peerConn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.close()
		return false
	}
	t.conns[c] = struct{}{}
	return true
}

func (t *peerTransport) untrack(c *peerConn) {
	c.close()
	t.mu.Lock()
	delete(t.conns, c)
	t.mu.Unlock()
}

// over reports whether close has begun.
func (t *peerTransport) over() bool { return t.ctx.Err() != nil }

// tlsServer returns the TLS session of an accepted connection, nil on plaintext.
func (t *peerTransport) tlsServer(tcp *net.TCPConn) *tls.Conn {
	if t.tls == nil {
		return nil
	}
	return tls.Server(tcp, t.tls.Config())
}
