package client

import (
	"bytes"
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

	"ticketing.internal/auth"
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

// remote is the server's end of a connection.
type remote struct {
	*testing.T
	conn *memoryConn
	near *memoryConn
	in   *inbox
	host *host

	requests chan wire.Request // see pongs
}

func (r *remote) shakeHands(h *host) error { return welcome(r.conn, r.in, h, nil) }

func (r *remote) readHello() (wire.Hello, error) { return readHello(r.in) }

// welcome does the server's part of a handshake. An error says that the client has gone, or was turned away.
func welcome(conn net.Conn, in *inbox, h *host, binding []byte) error {
	nonce := auth.EncodeNonce(nil, &[auth.NonceSize]byte{7})
	if _, err := conn.Write(wire.AppendGreeting(nil, nonce)); err != nil {
		return err
	}
	hello, err := readHello(in)
	if err != nil {
		return err
	}
	if _, ok := auth.NewTokens([]byte(testToken)).MatchClient(hello.Proof[:], nonce, hello.Nonce[:], binding, hello.Name); !ok {
		conn.Write(wire.AppendReply(nil, &wire.Reply{Op: wire.OpError, Code: uint16(wire.AuthFailed)}))
		return errors.New("the client's proof is wrong")
	}
	w := wire.Welcome{Role: h.role, InFlight: h.limit, Domain: h.domain, Leader: []byte(h.leader)}
	w.Proof = auth.ServerProof([]byte(h.token), hello.Nonce[:], nonce, binding)
	_, err = conn.Write(wire.AppendWelcome(nil, &w))
	return err
}

func readHello(in *inbox) (hello wire.Hello, err error) {
	for {
		n, err := wire.DecodeHello(in.bytes(), &hello)
		if err != nil {
			return hello, err
		}
		if n > 0 {
			hello.Name = bytes.Clone(hello.Name)
			in.consume(n)
			return hello, nil
		}
		if err := in.fill(); err != nil {
			return hello, err
		}
	}
}

// next returns the next request.
func (r *remote) next() (wire.Request, error) {
	for {
		var q wire.Request
		n, err := wire.DecodeRequest(r.in.bytes(), &q)
		if n > 0 {
			q.Key = bytes.Clone(q.Key)
			r.in.consume(n)
		}
		if n > 0 || err != nil {
			return q, err
		}
		if err := r.in.fill(); err != nil {
			return q, err
		}
	}
}

// buffered is next for what has arrived already.
func (r *remote) buffered() (wire.Request, bool) {
	synctest.Wait()
	r.conn.in.mu.Lock()
	there := len(r.in.bytes()) + len(r.conn.in.buf)
	r.conn.in.mu.Unlock()
	if there == 0 {
		return wire.Request{}, false
	}
	q, err := r.next()
	return q, err == nil
}

// receive returns the next request but for pings, which it answers.
func (r *remote) receive() (wire.Request, error) {
	for {
		q, err := r.next()
		if err != nil || q.Op != wire.OpPing {
			return q, err
		}
		r.conn.Write(wire.AppendReply(nil, &wire.Reply{Op: wire.OpPong, Owner: q.Owner}))
	}
}

// request returns the next request, which must come.
func (r *remote) request(op wire.Op, key string) wire.Request {
	r.Helper()
	q, err := r.receive()
	if err != nil {
		r.Fatalf("want %v of %q: %v", op, key, err)
	}
	if q.Op != op || string(q.Key) != key {
		r.Fatalf("%v of %q came, want %v of %q", q.Op, q.Key, op, key)
	}
	return q
}

func (r *remote) acquire(key string) wire.Request {
	r.Helper()
	return r.request(wire.OpAcquire, key)
}

// release returns the next release, which must name token.
func (r *remote) release(key string, token uint64) wire.Request {
	r.Helper()
	q := r.request(wire.OpRelease, key)
	if q.Token != token {
		r.Fatalf("release of %q names token %d, want %d", key, q.Token, token)
	}
	return q
}

// silent checks that nothing but pings has come.
func (r *remote) silent() {
	r.Helper()
	synctest.Wait()
	r.conn.in.mu.Lock()
	b := append(bytes.Clone(r.in.bytes()), r.conn.in.buf...)
	r.conn.in.mu.Unlock()
	for len(b) > 0 {
		var q wire.Request
		n, err := wire.DecodeRequest(b, &q)
		if err != nil || n == 0 || q.Op != wire.OpPing {
			r.Fatalf("want nothing; %v of %q with token %d came (%v)", q.Op, q.Key, q.Token, err)
		}
		b = b[n:]
	}
}

func (r *remote) send(replies ...wire.Reply) {
	var b []byte
	for i := range replies {
		b = wire.AppendReply(b, &replies[i])
	}
	r.write(b)
}

func (r *remote) write(b []byte) {
	r.conn.Write(b) // a client that has gone is what some tests are about
	synctest.Wait()
}

func (r *remote) grant(q wire.Request, token uint64) {
	r.send(wire.Reply{Op: wire.OpGranted, Owner: q.Owner, Token: token})
}

func (r *remote) released(q wire.Request) {
	r.send(wire.Reply{Op: wire.OpReleased, Owner: q.Owner, Token: q.Token})
}

func (r *remote) notHeld(q wire.Request) {
	r.send(wire.Reply{Op: wire.OpNotHeld, Owner: q.Owner, Token: q.Token})
}

func (r *remote) busy(q wire.Request, code wire.Busy, millis uint32) {
	r.send(wire.Reply{Op: wire.OpBusy, Owner: q.Owner, Code: uint16(code), Millis: millis})
}

func (r *remote) failure(q wire.Request, code wire.Failure) {
	r.send(wire.Reply{Op: wire.OpError, Owner: q.Owner, Code: uint16(code), Text: []byte("as scripted")})
}

func (r *remote) moved(leader string, term uint64) {
	r.send(wire.Reply{Op: wire.OpMoved, Token: term, Text: []byte(leader)})
}

// hangUp ends the connection from the server's side.
func (r *remote) hangUp() {
	r.conn.Close()
	synctest.Wait()
}

// cutRequestsAfter ends the connection when the client has sent n more bytes.
func (r *remote) cutRequestsAfter(n int) { r.conn.in.set(func() { r.conn.in.left = n }) }

// cutRepliesAfter ends the connection when the server has sent n more bytes.
func (r *remote) cutRepliesAfter(n int) { r.conn.out.set(func() { r.conn.out.left = n }) }

// choke has the connection take no more than n bytes that are not read.
func (r *remote) choke(n int) { r.conn.in.set(func() { r.conn.in.room = n }) }

// ended reports whether the client has ended the connection.
func (r *remote) ended() bool {
	synctest.Wait()
	r.conn.in.mu.Lock()
	defer r.conn.in.mu.Unlock()
	return r.conn.in.closed
}

// pongs answers pings and keeps the other requests for seen, until the connection ends.
func (r *remote) pongs() {
	for {
		q, err := r.receive()
		if err != nil {
			return
		}
		r.requests <- q
	}
}

// seen returns the next request that pongs kept.
func (r *remote) seen(op wire.Op) wire.Request {
	r.Helper()
	synctest.Wait()
	select {
	case q := <-r.requests:
		if q.Op != op {
			r.Fatalf("%v came, want %v", q.Op, op)
		}
		return q
	default:
		r.Fatalf("nothing came, want %v", op)
	}
	return wire.Request{}
}

func (r *remote) nothingSeen() {
	r.Helper()
	synctest.Wait()
	if n := len(r.requests); n != 0 {
		r.Errorf("%d requests came that nobody expected: first %+v", n, <-r.requests)
	}
}
