package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const chaosSecret = "the cluster secret of the chaos tests"

// chaosNode is one node: its addresses, its state directory, and the process that runs for it, if one does.
type chaosNode struct {
	seat                int
	client, peer, admin string
	dir                 string
	environ             []string // beyond what all nodes have
	place               place
	process             *running
}

// chaosCluster is a cluster of real processes on this machine.
type chaosCluster struct {
	t         *testing.T
	nodes     []*chaosNode
	bootstrap string
	token     uint64   // the last that was granted when the cluster was ready
	environ   []string // of all nodes and of operators
	place     place    // of operators
}

// place runs a function where somebody is in the network; nil: on loopback, as all are who have no network of their own.
type place func(func())

func (p place) do(f func()) {
	if p == nil {
		f()
		return
	}
	p(f)
}

// requireChaos skips a test that takes long unless it is asked for.
func requireChaos(t *testing.T) {
	t.Helper()
	if os.Getenv("CHAOS") == "" {
		t.Skip("takes a while: make chaos (CHAOS=1) runs it")
	}
}

// localAddr is a loopback address with a free port.
func localAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func newChaosNode(t *testing.T, seat int) *chaosNode {
	t.Helper()
	return &chaosNode{seat: seat, client: localAddr(t), peer: localAddr(t), admin: localAddr(t), dir: t.TempDir()}
}

// newChaosCluster makes the credential of a cluster of n, and starts nothing.
func newChaosCluster(t *testing.T, n int) *chaosCluster {
	t.Helper()
	c := &chaosCluster{t: t, environ: []string{"TICKETING_CLUSTER_SECRET=" + chaosSecret}}
	for seat := 1; seat <= n; seat++ {
		c.nodes = append(c.nodes, newChaosNode(t, seat))
	}
	c.prepareBootstrap()
	return c
}

// prepareBootstrap makes the credential of the nodes.
func (c *chaosCluster) prepareBootstrap() {
	c.t.Helper()
	args := []string{"cluster", "init", "--valid", "60s"}
	for _, node := range c.nodes {
		args = append(args, "--seat", fmt.Sprintf("%d=%s", node.seat, node.peer))
	}
	c.bootstrap = strings.TrimSpace(run(c.t, c.environ, args...).expect(c.t, exitOK).stdout)
	for _, node := range c.nodes {
		node.environ = []string{"TICKETING_BOOTSTRAP=" + c.bootstrap, fmt.Sprintf("TICKETING_SEAT=%d", node.seat)}
	}
}

// startChaosCluster bootstraps a cluster of n.
func startChaosCluster(t *testing.T, n int) *chaosCluster {
	t.Helper()
	requireChaos(t)
	c := newChaosCluster(t, n)
	c.startAll()
	return c
}

// startAll starts the nodes and waits until all are ready.
func (c *chaosCluster) startAll() {
	c.t.Helper()
	for _, node := range c.nodes {
		c.start(node)
	}
	c.awaitReady(c.nodes...)
	c.token = c.lastToken()
}

// lastToken is the last token that the leader knows to be granted.
func (c *chaosCluster) lastToken() uint64 {
	c.t.Helper()
	v, _ := c.view(c.leader())
	token, err := strconv.ParseUint(v.Token, 10, 64)
	if err != nil {
		c.t.Fatalf("the leader's token %q: %v", v.Token, err)
	}
	return token
}

// start starts the process of a node.
func (c *chaosCluster) start(n *chaosNode) *running {
	c.t.Helper()
	environ := append(slices.Clone(c.environ), "TICKETING_LISTEN="+n.client, "TICKETING_ADMIN_LISTEN="+n.admin, "TICKETING_PEER_LISTEN="+n.peer,
		"TICKETING_STATE_DIR="+filepath.Join(n.dir, "state"), "TICKETING_ALLOW_VOLATILE_STATE_DIR=yes")
	n.place.do(func() { n.process = start(c.t, append(environ, n.environ...), "server") })
	p := n.process
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("node of seat %d (%s):\n%s", n.seat, n.client, p.stderr.String())
		}
	})
	return n.process
}

// kill ends a node as a power failure would.
func (c *chaosCluster) kill(n *chaosNode) {
	c.t.Helper()
	n.process.Process.Kill()
	<-n.process.ended
}

// nodeView is what /status says of a node, as far as the tests look.
type nodeView struct {
	nodeStatus
	StateHash    string `json:"state_hash"`
	AppliedIndex uint64 `json:"applied_index"`
}

