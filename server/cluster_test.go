package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/wire"
)

const testClusterSecret = "the secret of the test cluster"

// testCluster is a cluster whose nodes run in this process.
type testCluster struct {
	t          *testing.T
	credential string
	seats      []auth.CredentialSeat
	clients    []string
	dirs       []string
	nodes      []*testServer
}

// freeAddr is a loopback address with a port that nobody listens on. On Linux its host is one that nobody else has, for else somebody could be
// given the port before it is listened on.
func freeAddr(t *testing.T) string {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// newCluster makes a credential for n nodes, and starts none.
func newCluster(t *testing.T, n int) *testCluster {
	t.Helper()
	c := &testCluster{t: t, nodes: make([]*testServer, n)}
	for i := range n {
		c.seats = append(c.seats, auth.CredentialSeat{Seat: uint8(i + 1), PeerAddr: freeAddr(t)})
		c.clients = append(c.clients, freeAddr(t))
		c.dirs = append(c.dirs, t.TempDir())
	}
	c.mint([16]byte{1, 2, 3})
	return c
}

// mint makes the credential that nodes are started with from now on.
func (c *testCluster) mint(domain [16]byte) {
	c.t.Helper()
	secrets, err := auth.NewClusterSecrets([]byte(testClusterSecret))
	if err != nil {
		c.t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	credential := auth.BootstrapCredential{
		Domain: domain, Seats: c.seats, TokenBase: 1000, NotBeforeMillis: now - 1000, NotAfterMillis: now + 60_000,
	}
	if c.credential, err = credential.Mint(secrets); err != nil {
		c.t.Fatal(err)
	}
}

// start starts the node of a seat, from 0, in the place of one that has ended.
func (c *testCluster) start(i int, adjust func(*Config)) *testServer {
	c.t.Helper()
	c.nodes[i] = startServer(c.t, func(cfg *Config) {
		c.configure(i, cfg)
		if adjust != nil {
			adjust(cfg)
		}
	})
	return c.nodes[i]
}

// startAllBehind starts all nodes, each with another peerSender in front of its own.
func (c *testCluster) startAllBehind(sender func(i int, own peerSender) peerSender) {
	c.t.Helper()
	for i := range c.nodes {
		ts := openServer(c.t, 1, func(cfg *Config) { c.configure(i, cfg) })
		r := replicaOf(ts)
		r.peers = sender(i, r.peers)
		c.nodes[i] = ts
		runServer(c.t, ts, nil)
	}
}

func (c *testCluster) configure(i int, cfg *Config) {
	cfg.Listen, cfg.StateDir, cfg.AllowVolatileStateDir = c.clients[i], c.dirs[i], true
	cfg.Cluster.Seat, cfg.Cluster.PeerListen = i+1, c.seats[i].PeerAddr
	cfg.Cluster.Secrets = []Secret{testClusterSecret}
	cfg.Cluster.Bootstrap = Secret(c.credential)
}

// startAll bootstraps the cluster and waits until it serves.
func (c *testCluster) startAll() *testCluster {
	c.t.Helper()
	for i := range c.nodes {
		c.start(i, nil)
	}
	c.leader()
	return c
}

// leader waits until one of the running nodes serves, and returns it.
func (c *testCluster) leader() *testServer {
	c.t.Helper()
	var leader *testServer
	await(c.t, "a leader that serves", func() bool {
		for _, ts := range c.nodes {
			if ts != nil && ts.serves() {
				leader = ts
				return true
			}
		}
		return false
	})
	return leader
}

func (ts *testServer) serves() bool {
	ts.engine.mu.Lock()
	defer ts.engine.mu.Unlock()
	return ts.engine.leadership.serving
}

func TestClusterBootstrapsAndServes(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := newCluster(t, n).startAll()
			a := c.leader().session(t)
			a.send(acquire(1, "k", 0, 30_000))
			first := a.expect(wire.OpGranted, 0, 1)
			if first.Token <= 1000 {
				t.Fatalf("token %d is not above the base", first.Token)
			}
			a.send(release(1, first.Token, "k"))
			a.expect(wire.OpReleased, 0, 1)
			await(t, "equal states", func() bool {
				hashes := map[uint64]bool{}
				for _, ts := range c.nodes {
					ts.engine.mu.Lock()
					hashes[ts.engine.manager.StateHash()] = true
					ts.engine.mu.Unlock()
				}
				return len(hashes) == 1
			})
		})
	}
}

