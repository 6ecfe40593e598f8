package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ticketing.internal/client"
)

const clusterSecret = "a cluster secret of the tests"

// node is a seat of a cluster, and the process that runs for it.
type node struct {
	listen  string
	environ []string
	*server
}

type cluster []*node

// startCluster starts three nodes and waits until they are ready.
func startCluster(t *testing.T) cluster {
	t.Helper()
	var c cluster
	init := exec.Command(filepath.Join(os.Getenv(dirVariable), "ticketing"), "cluster", "init")
	init.Env = []string{"TICKETING_CLUSTER_SECRET=" + clusterSecret}
	for seat := 1; seat <= 3; seat++ {
		peer := localAddr(t)
		init.Args = append(init.Args, "--seat", fmt.Sprintf("%d=%s", seat, peer))
		c = append(c, &node{listen: localAddr(t), environ: []string{
			init.Env[0], fmt.Sprintf("TICKETING_SEAT=%d", seat), "TICKETING_PEER_LISTEN=" + peer,
			"TICKETING_STATE_DIR=" + filepath.Join(t.TempDir(), "state"), "TICKETING_ALLOW_VOLATILE_STATE_DIR=yes",
		}})
	}
	credential, err := init.Output()
	if err != nil {
		t.Fatalf("making the credential: %v", err)
	}
	for _, n := range c {
		n.environ = append(n.environ, "TICKETING_BOOTSTRAP="+strings.TrimSpace(string(credential)))
		n.start(t)
	}
	for _, n := range c {
		n.awaitReady(t)
	}
	return c
}

// localAddr is a loopback address with a free port.
func localAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts a process for n.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.server = startServer(t, n.listen, n.environ...)
}

// status is what the node says of itself; the zero value while it does not answer.
func (n *node) status() (s struct {
	Ready bool
	Role  string
}) {
	resp, err := (&http.Client{Timeout: testTime}).Get("http://" + n.admin + "/status")
	if err != nil {
		return s
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(&s) != nil {
		s.Ready, s.Role = false, ""
	}
	return s
}

func (n *node) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "the node at "+n.listen+" is ready", func() bool { return n.status().Ready })
}

// leader waits until a node leads and serves.
func (c cluster) leader(t *testing.T) (leader *node) {
	t.Helper()
	eventually(t, "a node leads", func() bool {
		for _, n := range c {
			if s := n.status(); s.Ready && s.Role == "leader" {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

func (c cluster) addrs() (list []string) {
	for _, n := range c {
		list = append(list, n.listen)
	}
	return list
}

// contest is a counter that clients increment in turns until they are told to stop, and what went wrong meanwhile.
type contest struct {
	counter
	added   atomic.Int64
	stopped atomic.Bool
	all     sync.WaitGroup

	mu       sync.Mutex
	failures map[string]int // of calls, by what they were and how they failed
}

// The leases are short: what a v0 client holds when its connection ends is free again when the lease is over, and not before.
const (
	contestKey   = "seat"
	contestLease = 3
)

func (c *contest) failed(call string, l locker, err error) {
	if errors.Is(err, client.ErrIndeterminate) {
		err = client.ErrIndeterminate // without its particulars
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[fmt.Sprintf("%s by %T: %v", call, l, err)]++
}

// compete increments by l until the contest is stopped.
func (c *contest) compete(t *testing.T, l locker) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !c.stopped.Load() {
		g, err := l.acquire(contestKey, int(testTime.Seconds()), contestLease)
		if err != nil {
			c.failed("acquire", l, err)
			if err != notConnected && !errors.Is(err, client.ErrIndeterminate) {
				t.Errorf("acquire by %T: %v", l, err)
			}
			<-again.C
			continue
		}
		c.add(t, contestKey, g)
		c.added.Add(1)
		if held, err := g.release(); err != nil {
			c.failed("release", l, err)
		} else if !held {
			c.failed("release", l, errors.New("not held"))
		}
	}
}

// progress waits for n more increments.
func (c *contest) progress(t *testing.T, n int64) {
	t.Helper()
	before := c.added.Load()
	eventually(t, fmt.Sprintf("%d increments", n), func() bool { return c.added.Load() >= before+n })
}

// A published client, and this project's own beside it, go on when the leader is killed, and when the node that was killed
// first is back and its successor is killed. No increment is lost. What was held at that moment cannot be given back by v0:
// its release names no token, so the key waits for the end of the lease.
func TestLeaderKilled(t *testing.T) {
	needsInstalled(t)
	forEachClient(t, func(t *testing.T, p published) {
		c := startCluster(t)
		d := p.start(t, strings.Join(c.addrs(), ","), testToken, "")
		if !d.ready(int(testTime.Seconds())) {
			t.Fatal("does not connect")
		}
		run := &contest{failures: map[string]int{}}
		for _, l := range []locker{d, d, d, newGoClientOf(t, c.addrs()...)} {
			run.all.Go(func() { run.compete(t, l) })
		}
		const kills = 2
		for range kills {
			run.progress(t, 50)
			leader := c.leader(t)
			leader.kill()
			run.progress(t, 50)
			leader.start(t)
			leader.awaitReady(t)
		}
		run.stopped.Store(true)
		run.all.Wait()
		if value, added := run.value.Load(), run.added.Load(); value != added {
			t.Errorf("the counter is at %d after %d increments", value, added)
		}
		t.Logf("%d increments; calls that failed: %v", run.added.Load(), run.failures)
	})
}
