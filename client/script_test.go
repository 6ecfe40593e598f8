package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ticketing.internal/wire"
)

// testClock runs with the time of the synctest bubble, and can be moved on as a suspension does: without any timer.
type testClock struct {
	start     time.Time
	suspended atomic.Int64 // ns
	stepped   atomic.Int64 // of the wall clock, ns
}

func newTestClock() *testClock { return &testClock{start: time.Now()} }

func (c *testClock) Now() time.Duration {
	return time.Hour + time.Since(c.start) + time.Duration(c.suspended.Load())
}
func (c *testClock) Wall() time.Time {
	return time.Now().Add(time.Duration(c.suspended.Load() + c.stepped.Load()))
}
func (c *testClock) NewAlarm(ring func()) alarm { return newRecheckAlarm(c, ring) }

const testToken = "a token for tests only"

var (
	domainOne = domain{1}
	domainTwo = domain{2}
)

// world is a network in memory with one Broker in it, inside a synctest bubble. Its servers are scripts.
type world struct {
	*testing.T
	clock  *testClock
	broker *Broker
	calls  sync.WaitGroup // goroutines of the test

	mu      sync.Mutex
	hosts   map[string]*host
	brokers []*Broker
	dialled map[string][]time.Duration // since start, by address
}

// host is an address. Its connections come out of conns, in the order of dialling.
type host struct {
	conns  chan *remote
	refuse error // of dialling
	domain domain
	role   wire.Role
	leader string
	limit  uint32
	token  string
	hold   bool // leave the handshake to the test
}

// inWorld runs test in a bubble and then closes every Broker and looks for what was left behind. That no goroutine
// is left is checked by synctest.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, clock: newTestClock(), hosts: map[string]*host{}, dialled: map[string][]time.Duration{}}
		defer func() { // also when test ends by Fatal
			for _, b := range w.brokers {
				b.Close()
				w.checkEmpty(b)
			}
			w.calls.Wait()
		}()
		test(w)
	})
}

// checkEmpty looks for what a closed Broker must not keep.
func (w *world) checkEmpty(b *Broker) {
	w.Helper()
	b.mu.Lock()
	defer b.unlock()
	if n := len(b.sessions) + len(b.routes) + len(b.parked) + len(b.releases); n != 0 || b.ready.first != nil {
		w.Errorf("after Close there are sessions %d, routes %d, parked %d, releases %d, to wake %v",
			len(b.sessions), len(b.routes), len(b.parked), len(b.releases), b.ready.first)
	}
	for _, p := range b.peers {
		if p.session != nil {
			w.Errorf("after Close %s has a session", p.addr)
		}
	}
	if len(b.watch.open) != 0 || b.watch.alarm != nil {
		w.Errorf("after Close %d contexts are watched", len(b.watch.open))
	}
}

// host adds an address whose nodes serve domainOne, unless change says otherwise.
func (w *world) host(addr string, change ...func(*host)) *host {
	h := &host{conns: make(chan *remote, 1000), domain: domainOne, role: wire.RoleServing, limit: 65536, token: testToken}
	for _, c := range change {
		c(h)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[addr] = h
	return h
}

// change alters a host while it may be dialled.
func (w *world) change(h *host, change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialled[addr] = append(w.dialled[addr], w.clock.Now()-time.Hour)
	h := w.hosts[addr]
	if h == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	if h.refuse != nil {
		return nil, h.refuse
	}
	near, far := newConnPair()
	r := &remote{T: w.T, conn: far, near: near, in: newInbox(far), host: h, requests: make(chan wire.Request, 1000)}
	if h.hold {
		h.conns <- r
		return near, nil
	}
	settings := *h
	w.calls.Go(func() {
		if r.shakeHands(&settings) == nil {
			h.conns <- r
		}
	})
	return near, nil
}

// dials returns when addr was dialled, counted from the start.
func (w *world) dials(addr string) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialled[addr])
}

// dialledHosts returns how many different addresses were dialled.
func (w *world) dialledHosts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dialled)
}

// open makes the world's Broker. With one address, a second one that is down keeps it to one connection.
func (w *world) open(addrs ...string) *Broker {
	w.Helper()
	if len(addrs) == 1 {
		addrs = append(addrs, "down:1")
	}
	w.broker = w.openWith(Config{Addrs: addrs}, nil)
	return w.broker
}

