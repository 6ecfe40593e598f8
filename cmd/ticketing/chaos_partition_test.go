//go:build linux

package main

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"ticketing.internal/client"
)

// networkedCluster is a cluster with a host for each node and one for its clients and operators.
type networkedCluster struct {
	*chaosCluster
	network *network
	clients *host
}

// startNetworkedCluster bootstraps a cluster of so many seats on a network with spare hosts beyond.
func startNetworkedCluster(t *testing.T, seats, spare int, tls bool) *networkedCluster {
	t.Helper()
	n := newNetwork(t, seats+spare+1)
	c := &networkedCluster{network: n, clients: n.hosts[len(n.hosts)-1]}
	c.chaosCluster = &chaosCluster{
		t: t, place: c.clients.do,
		environ: []string{"TICKETING_CLUSTER_SECRET=" + chaosSecret, "TICKETING_ALLOW_EMPTY_TOKEN=yes"},
	}
	if tls {
		var addrs []net.IP
		for _, h := range n.hosts {
			addrs = append(addrs, net.ParseIP(h.addr()))
		}
		cert, key := selfSigned(t, addrs...)
		c.environ = append(c.environ, "TICKETING_PEER_TLS_CERT="+cert, "TICKETING_PEER_TLS_KEY="+key, "TICKETING_PEER_TLS_CA="+cert)
	}
	for seat := 1; seat <= seats; seat++ {
		c.nodes = append(c.nodes, c.nodeAt(n.hosts[seat-1], seat))
	}
	c.prepareBootstrap()
	c.startAll()
	return c
}

// nodeAt is a node on a host, not started.
func (c *networkedCluster) nodeAt(h *host, seat int) *chaosNode {
	return &chaosNode{
		seat: seat, client: h.addr() + ":5225", peer: h.addr() + ":5325", admin: "127.0.0.1:5425",
		dir: c.t.TempDir(), place: h.do,
	}
}

// hostOf is where the first node of a seat is.
func (c *networkedCluster) hostOf(n *chaosNode) *host { return c.network.hosts[n.seat-1] }

// load starts workers on a host that know some of the nodes.
func (c *networkedCluster) load(h *history, name string, from *host, workers int, addrs ...string) *chaosLoad {
	c.t.Helper()
	return startLoadAs(h, client.Config{Addrs: addrs, Name: name, Dialer: from.dial}, workers, 4)
}

// lastFailover is far beyond what a failover takes, for machines with much else to do.
const lastFailover = 5 * time.Second

// failover makes a partition and waits until clients are served again by who can. It returns when the partition was complete.
func (c *networkedCluster) failover(h *history, partition func()) (complete time.Duration) {
	c.t.Helper()
	broker, err := client.New(client.Config{Addrs: c.clientAddrs(), Dialer: c.clients.dial})
	if err != nil {
		c.t.Fatal(err)
	}
	defer broker.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), testTime)
	defer cancel()
	p := startProber(ctx, broker, 20*time.Millisecond)
	defer p.end()
	if _, err := p.firstAfter(ctx, time.Now()); err != nil {
		c.t.Fatal(err)
	}
	begin := time.Now()
	partition()
	now := time.Now()
	first, err := p.firstAfter(ctx, now)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("partition within %v, next grant after %v", now.Sub(begin).Round(time.Millisecond), first.Sub(begin).Round(time.Millisecond))
	if first.Sub(begin) > lastFailover {
		c.t.Errorf("the next grant came %v after the partition", first.Sub(begin))
	}
	return now.Sub(h.start)
}

// expectDeposed verifies that a leader that was cut off leads no more, says so, and grants nothing.
func (c *networkedCluster) expectDeposed(n *chaosNode) {
	c.t.Helper()
	eventually(c.t, "the leader to step down", func() bool {
		v, ok := c.view(n)
		return ok && v.Role != "leader" && (!v.Ready && v.WhyNotReady != "" || v.Leader != nil && v.Leader.ClientAddr != n.client)
	})
	n.place.do(func() {
		run(c.t, nil, "acquire", "--addr", n.client, "--wait", "500ms", "nobody-else-asks").expect(c.t, exitUnreachable)
	})
}

// expectAlive verifies that no node has ended.
func (c *networkedCluster) expectAlive() {
	c.t.Helper()
	for _, n := range c.nodes {
		select {
		case <-n.process.ended:
			c.t.Errorf("seat %d has ended with %d", n.seat, n.process.ProcessState.ExitCode())
		default:
		}
	}
}

// expectNone verifies that the loads of a name were granted nothing that they asked for, from one moment to another.
func (h *history) expectNone(name string, from, to time.Duration) {
	h.t.Helper()
	for _, e := range h.grantsOf(name) {
		if e.asked > from && e.granted < to {
			h.t.Errorf("%s: the cut-off leader granted token %d at %v, asked for at %v, between %v and %v", e.key, e.token, e.granted, e.asked, from, to)
		}
	}
}

