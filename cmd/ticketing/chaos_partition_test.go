//go:build linux

package main

import (
	"fmt"
	"net"
	"testing"
	"time"
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
		c.environ = append(c.environ, peerTLS(t, addrs...)...)
	}
	for seat := 1; seat <= seats; seat++ {
		c.nodes = append(c.nodes, c.nodeAt(n.hosts[seat-1], seat))
	}
	c.prepareBootstrap(time.Minute)
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

// probe asks for another lock at a steady pace, whatever became of those before: when none is granted nobody serves.
func (l *chaosLoad) probe(interval time.Duration) {
	for i := 0; !l.quit.Load(); i++ {
		l.wg.Go(func() { l.once(fmt.Sprintf("probe-%d", i), loadWait, loadLease, 0) })
		pause(interval)
	}
}

// lastFailover is far beyond what a failover takes, for machines with much else to do.
const lastFailover = 5 * time.Second

// failover makes a partition and waits until clients are served again by who can. It returns when the partition was complete.
func (c *networkedCluster) failover(partition func()) (complete time.Duration) {
	c.t.Helper()
	p := c.loadAs("probe", c.place, 0, 0, c.clientAddrs()...)
	p.wg.Go(func() { p.probe(20 * time.Millisecond) })
	served := func(after time.Duration) (first time.Duration) {
		c.t.Helper()
		eventually(c.t, "a grant", func() bool {
			for _, e := range p.grantsOf(p.name) {
				if e.asked > after && (first == 0 || e.granted < first) {
					first = e.granted
				}
			}
			return first != 0
		})
		return first
	}
	served(0)
	begin := c.history.now()
	partition()
	complete = c.history.now()
	took := served(complete) - begin
	c.t.Logf("partition within %v, next grant after %v", (complete - begin).Round(time.Millisecond), took.Round(time.Millisecond))
	if took > lastFailover {
		c.t.Errorf("the next grant came %v after the partition", took)
	}
	return complete
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
	requireChaos(t)
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
			t.Parallel()
			c := startNetworkedCluster(t, p.seats, 0, p.tls)
			leader := c.leader()
			var followers []*host
			for _, n := range c.others(leader) {
				followers = append(followers, c.hostOf(n))
			}
			l, loyal := c.load(), c.loyalLoad(leader)
			l.progress()
			loyal.progress()

			var heal func()
			complete := c.failover(func() { heal = p.cut(c.network, c.hostOf(leader), followers) })
			c.expectDeposed(leader)
			l.progress()
			c.history.expectNone(t, loyal.name, complete, c.history.now())
			heal()
			c.awaitReady(c.nodes...)
			l.progress()
			c.finish()
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
	l := c.load()
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
	c.finish()
	if after, _ := c.view(leader); after.Term != before.Term {
		t.Errorf("term %d before, %d after", before.Term, after.Term)
	}
}

// A leader that is cut off, alive and taken for dead is replaced. When it is back it finds its seat taken, and ends.
func TestChaosReplacedBehindPartition(t *testing.T) {
	c := startNetworkedCluster(t, 3, 1, false)
	old := c.leader()
	l, loyal := c.load(), c.loyalLoad(old)
	l.progress()
	loyal.progress()
	complete := c.failover(func() { c.network.unplug(c.hostOf(old)) })
	c.nodes = c.others(old)
	next := c.prepareReplacementAt(c.nodeAt(c.network.hosts[3], old.seat))
	c.start(next)
	c.awaitReady(next)
	c.history.expectNone(t, loyal.name, complete, c.history.now())
	c.expectAlive(old) // it cannot know yet
	c.network.plug(c.hostOf(old))
	old.process.wait().expect(t, exitConfig)
	l.progress()
	c.nodes = append(c.nodes, next)
	c.finish()
}

// A cut that lasts makes the kernel wait longer and longer before it sends again. The nodes do not wait for that once the path is
// there: they make new connections.
func TestChaosLongCut(t *testing.T) {
	t.Parallel()
	c := startNetworkedCluster(t, 3, 0, false)
	l := c.load()
	l.progress()
	hosts := c.network.hosts[:3]
	first, rest := c.network.separate(hosts[:1], hosts[1:]), c.network.separate(hosts[1:2], hosts[2:])
	pause(9 * time.Second) // the kernel would send again 12.6 s after the first loss
	first()
	rest()
	healed := time.Now()
	l.progress()
	if took := time.Since(healed); took > 3*time.Second {
		t.Errorf("grants go on %v after the end of a cut", took)
	}
	c.awaitReady(c.nodes...)
	c.finish()
}