// openWith also lets the surroundings be changed.
func (w *world) openWith(cfg Config, change func(*system)) *Broker {
	w.Helper()
	cfg.Token = testToken
	if cfg.Dialer == nil {
		cfg.Dialer = w.dial
	}
	if cfg.Name == "" {
		cfg.Name = "test"
	}
	sys := system{
		clock:       w.clock,
		random:      func() float64 { return 0 },
		nonces:      rand.Reader,
		direct:      func(c net.Conn) directWrite { return c.(*memoryConn).tryWrite },
		maxReleases: 1 << 16,
	}
	if change != nil {
		change(&sys)
	}
	b, err := newBroker(cfg, sys)
	if err != nil {
		w.Fatal(err)
	}
	w.brokers = append(w.brokers, b)
	w.broker = b
	return b
}

// one opens a Broker with one connection to one serving node and returns the node's end.
func (w *world) one() (*Broker, *remote) {
	w.Helper()
	h := w.host("a:1")
	b := w.open("a:1")
	return b, w.next(h)
}

// next returns the next connection that was made to h.
func (w *world) next(h *host) *remote {
	w.Helper()
	select {
	case r := <-h.conns:
		synctest.Wait() // the client has taken the welcome
		return r
	case <-time.After(time.Minute):
		w.Fatal("nobody connected for a minute")
	}
	return nil
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// outcome is what an acquire or a release brought, and when.
type outcome struct {
	ticket *Ticket
	err    error
	took   time.Duration
}

// running is a call in a goroutine of its own.
type running struct {
	w    *world
	done chan outcome
}

func (w *world) start(f func() (*Ticket, error)) *running {
	r := &running{w, make(chan outcome, 1)}
	began := w.clock.Now()
	w.calls.Go(func() {
		t, err := f()
		r.done <- outcome{t, err, w.clock.Now() - began}
	})
	synctest.Wait()
	return r
}

// acquire starts an acquire that waits 5 s for a lease of 30 s.
func (w *world) acquire(ctx context.Context, key string) *running {
	return w.start(func() (*Ticket, error) { return w.broker.Acquire(ctx, key, 5*time.Second, 30*time.Second) })
}

func (w *world) release(ctx context.Context, t *Ticket) *running {
	return w.start(func() (*Ticket, error) { return nil, t.Release(ctx) })
}

// result waits for the end of the call.
func (r *running) result() outcome {
	r.w.Helper()
	select {
	case o := <-r.done:
		return o
	case <-time.After(2 * time.Hour):
		r.w.Fatal("the call has not returned in two hours")
	}
	return outcome{}
}

// pending fails the test if the call has returned.
func (r *running) pending() {
	r.w.Helper()
	synctest.Wait()
	select {
	case o := <-r.done:
		r.w.Fatalf("the call has returned: %v, %v", o.ticket, o.err)
	default:
	}
}

// fails checks that the call ended with all of these errors, and without a ticket.
func (r *running) fails(want ...error) outcome {
	r.w.Helper()
	o := r.result()
	if o.ticket != nil {
		r.w.Fatalf("a ticket with token %d, want an error", o.ticket.Token())
	}
	for _, e := range want {
		if !errors.Is(o.err, e) {
			r.w.Errorf("error %v, want %v in it", o.err, e)
		}
	}
	for _, e := range []error{ErrTimeout, ErrBusy, ErrIndeterminate, ErrNotHeld, ErrUnconfirmed, ErrClosed, ErrInvalid, ErrAuth} {
		wanted := false
		for _, x := range want {
			wanted = wanted || x == e
		}
		if !wanted && errors.Is(o.err, e) {
			r.w.Errorf("error %v, want no %q in it", o.err, e)
		}
	}
	return o
}

// granted checks that the call ended with a ticket.
func (r *running) granted() *Ticket {
	r.w.Helper()
	o := r.result()
	if o.err != nil || o.ticket == nil {
		r.w.Fatalf("got %v, %v; want a ticket", o.ticket, o.err)
	}
	return o.ticket
}

// succeeds checks that the call ended without an error.
func (r *running) succeeds() outcome {
	r.w.Helper()
	o := r.result()
	if o.err != nil {
		r.w.Fatal(o.err)
	}
	return o
}

// ticket acquires key through r.
func (w *world) ticket(r *remote, key string, token uint64) *Ticket {
	w.Helper()
	call := w.acquire(context.Background(), key)
	r.grant(r.acquire(key), token)
	return call.granted()
}