// view asks a node about itself; ok is false while it does not answer.
func (c *chaosCluster) view(n *chaosNode) (v nodeView, ok bool) {
	var o outcome
	n.place.do(func() { o = run(c.t, nil, "status", "--json", "--admin", "http://"+n.admin) })
	if json.Unmarshal([]byte(o.stdout), &v) != nil {
		return v, false
	}
	return v, v.Mode != ""
}

// awaitReady waits until each of the nodes serves or follows one that does.
func (c *chaosCluster) awaitReady(nodes ...*chaosNode) {
	c.t.Helper()
	for _, n := range nodes {
		eventually(c.t, fmt.Sprintf("seat %d to be ready", n.seat), func() bool {
			v, ok := c.view(n)
			return ok && v.Ready
		})
	}
}

// leader waits until one of the running nodes leads and serves.
func (c *chaosCluster) leader() *chaosNode {
	c.t.Helper()
	var leader *chaosNode
	eventually(c.t, "a leader that serves", func() bool {
		for _, n := range c.nodes {
			if v, ok := c.view(n); ok && v.Role == "leader" && v.Ready {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

// others are the nodes but n.
func (c *chaosCluster) others(n *chaosNode) []*chaosNode {
	var list []*chaosNode
	for _, o := range c.nodes {
		if o != n {
			list = append(list, o)
		}
	}
	return list
}

// clientAddrs are where clients find the nodes.
func (c *chaosCluster) clientAddrs() []string {
	var list []string
	for _, n := range c.nodes {
		list = append(list, n.client)
	}
	return list
}

// control runs `ticketing cluster ...` against the running nodes.
func (c *chaosCluster) control(args ...string) outcome {
	c.t.Helper()
	args = append([]string{"cluster"}, args...)
	for _, n := range c.nodes {
		args = append(args, "--peer", n.peer)
	}
	var o outcome
	c.place.do(func() { o = run(c.t, c.environ, args...) })
	return o
}

// awaitEqual waits until the nodes hold the same state.
func (c *chaosCluster) awaitEqual(nodes ...*chaosNode) {
	c.t.Helper()
	eventually(c.t, "equal states", func() bool {
		hashes := map[string]bool{}
		for _, n := range nodes {
			v, ok := c.view(n)
			if !ok {
				return false
			}
			hashes[fmt.Sprint(v.StateHash, v.AppliedIndex)] = true
		}
		return len(hashes) == 1
	})
}

// awaitEmpty waits until no lock is held: whatever was granted and never given back is out of its lease then.
func (c *chaosCluster) awaitEmpty() {
	c.t.Helper()
	leader := c.leader()
	eventually(c.t, "the end of all leases", func() bool {
		v, ok := c.view(leader)
		return ok && v.HeldKeys == 0
	})
}

// progress waits for more grants than there were.
func (l *chaosLoad) progress() {
	l.t.Helper()
	before := len(l.grantsOf(l.name))
	eventually(l.t, "grants to go on", func() bool { return len(l.grantsOf(l.name)) > before+20 })
}

func TestChaosLeaderKilled(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := startLoad(newHistory(t), c.clientAddrs(), 8, 4)
	for range 3 {
		l.progress()
		leader := c.leader()
		c.kill(leader)
		l.progress()
		c.start(leader)
		c.awaitReady(leader)
	}
	l.stop()
	l.check()
	l.checkTokens(c.token, c.lastToken())
	c.awaitEmpty()
	c.awaitEqual(c.nodes...)
}

func TestChaosLeaderStopped(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := startLoad(newHistory(t), c.clientAddrs(), 8, 4)
	l.progress()
	leader := c.leader()
	leader.process.signal(syscall.SIGSTOP)
	pause(5 * time.Second)
	l.progress()
	leader.process.signal(syscall.SIGCONT)
	c.awaitReady(leader)
	l.progress()
	l.stop()
	l.check()
	l.checkTokens(c.token, c.lastToken())
	c.awaitEqual(c.nodes...)
}

func TestChaosFollowerKilled(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := startLoad(newHistory(t), c.clientAddrs(), 8, 4)
	follower := c.others(c.leader())[0]
	l.progress()
	c.kill(follower)
	l.progress()
	c.start(follower)
	c.awaitReady(follower)
	l.stop()
	l.check()
	l.checkTokens(c.token, c.lastToken())
	c.awaitEqual(c.nodes...)
}

func TestChaosRollingReboot(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := startLoad(newHistory(t), c.clientAddrs(), 8, 4)
	for _, n := range c.nodes {
		l.progress()
		eventually(t, fmt.Sprintf("seat %d to be allowed to stop", n.seat), func() bool {
			return c.control("can-stop", "--seat", fmt.Sprint(n.seat)).code == exitOK
		})
		n.process.signal(syscall.SIGTERM)
		n.process.wait().expect(t, exitOK)
		l.progress()
		c.start(n)
		c.awaitReady(n)
	}
	l.stop()
	l.check()
	l.checkTokens(c.token, c.lastToken())
	c.awaitEqual(c.nodes...)
}

// Without a majority nothing is granted, never again, and the nodes say so.
func TestChaosMajorityLost(t *testing.T) {
	c := startChaosCluster(t, 3)
	leader := c.leader()
	addrs := strings.Join(c.clientAddrs(), ",")
	run(t, nil, "acquire", "--addr", addrs, "--lease", "60s", "before").expect(t, exitOK)
	followers := c.others(leader)
	for _, n := range followers {
		c.kill(n)
	}
	eventually(t, "the leader to step down", func() bool {
		v, ok := c.view(leader)
		return ok && !v.Ready && v.Role != "leader"
	})
	run(t, nil, "acquire", "--addr", leader.client, "--wait", "1s", "after").expect(t, exitUnreachable)
	for _, n := range followers {
		c.start(n) // they ask to be replaced, which nobody can grant
	}
	pause(3 * time.Second)
	for _, n := range c.nodes {
		if v, ok := c.view(n); !ok || v.Ready || v.WhyNotReady == "" {
			t.Errorf("seat %d: ready %v, %q", n.seat, v.Ready, v.WhyNotReady)
		}
	}
	run(t, nil, "acquire", "--addr", addrs, "--wait", "1s", "after").expect(t, exitUnreachable)
}

// All processes end, and are started with the environment of before while the credential is still valid: the domain is over.
func TestChaosAllRestarted(t *testing.T) {
	c := startChaosCluster(t, 3)
	addrs := strings.Join(c.clientAddrs(), ",")
	run(t, nil, "acquire", "--addr", addrs, "--lease", "60s", "before").expect(t, exitOK)
	for _, n := range c.nodes {
		c.kill(n)
	}
	for _, n := range c.nodes {
		c.start(n)
	}
	pause(4 * time.Second)
	for _, n := range c.nodes {
		select {
		case <-n.process.ended:
			t.Errorf("seat %d has ended with %d: %s", n.seat, n.process.ProcessState.ExitCode(), n.process.stderr.String())
		default:
		}
		if v, ok := c.view(n); !ok || v.Ready || v.Role != "joining" {
			t.Errorf("seat %d: role %q, ready %v", n.seat, v.Role, v.Ready)
		}
	}
	run(t, nil, "acquire", "--addr", addrs, "--wait", "1s", "after").expect(t, exitUnreachable)
}

// A joined node whose credential was taken from its environment is still a node after a reboot.
func TestChaosReplaceAndReboot(t *testing.T) {
	c := startChaosCluster(t, 3)
	old := c.others(c.leader())[0]
	c.kill(old)
	next := newChaosNode(t, old.seat)
	credential := strings.TrimSpace(c.control("replace", "--seat", fmt.Sprint(old.seat), "--peer-addr", next.peer).expect(t, exitOK).stdout)
	if o := c.control("replace", "--seat", fmt.Sprint(old.seat), "--peer-addr", localAddr(t)); o.code != exitNegative {
		t.Fatalf("a second replacement at once: exit code %d, %s", o.code, o.stderr)
	}
	peers := "TICKETING_PEERS=" + strings.Join([]string{c.nodes[0].peer, c.nodes[1].peer, c.nodes[2].peer}, ",")
	next.environ = []string{"TICKETING_JOIN=" + credential, peers}
	c.nodes[old.seat-1] = next
	c.start(next)
	c.awaitReady(next)

	// Another process with the same credential, while the first one has its NodeId.
	second := newChaosNode(t, old.seat)
	second.environ = next.environ
	c.start(second).wait().expect(t, exitConfig)

	next.environ = nil // rebooted without the credential
	c.kill(next)
	c.start(next)
	c.awaitReady(next)

	// The retired process, and a second use of either credential, end with 78.
	c.start(old).wait().expect(t, exitConfig)
	thief := newChaosNode(t, old.seat)
	thief.peer = next.peer
	thief.environ = []string{"TICKETING_JOIN=" + credential, peers}
	c.kill(next)
	c.start(thief).wait().expect(t, exitConfig)
	c.start(next)
	c.awaitReady(c.nodes...)
	c.awaitEqual(c.nodes...)
}
