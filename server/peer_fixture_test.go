package server

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

var testPeerDomain = raft.Domain{'d', 'o', 'm'}

func peerMember(id raft.NodeID) raft.Member {
	return raft.Member{NodeID: id, Incarnation: raft.Incarnation{'i', byte(id)}}
}

func clusterSecrets(t testing.TB, list ...string) *auth.ClusterSecrets {
	t.Helper()
	var secrets [][]byte
	for _, s := range list {
		secrets = append(secrets, []byte(s))
	}
	s, err := auth.NewClusterSecrets(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	secretA = "the cluster secret A"
	secretB = "the cluster secret B"
)

// happening is one call of a fakeDriver.
type happening struct {
	what  string // admit, connected, received, ended, refused, control
	in    peerIntroduction
	why   peerRefusal
	types []wire.PeerType
	body  string // of the first frame
}

// fakeDriver notes what the transport tells it.
type fakeDriver struct {
	happened chan happening
	failure  error // of received

	mu     sync.Mutex
	id     peerIdentity
	shown  map[raft.Member]uint64
	refuse func(in *peerIntroduction) peerRefusal // nil: as raft.CheckPeer without a registry
	answer func(r *wire.ControlRequest) *wire.ControlReply
	quiet  bool // received is not noted
}

func newFakeDriver(m raft.Member) *fakeDriver {
	return &fakeDriver{
		happened: make(chan happening, 4096), shown: map[raft.Member]uint64{},
		id: peerIdentity{domain: testPeerDomain, self: m, seat: raft.Seat(m.NodeID), term: 3, clientAddr: "client:1", credential: raft.CredentialID{'c'}},
	}
}

func (d *fakeDriver) identity(other raft.Member) peerIdentity {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := d.id
	id.shown = d.shown[other]
	return id
}

func (d *fakeDriver) admit(in *peerIntroduction) peerRefusal {
	d.mu.Lock()
	refuse, id := d.refuse, d.id
	d.mu.Unlock()
	var why peerRefusal
	if refuse != nil {
		why = refuse(in)
	} else {
		why.reason = raft.CheckPeer(nil, id.domain, id.self, in.Introduction, nil)
	}
	d.happened <- happening{what: "admit", in: *in, why: why}
	return why
}

func (d *fakeDriver) connected(in *peerIntroduction) {
	d.happened <- happening{what: "connected", in: *in}
}
func (d *fakeDriver) ended(in *peerIntroduction) { d.happened <- happening{what: "ended", in: *in} }
func (d *fakeDriver) refused(in *peerIntroduction, why peerRefusal) {
	d.happened <- happening{what: "refused", in: *in, why: why}
}

func (d *fakeDriver) received(in *peerIntroduction, frames []wire.PeerFrame) error {
	if d.quiet {
		return d.failure
	}
	h := happening{what: "received", in: *in, body: string(frames[0].Body)}
	for _, f := range frames {
		h.types = append(h.types, f.Type)
	}
	d.happened <- h
	return d.failure
}

func (d *fakeDriver) take(_ lock.Time, in *peerIntroduction, frames []wire.PeerFrame) error {
	return d.received(in, frames)
}

func (d *fakeDriver) control(in *peerIntroduction, r *wire.ControlRequest, answer func(*wire.ControlReply)) {
	d.happened <- happening{what: "control", in: *in, body: r.Kind.String()}
	if reply := d.answer(r); reply != nil {
		go answer(reply) // as the engine may, later and elsewhere
	}
}

// await returns the next happening of that kind, and passes over others.
func (d *fakeDriver) await(t testing.TB, what string) happening {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case h := <-d.happened:
			if h.what == what {
				return h
			}
		case <-timeout:
			t.Fatalf("%s did not happen", what)
		}
	}
}

// has reports whether there is a happening of that kind among those noted and not taken.
func (d *fakeDriver) has(what string) bool {
	for {
		select {
		case h := <-d.happened:
			if h.what == what {
				return true
			}
		default:
			return false
		}
	}
}

// logLines is a log whose lines a test can wait for.
type logLines struct {
	slog.Handler
	lines chan string
}

func newLogLines() *logLines { return &logLines{lines: make(chan string, 4096)} }

func (l *logLines) Write(p []byte) (int, error) {
	l.lines <- string(p)
	return len(p), nil
}

func (l *logLines) await(t testing.TB, part string) {
	t.Helper()
	var seen []string
	timeout := time.After(patience)
	for {
		select {
		case line := <-l.lines:
			if strings.Contains(line, part) {
				return
			}
			seen = append(seen, line)
		case <-timeout:
			t.Fatalf("no log line says %q, only:\n%s", part, strings.Join(seen, ""))
		}
	}
}

// peerNode is a transport with a fake driver.
type peerNode struct {
	*peerTransport
	driver *fakeDriver
	log    *logLines
}

type peerNodeOptions struct {
	secrets *auth.ClusterSecrets
	tls     *tlsconf.Reloader
	limits  peerLimits
	listen  string // "": a port of its own on loopback
	// goroutines has goroutines carry its connections, also where a loop could.
	goroutines bool
}

