package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
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
	listen              string // its peer port, if a gate stands at peer; "": that is peer
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
	history   *history
	loads     []*chaosLoad
	token     uint64   // the last that was granted when the history began
	environ   []string // of all nodes and of operators
	place     place    // of clients and operators
	gates     *gates   // at the peer ports of all nodes; nil: there are none
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

// dial is a Dialer.
func (p place) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	p.do(func() { conn, err = new(net.Dialer).DialContext(ctx, network, addr) })
	return conn, err
}

// requireChaos skips a test that takes long unless it is asked for.
func requireChaos(t *testing.T) {
	t.Helper()
	if os.Getenv("CHAOS") == "" {
		t.Skip("takes a while: make chaos (CHAOS=1) runs it")
	}
}

// parallelChaos is requireChaos for a test that waits for most of its time, and may do so beside others.
func parallelChaos(t *testing.T) {
	t.Helper()
	requireChaos(t)
	t.Parallel()
}

// localAddr is a loopback address with a free port. On Linux its host is one that nobody else has, for else, between the end of a
// process and its next start, a connection to anywhere could be given the port.
func localAddr(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("127.%d.%d.%d:25225", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	}
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
	c.prepareBootstrap(time.Minute)
	return c
}

// prepareBootstrap makes the credential of the nodes.
func (c *chaosCluster) prepareBootstrap(valid time.Duration) {
	c.t.Helper()
	args := []string{"cluster", "init", "--valid", valid.String()}
	for _, node := range c.nodes {
		args = append(args, "--seat", fmt.Sprintf("%d=%s", node.seat, node.peer))
	}
	c.bootstrap = strings.TrimSpace(run(c.t, c.environ, args...).expect(c.t, exitOK).stdout)
	for _, node := range c.nodes {
		node.environ = []string{"TICKETING_BOOTSTRAP=" + c.bootstrap, fmt.Sprintf("TICKETING_SEAT=%d", node.seat)}
	}
}

// peerTLS is the environment of nodes at those addresses that speak TLS to each other.
func peerTLS(t *testing.T, hosts ...net.IP) []string {
	t.Helper()
	cert, key := selfSigned(t, hosts...)
	return []string{"TICKETING_PEER_TLS_CERT=" + cert, "TICKETING_PEER_TLS_KEY=" + key, "TICKETING_PEER_TLS_CA=" + cert}
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
	c.history, c.token = newHistory(), c.lastToken()
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
	environ := append(slices.Clone(c.environ), "TICKETING_LISTEN="+n.client, "TICKETING_ADMIN_LISTEN="+n.admin,
		"TICKETING_PEER_LISTEN="+cmp.Or(n.listen, n.peer),
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

// freeze makes the process of a node stand still: when it returns, where /proc tells, none of its threads runs any more.
func (n *chaosNode) freeze() {
	n.process.t.Helper()
	n.process.signal(syscall.SIGSTOP)
	eventually(n.process.t, fmt.Sprintf("seat %d to stand still", n.seat), func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", n.process.Process.Pid))
		return !slices.ContainsFunc(threads, func(path string) bool {
			stat, _ := os.ReadFile(path)
			_, state, _ := bytes.Cut(stat, []byte(") "))
			return !bytes.HasPrefix(state, []byte("T"))
		})
	})
}

// nodeView is what /status says of a node, as far as the tests look.
type nodeView struct {
	nodeStatus
	StateHash    string `json:"state_hash"`
	AppliedIndex uint64 `json:"applied_index"`
}

// view asks a node about itself; ok is false while it does not answer.
func (c *chaosCluster) view(n *chaosNode) (v nodeView, ok bool) {
	c.t.Helper()
	asking := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.place.dial}}
	answer, err := asking.Get("http://" + n.admin + "/status")
	if err != nil {
		return v, false
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&v); err != nil {
		return v, false
	}
	return v, v.Mode != ""
}

// awaitReady waits until each of the nodes serves or follows one that does.
func (c *chaosCluster) awaitReady(nodes ...*chaosNode) {
	c.t.Helper()
	for _, n := range nodes {
		eventually(c.t, fmt.Sprintf("seat %d to be ready", n.seat), func() bool {
			c.expectAlive(n)
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

// load starts clients that know all nodes. They have half as many auditors as workers.
func (c *chaosCluster) load() *chaosLoad {
	c.t.Helper()
	return c.loadAs("all", c.place, 8, 3*time.Second, c.clientAddrs()...)
}

// loyalLoad starts clients beside a node that know no other, and wait for its replies for as long as any test cuts it off.
func (c *chaosCluster) loyalLoad(n *chaosNode) *chaosLoad {
	c.t.Helper()
	return c.loadAs("loyal", n.place, 2, testTime, n.client)
}

func (c *chaosCluster) loadAs(name string, place place, workers int, patience time.Duration, addrs ...string) *chaosLoad {
	c.t.Helper()
	l := startLoad(c.t, c.history, name, place, workers, patience, addrs...)
	c.loads = append(c.loads, l)
	return l
}

// expectAlive verifies that no process of the nodes has ended.
func (c *chaosCluster) expectAlive(nodes ...*chaosNode) {
	c.t.Helper()
	for _, n := range nodes {
		select {
		case <-n.process.ended:
			c.t.Fatalf("seat %d has ended with %d: %s", n.seat, n.process.ProcessState.ExitCode(), n.process.stderr.String())
		default:
		}
	}
}

// finish ends a test whose cluster is whole again: the loads stop, the nodes hold what clients believe that they hold, all of them
// the same, and everything that clients were told was true.
func (c *chaosCluster) finish() {
	c.t.Helper()
	c.awaitReady(c.nodes...)
	for _, l := range c.loads {
		l.stop()
		for _, a := range l.auditors {
			c.audit(a)
		}
	}
	c.history.check(c.t, c.token, c.lastToken())
	c.awaitEqual(c.nodes...)
	c.expectAlive(c.nodes...)
}

// audit verifies with the leader that all is as an auditor believes, gives its locks back, and ends its books.
func (c *chaosCluster) audit(a *auditor) {
	c.t.Helper()
	eventually(c.t, "the audit of "+a.name, func() bool {
		conn, err := dialFrames(c.place, c.leader().client, a.now)
		if err != nil {
			return false
		}
		defer conn.Close()
		return a.close(conn) == nil
	})
	a.settle()
}
