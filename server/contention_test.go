package server

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"ticketing.internal/wire"
)

// Clients on several loops, or on streams, contend for few keys. One holds at a time, and tokens of a key only grow.
func TestContention(t *testing.T) {
	t.Run("three loops", func(t *testing.T) {
		ts := runServer(t, openServer(t, 3, nil), nil)
		contend(t, ts, func() *testClient { return ts.session(t) })
	})
	t.Run("streams", func(t *testing.T) {
		ts, trust := startTLS(t, nil)
		contend(t, ts, func() *testClient { return ts.dialTLS(t, trust).login("", "x") })
	})
	t.Run("loops and v0", func(t *testing.T) {
		ts := runServer(t, openServer(t, 2, nil), nil)
		var n atomic.Int32
		contend(t, ts, func() *testClient {
			if n.Add(1)%2 == 0 {
				return ts.legacy(t)
			}
			return ts.session(t)
		})
	})
}

const (
	contenders    = 12
	contendedKeys = 3
	contendRounds = 100
)

func contend(t *testing.T, ts *testServer, connect func() *testClient) {
	var holders [contendedKeys]atomic.Int32
	var last [contendedKeys]atomic.Uint64
	var wg sync.WaitGroup
	for i := range contenders {
		c := connect()
		wg.Add(1)
		go func() {
			defer wg.Done()
			for round := range contendRounds {
				k := (i + round) % contendedKeys
				key := fmt.Sprintf("contended-%d", k)
				token := c.lock(key, uint64(round)+1)
				if n := holders[k].Add(1); n != 1 {
					t.Errorf("%d holders of %s", n, key)
				}
				if before := last[k].Swap(token); before >= token {
					t.Errorf("token %d of %s after %d", token, key, before)
				}
				holders[k].Add(-1)
				c.unlock(key, uint64(round)+1, token)
			}
		}()
	}
	wg.Wait()
	await(t, "nothing held and nobody waiting", func() bool { s := ts.stats(); return s.Held == 0 && s.Waiters == 0 })
	ts.engine.mu.Lock()
	defer ts.engine.mu.Unlock()
	if err := ts.engine.manager.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// lock acquires key in the client's protocol.
func (c *testClient) lock(key string, owner uint64) (token uint64) {
	if c.welcome.Role == 0 {
		c.send(acquireV0(key, 60, 60))
		return c.expectGrant(key)
	}
	c.send(acquire(owner, key, 60_000, 60_000))
	return c.expect(wire.OpGranted, 0, owner).Token
}

func (c *testClient) unlock(key string, owner, token uint64) {
	if c.welcome.Role == 0 {
		c.send(releaseV0(key))
		c.expectLine("R" + key + "\n")
		return
	}
	c.send(release(owner, token, key))
	c.expect(wire.OpReleased, 0, owner)
}
