package interop

import (
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const anyPort = "127.0.0.1:0"

// counter is incremented under a lock, in steps that lose increments without it.
type counter struct {
	value, inside atomic.Int64
	lastToken     atomic.Uint64
}

// contend lets `workers` of each locker increment the counter of each key `rounds` times.
func contend(t *testing.T, keys []string, workers, rounds int, lockers ...locker) {
	t.Helper()
	counters := make([]counter, len(keys))
	var all sync.WaitGroup
	for _, l := range lockers {
		for k, key := range keys {
			for range workers {
				all.Go(func() {
					for range rounds {
						if !increment(t, &counters[k], l, key) {
							return
						}
					}
				})
			}
		}
	}
	all.Wait()
	for k := range counters {
		if got, want := counters[k].value.Load(), int64(len(lockers)*workers*rounds); got != want {
			t.Errorf("key %q: the counter is at %d; want %d", keys[k], got, want)
		}
	}
}

// add increments c, which is under the lock of key that g is.
func (c *counter) add(t *testing.T, key string, g grant) {
	if !c.inside.CompareAndSwap(0, 1) {
		t.Errorf("two hold %q", key)
	}
	if last := c.lastToken.Swap(g.token); g.token <= last {
		t.Errorf("key %q: token %d after %d", key, g.token, last)
	}
	value := c.value.Load()
	runtime.Gosched()
	c.value.Store(value + 1)
	c.inside.Store(0)
}

func increment(t *testing.T, c *counter, l locker, key string) bool {
	g, err := l.acquire(key, 60, 60)
	if err != nil {
		t.Errorf("acquire of %q by %T: %v", key, l, err)
		return false
	}
	c.add(t, key, g)
	held, err := g.release()
	if !held || err != nil {
		t.Errorf("release of %q by %T: %v, %v", key, l, held, err)
	}
	return held
}

func TestContendedCounters(t *testing.T) {
	needsInstalled(t)
	forEachClient(t, func(t *testing.T, p published) {
		s := startServer(t, anyPort)
		contend(t, []string{"seat-1", "열쇠-🔑", strings.Repeat("k", 128)}, 4, 50, p.startReady(t, s))
	})
}

// Several processes in different languages, and this project's own client, on the same keys.
func TestContendedCountersOfAllClients(t *testing.T) {
	needsInstalled(t)
	s := startServer(t, anyPort)
	lockers := []locker{newGoClient(t, s)}
	for _, p := range publishedClients() {
		if p.isInstalled() {
			lockers = append(lockers, p.startReady(t, s), p.startReady(t, s))
		}
	}
	contend(t, []string{"seat-1", "seat-2"}, 2, 50, lockers...)
}

func TestOneQueueForAllClients(t *testing.T) {
	needsInstalled(t)
	s := startServer(t, anyPort)
	own := newGoClient(t, s)
	lockers := []locker{own}
	for _, p := range publishedClients() {
		if p.isInstalled() {
			lockers = append(lockers, p.startReady(t, s))
		}
	}
	holder := mustAcquire(t, own, "seat", 60)
	var order []int // appended to under the lock "seat" alone, so that it needs no other
	var want []int
	var all sync.WaitGroup
	for i := range 3 * len(lockers) {
		want = append(want, i)
		all.Go(func() {
			g, err := lockers[i%len(lockers)].acquire("seat", 60, 60)
			if err != nil {
				t.Errorf("acquire %d: %v", i, err)
				return
			}
			order = append(order, i)
			mustRelease(t, g, true)
		})
		s.awaitWaiters(t, i+1)
	}
	mustRelease(t, holder, true)
	all.Wait()
	if !slices.Equal(order, want) {
		t.Errorf("granted in the order %v", order)
	}
}

func TestTimeout(t *testing.T) {
	needsInstalled(t)
	forEachClient(t, func(t *testing.T, p published) {
		s := startServer(t, anyPort)
		d := p.startReady(t, s)
		holder := mustAcquire(t, newGoClient(t, s), "seat", 60)
		began := time.Now()
		if _, err := d.acquire("seat", 1, 60); err != timedOut {
			t.Errorf("acquire of a held key: %v; want %v", err, timedOut)
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("gave up after %v; want 1s", took)
		}
		s.awaitWaiters(t, 0)
		mustRelease(t, holder, true)
		mustRelease(t, mustAcquire(t, d, "seat", 60), true)
	})
}

func TestReleaseOfALeaseThatEnded(t *testing.T) {
	needsInstalled(t)
	forEachClient(t, func(t *testing.T, p published) {
		s := startServer(t, anyPort)
		d := p.startReady(t, s)
		late := mustAcquire(t, d, "seat", 1)
		next := mustAcquire(t, newGoClient(t, s), "seat", 60)
		if next.token <= late.token {
			t.Errorf("token %d after %d", next.token, late.token)
		}
		mustRelease(t, late, false)
		if _, err := d.acquire("seat", 1, 60); err != timedOut {
			t.Errorf("the late release freed the next holder's lock: %v", err)
		}
		mustRelease(t, next, true)
	})
}

func TestWhatTheServerRefuses(t *testing.T) {
	needsInstalled(t)
	forEachClient(t, func(t *testing.T, p published) {
		d := p.startReady(t, startServer(t, anyPort))
		for _, tt := range []struct {
			name  string
			key   string
			lease int
		}{{"a control character in the key", "a\x01b", 60}, {"a lease over 250 s", "seat", 251}} {
			began := time.Now()
			if _, err := d.acquire(tt.key, 60, tt.lease); err != timedOut {
				t.Errorf("%s: %v; want %v", tt.name, err, timedOut)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: the caller was left hanging for %v", tt.name, took)
			}
		}
		mustRelease(t, mustAcquire(t, d, "seat", 250), true)
	})
}

func TestReconnect(t *testing.T) {
	needsInstalled(t)
	forEachClient(t, func(t *testing.T, p published) {
		s := startServer(t, anyPort)
		d := p.startReady(t, s)
		before := mustAcquire(t, d, "seat", 60)
		s.kill()
		startServer(t, s.addr)
		var after grant
		eventually(t, "the client is connected again", func() (ok bool) {
			var err error
			after, err = d.acquire("other", 20, 60)
			if err != nil && err != notConnected {
				t.Fatalf("acquire after the restart: %v", err)
			}
			return err == nil
		})
		if after.token <= before.token {
			t.Errorf("token %d after the restart, %d before", after.token, before.token)
		}
		mustRelease(t, after, true)
		mustRelease(t, before, false)
	})
}

func TestKilledClient(t *testing.T) {
	needsInstalled(t)
	forEachClient(t, func(t *testing.T, p published) {
		s := startServer(t, anyPort)
		own := newGoClient(t, s)
		victim := p.startReady(t, s)
		mustAcquire(t, victim, "held", 3)
		taken := mustAcquire(t, own, "taken", 60)
		go victim.acquire("taken", 60, 60)
		s.awaitWaiters(t, 1)
		victim.cmd.Process.Kill()
		s.awaitWaiters(t, 0) // a waiter dies with its connection
		if _, err := p.startReady(t, s).acquire("held", 1, 60); err != timedOut {
			t.Errorf("a holder died with its connection: %v", err)
		}
		mustRelease(t, mustAcquire(t, own, "held", 60), true) // by the end of the lease
		mustRelease(t, taken, true)
	})
}

func TestWrongToken(t *testing.T) {
	needsInstalled(t)
	forEachClient(t, func(t *testing.T, p published) {
		s := startServer(t, anyPort)
		right := p.startReady(t, s)
		wrong := p.start(t, s.addr, testToken+"x", "")
		wrong.ready(1)
		if g, err := wrong.acquire("seat", 2, 60); err != timedOut && err != notConnected {
			t.Errorf("acquire with a wrong token: %+v, %v", g, err)
		}
		mustRelease(t, mustAcquire(t, right, "seat", 60), true)
	})
}

func TestTLS(t *testing.T) {
	needsInstalled(t)
	files := newCertificates(t)
	forEachClient(t, func(t *testing.T, p published) {
		s := startServer(t, anyPort, "TICKETING_TLS_CERT="+files.cert, "TICKETING_TLS_KEY="+files.key)
		_, port, err := net.SplitHostPort(s.addr)
		if err != nil {
			t.Fatal(err)
		}
		addr := net.JoinHostPort("localhost", port)
		d := p.start(t, addr, testToken, files.ca)
		if !d.ready(int(testTime.Seconds())) {
			t.Fatalf("does not connect by TLS\n%s", s.log())
		}
		mustRelease(t, mustAcquire(t, d, "seat", 60), true)
		if p.start(t, addr, testToken, files.otherCA).ready(1) {
			t.Error("connects although the server's certificate is of another CA")
		}
		if p.start(t, addr, testToken, "").ready(1) {
			t.Error("connects in plaintext to a TLS port")
		}
	})
}
