//go:build linux || darwin

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/server"
)

// node is one member of a cluster, as a process that can be ended and started again.
type node struct {
	process
	client, peer, admin string
	dir                 string
}

// startCluster returns three nodes that serve.
func startCluster(t *testing.T) []*node {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real clusters: left out by -short")
	}
	const secret = "the cluster secret of these tests"
	domain := server.NewDomain{Seats: map[int]string{}, Secrets: [][]byte{[]byte(secret)}, Valid: time.Minute}
	var nodes []*node
	for seat := range 3 {
		n := &node{process: process{TB: t}, client: freeAddr(t), peer: freeAddr(t), admin: freeAddr(t), dir: t.TempDir()}
		nodes = append(nodes, n)
		domain.Seats[seat+1] = n.peer
	}
	bootstrap, _, err := domain.Mint(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for seat, n := range nodes {
		n.environ = []string{
			"TICKETING_LISTEN=" + n.client, "TICKETING_PEER_LISTEN=" + n.peer, "TICKETING_ADMIN_LISTEN=" + n.admin,
			"TICKETING_STATE_DIR=" + n.dir, "TICKETING_ALLOW_VOLATILE_STATE_DIR=yes", "TICKETING_CLUSTER_SECRET=" + secret,
			"TICKETING_BOOTSTRAP=" + bootstrap, fmt.Sprint("TICKETING_SEAT=", seat+1),
		}
		n.start()
		t.Cleanup(n.kill)
	}
	for _, n := range nodes {
		n.awaitReady()
	}
	return nodes
}

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

func (n *node) awaitReady() {
	n.Helper()
	last := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		answer, err := http.Get("http://" + n.admin + "/readyz")
		if err != nil {
			last = err.Error()
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return
		}
		last = string(body)
	}
	n.Fatalf("the node is not ready after a minute: %s", last)
}

func TestClusterLeaderKilledUnderLoad(t *testing.T) {
	nodes := startCluster(t)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.client)
	}
	b, err := client.New(client.Config{Addrs: addrs, Token: processToken})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	leader := func() int {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
			if i := slices.Index(addrs, b.Stats().Leader); i >= 0 && b.Stats().Serving > 0 {
				return i
			}
		}
		t.Fatalf("no leader in a minute: %+v", b.Stats())
		return 0
	}

	// Every acquire has a key of its own and a lease that outlasts the test: a key that is not free afterwards was granted.
	const lease = 200 * time.Second
	var mu sync.Mutex
	free := map[string]string{} // keys of which the caller was told that nobody holds them, and how
	var outcomes [5]atomic.Int64
	names := []string{"granted and released", "busy", "indeterminate", "given up before it was sent", "release not confirmed"}
	count := func(i int, key string) {
		outcomes[i].Add(1)
		if i != 2 && i != 4 {
			mu.Lock()
			free[key] = names[i]
			mu.Unlock()
		}
	}
	over, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 7))
			for n := 0; over.Err() == nil; n++ {
				key := fmt.Sprintf("key-%d-%d", i, n)
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(50) == 0 {
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(random.IntN(2000))*time.Microsecond)
				}
				ticket, err := b.Acquire(ctx, key, 5*time.Second, lease)
				cancel()
				switch {
				case err == nil:
					switch err := ticket.Release(t.Context()); {
					case err == nil:
						count(0, key)
					case errors.Is(err, client.ErrUnconfirmed):
						count(4, key)
					default:
						t.Errorf("%s: release: %v", key, err)
					}
				case errors.Is(err, client.ErrIndeterminate):
					count(2, key)
				case errors.Is(err, client.ErrBusy):
					count(1, key)
					<-time.After(5 * time.Millisecond)
				case errors.Is(err, context.DeadlineExceeded):
					count(3, key)
				default:
					t.Errorf("%s: an outcome of no kind: %v", key, err)
				}
				<-time.After(time.Millisecond)
			}
		})
	}
	progress := func() {
		t.Helper()
		began := time.Now()
		for target := outcomes[0].Load() + 1000; outcomes[0].Load() < target; <-time.After(5 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("no progress in a minute: %+v", b.Stats())
			}
		}
	}
	defer all.Wait()
	defer stop()
	progress()
	kills := 1
	if os.Getenv("CHAOS") != "" {
		kills = 5 // each after the node killed before has come back
	}
	for kill := range kills {
		i := leader()
		nodes[i].kill()
		began := time.Now()
		for granted := b.Stats().Granted; b.Stats().Granted == granted; <-time.After(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("no grant in the minute after the leader was killed: %+v", b.Stats())
			}
		}
		t.Logf("the next grant came %v after the leader was killed", time.Since(began))
		progress()
		if kill < kills-1 {
			nodes[i].start()
			nodes[i].awaitReady()
			progress()
		}
	}
	stop()
	all.Wait()
	for i, name := range names {
		t.Logf("%-28s %d", name, outcomes[i].Load())
	}
	for b.Stats().Waiting+b.Stats().Releases > 0 {
		<-time.After(time.Millisecond)
	}
	var checks sync.WaitGroup
	room := make(chan struct{}, 500)
	for key, how := range free {
		room <- struct{}{}
		checks.Go(func() {
			if _, err := b.TryAcquire(t.Context(), key, time.Second); err != nil {
				t.Errorf("%s (%s) is not free: %v", key, how, err)
			}
			<-room
		})
	}
	checks.Wait()
	if outcomes[2].Load() == 0 || outcomes[0].Load() < 1000 {
		t.Error("too little happened for the test to say anything")
	}
}