// loseAll loses all from some hosts to others, and returns how that is undone.
func (n *network) loseAll(from, to []*host) (heal func()) {
	for _, a := range from {
		for _, b := range to {
			n.lose(a, b)
		}
	}
	return func() {
		for _, a := range from {
			for _, b := range to {
				n.find(a, b)
			}
		}
	}
}

// separate loses all between two groups of hosts.
func (n *network) separate(a, b []*host) (heal func()) {
	there, back := n.loseAll(a, b), n.loseAll(b, a)
	return func() { there(); back() }
}

func TestChaosPartition(t *testing.T) {
	unplugged := func(n *network, leader *host, _ []*host) func() {
		n.unplug(leader)
		return func() { n.plug(leader) }
	}
	for _, p := range []struct {
		name  string
		seats int
		tls   bool
		cut   func(n *network, leader *host, followers []*host) (heal func())
	}{
		{"leader unplugged", 3, false, unplugged},
		{"leader unplugged of five", 5, false, unplugged},
		{"leader alone with its clients", 3, false, func(n *network, leader *host, followers []*host) func() {
			return n.separate([]*host{leader}, followers)
		}},
		{"leader and one of five", 5, false, func(n *network, leader *host, followers []*host) func() {
			return n.separate([]*host{leader, followers[0]}, followers[1:])
		}},
		{"leader not heard, TLS", 3, true, func(n *network, leader *host, followers []*host) func() {
			return n.loseAll([]*host{leader}, followers)
		}},
		{"leader hears nobody", 3, false, func(n *network, leader *host, followers []*host) func() {
			return n.loseAll(followers, []*host{leader})
		}},
	} {
		t.Run(p.name, func(t *testing.T) {
			c := startNetworkedCluster(t, p.seats, 0, p.tls)
			leader := c.leader()
			var followers []*host
			for _, n := range c.others(leader) {
				followers = append(followers, c.hostOf(n))
			}
			h := newHistory(t)
			l := c.load(h, "all", c.clients, 8, c.clientAddrs()...)
			faithful := c.load(h, "faithful", c.hostOf(leader), 2, leader.client)
			l.progress()
			faithful.progress()

			var heal func()
			complete := c.failover(h, func() { heal = p.cut(c.network, c.hostOf(leader), followers) })
			c.expectDeposed(leader)
			l.progress()
			h.expectNone("faithful", complete, h.now())
			heal()
			c.awaitReady(c.nodes...)
			l.progress()
			faithful.progress()
			l.stop()
			faithful.stop()
			h.check()
			c.awaitEqual(c.nodes...)
			c.expectAlive()
		})
	}
}

// A leader and a follower that do not reach each other, while the third reaches both: the majority that there was goes on, and
// the follower, who hears of nobody, deposes nobody.
func TestChaosPartialPartition(t *testing.T) {
	c := startNetworkedCluster(t, 3, 0, false)
	leader := c.leader()
	before, _ := c.view(leader)
	deaf := c.others(leader)[0]
	h := newHistory(t)
	l := c.load(h, "all", c.clients, 8, c.clientAddrs()...)
	l.progress()
	c.network.isolate(true, c.hostOf(leader), c.hostOf(deaf))
	eventually(t, "the follower to miss its leader", func() bool {
		v, ok := c.view(deaf)
		return ok && !v.Ready
	})
	pause(2 * time.Second)
	l.progress()
	c.network.isolate(false, c.hostOf(leader), c.hostOf(deaf))
	c.awaitReady(c.nodes...)
	l.progress()
	l.stop()
	h.check()
	c.awaitEqual(c.nodes...)
	c.expectAlive()
	if after, _ := c.view(leader); after.Term != before.Term {
		t.Errorf("term %d before, %d after", before.Term, after.Term)
	}
}

// A leader that is cut off, alive and taken for dead is replaced. When it is back it finds its seat taken, and ends.
func TestChaosReplacedBehindPartition(t *testing.T) {
	c := startNetworkedCluster(t, 3, 1, false)
	old := c.leader()
	h := newHistory(t)
	l := c.load(h, "all", c.clients, 8, c.clientAddrs()...)
	faithful := c.load(h, "faithful", c.hostOf(old), 2, old.client)
	l.progress()
	faithful.progress()
	complete := c.failover(h, func() { c.network.unplug(c.hostOf(old)) })
	c.nodes = c.others(old)
	next := c.prepareReplacementAt(c.nodeAt(c.network.hosts[3], old.seat))
	c.start(next)
	c.awaitReady(next)
	h.expectNone("faithful", complete, h.now())
	select {
	case <-old.process.ended:
		t.Error("the old process ended before it could know")
	default:
	}
	c.network.plug(c.hostOf(old))
	old.process.wait().expect(t, exitConfig)
	l.progress()
	l.stop()
	faithful.stop()
	h.check()
	c.nodes = slices.Concat(c.nodes, []*chaosNode{next})
	c.awaitEqual(c.nodes...)
	c.expectAlive()
}