// ready reports whether /readyz would say yes.
func (ts *testServer) ready() bool { return observer{ts.Server}.ready() == "" }

// A leader that stops hands over first; a node that comes back becomes a voter again, under another identity.
func TestClusterRollingReboot(t *testing.T) {
	c := newCluster(t, 3).startAll()
	token := uint64(0)
	for round := range c.nodes {
		for i, ts := range c.nodes {
			await(t, "node "+fmt.Sprint(i+1)+" to be ready", ts.ready)
		}
		a := c.leader().session(t)
		a.send(acquire(1, "kept", 0, 250_000))
		r := a.reply()
		if (r.Op == wire.OpGranted) != (round == 0) {
			t.Fatalf("round %d: %c", round, r.Op)
		}
		a.send(acquire(2, fmt.Sprint("k", round), 0, 30_000))
		granted := a.expect(wire.OpGranted, 0, 2)
		if granted.Token <= token {
			t.Fatalf("token %d after %d", granted.Token, token)
		}
		token = granted.Token
		// One seat after the other: the same one twice in a row would have to wait to be admitted.
		c.nodes[round].end()
		c.nodes[round] = nil
		c.leader()
		c.start(round, nil)
	}
	for i, ts := range c.nodes {
		await(t, "node "+fmt.Sprint(i+1)+" to be ready", ts.ready)
	}
	if held := c.leader().stats().Held; held != 4 {
		t.Fatalf("%d keys are held, want 4", held)
	}
}

// A secret is rotated without a stop: all nodes learn the new one first, then each may forget the old.
func TestClusterSecretRotation(t *testing.T) {
	c := newCluster(t, 3).startAll()
	const fresh = "the next secret of the test cluster"
	for _, ts := range c.nodes {
		cfg := ts.cfg
		cfg.Cluster.Secrets = []Secret{fresh, testClusterSecret}
		if err := ts.engine.authority.reload(&cfg); err != nil {
			t.Fatal(err)
		}
	}
	for i, ts := range c.nodes {
		if ts != c.leader() {
			ts.end()
			again := c.start(i, func(cfg *Config) { cfg.Cluster.Secrets, cfg.Cluster.Bootstrap = []Secret{fresh}, "" })
			await(t, "the node with the new secret alone", again.ready)
			return
		}
	}
}

// What a node does not know of the others is null: how far they have come, if it does not lead. Without a majority it says what to
// do, and so does one that has come back in vain.
func TestClusterLosesItsMajority(t *testing.T) {
	c := newCluster(t, 3).startAll()
	leader := c.leader()
	await(t, "a follower that knows the others", func() bool {
		i := slices.IndexFunc(c.nodes, func(ts *testServer) bool { return ts != leader })
		st := observer{c.nodes[i].Server}.status()
		return len(st.Members) == 3 && !slices.ContainsFunc(st.Members, func(m StatusMember) bool {
			self := m.Seat == *st.Seat
			return m.Lag != nil || (m.MatchIndex != nil) != self || (m.LastHeardMs != nil) != self
		})
	})
	await(t, "a leader that knows them all", func() bool {
		members := observer{leader.Server}.status().Members
		return len(members) == 3 && !slices.ContainsFunc(members, func(m StatusMember) bool { return m.Lag == nil || m.MatchIndex == nil || m.LastHeardMs == nil })
	})
	for i, ts := range c.nodes {
		if ts != leader {
			ts.end()
			c.nodes[i] = nil
		}
	}
	await(t, "a node without a majority that says what to do", func() bool {
		return strings.HasPrefix(observer{leader.Server}.ready(), "no leader is known") && strings.HasSuffix(observer{leader.Server}.ready(), majorityAdvice)
	})
	again := c.start(slices.Index(c.nodes, nil), nil)
	await(t, "a node that has come back in vain, and says what to do", func() bool {
		return strings.HasSuffix(observer{again.Server}.ready(), "to be admitted: it knows no leader; "+majorityAdvice)
	})
}