// eachWay runs a test with loops that carry the connections, and with goroutines.
func eachWay(t *testing.T, test func(t *testing.T, o peerNodeOptions)) {
	t.Run("loop", func(t *testing.T) { test(t, peerNodeOptions{}) })
	t.Run("goroutines", func(t *testing.T) { test(t, peerNodeOptions{goroutines: true}) })
}

// newPeerNode opens a transport on loopback.
func newPeerNode(t testing.TB, d *fakeDriver, o peerNodeOptions) *peerNode {
	t.Helper()
	n := &peerNode{driver: d, log: newLogLines()}
	if o.secrets == nil {
		o.secrets = clusterSecrets(t, secretA)
	}
	setDefault(&o.limits.backoffMin, time.Millisecond)
	setDefault(&o.limits.backoffMax, 5*time.Millisecond)
	c := newClock()
	ev := newEvents(c, slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	var err error
	n.peerTransport, err = openPeerTransport(cmp.Or(o.listen, "127.0.0.1:0"), peerOptions{
		driver: d, secrets: o.secrets, tls: o.tls, events: ev, clock: c, jitter: rand.New(rand.NewPCG(1, 2)), limits: o.limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	go ev.run()
	if !o.goroutines {
		n.reader = startServer(t, nil).engine.peerReader
	}
	n.start()
	t.Cleanup(func() {
		n.close()
		ev.stop()
	})
	return n
}

// target is n as others name it.
func (n *peerNode) target() peerTarget {
	return peerTarget{member: n.driver.identity(raft.Member{}).self, addr: n.addr().String()}
}

// dialsTo makes n dial the targets as the pair that its driver has.
func (n *peerNode) dialsTo(targets ...peerTarget) {
	n.setTargets(n.driver.identity(raft.Member{}).self, targets)
}

// rawPeer is one end of a connection that a test drives by hand.
type rawPeer struct {
	net.Conn
	t     testing.TB
	in    frameReader
	shake peerShake
}

func newRawPeer(t testing.TB, nc net.Conn, m raft.Member, secrets *auth.ClusterSecrets) *rawPeer {
	t.Helper()
	nc.SetDeadline(time.Now().Add(patience))
	p := &rawPeer{Conn: nc, t: t}
	p.in.source = nc
	d := newFakeDriver(m)
	p.shake = peerShake{out: nc, in: &p.in, secrets: secrets, identity: d.identity}
	t.Cleanup(func() { nc.Close() })
	return p
}

func dialRaw(t testing.TB, n *peerNode) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", n.addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// rawClient connects to n as m in the role and proves the secret.
func rawClient(t testing.TB, n *peerNode, m raft.Member, role wire.PeerRole) *rawPeer {
	t.Helper()
	p := newRawPeer(t, dialRaw(t, n), m, clusterSecrets(t, secretA))
	expected := n.target().member
	if role != wire.PeerRolePeer {
		expected = raft.Member{}
	}
	if err := p.shake.dial(role, expected); err != nil {
		t.Fatal(err)
	}
	return p
}

// say sends one frame.
func (p *rawPeer) say(kind wire.PeerType, body string) {
	p.t.Helper()
	if err := p.shake.write(kind, []byte(body)); err != nil {
		p.t.Fatal(err)
	}
}

// expectEnd reads until the other side closes, and returns the types of the frames that came before.
func (p *rawPeer) expectEnd() (types []wire.PeerType) {
	p.t.Helper()
	for {
		f, err := p.in.one(wire.MaxPeerBody)
		if err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				p.t.Fatal("the connection was not closed")
			}
			return types
		}
		types = append(types, f.Type)
	}
}

// listen opens a port where a test plays the accepting side by hand.
func listenRaw(t testing.TB) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, l.Addr().String()
}

func acceptRaw(t testing.TB, l net.Listener, m raft.Member) *rawPeer {
	t.Helper()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return newRawPeer(t, nc, m, clusterSecrets(t, secretA))
}

// dialledRaw makes n dial m, which a test plays by hand, and returns m's end of the connection, ready for frames.
func dialledRaw(t testing.TB, n *peerNode, m raft.Member) *rawPeer {
	t.Helper()
	l, addr := listenRaw(t)
	n.dialsTo(peerTarget{member: m, addr: addr})
	p := acceptRaw(t, l, m)
	if err := p.shake.accept(); err != nil {
		t.Fatal(err)
	}
	n.driver.await(t, "connected")
	return p
}

func frameBytes(kind wire.PeerType, body string) []byte {
	b, start := wire.BeginPeerFrame(nil, kind, 0)
	b, _ = wire.FinishPeerFrame(append(b, body...), start)
	return b
}

func appendMessage(to raft.Member, size int) *raft.Message {
	return &raft.Message{
		Kind: raft.MsgAppendEntries, To: to, Term: 3, Index: 7, LogTerm: 2,
		Entries: slices.Repeat([]raft.Entry{{Index: 8, Term: 3, Kind: raft.EntryCommand, Data: make([]byte, 1000)}}, max(size/1000, 1)),
	}
}

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
