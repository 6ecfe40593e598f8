package server

import (
	"testing"

	"ticketing.internal/wire"
)

// Waiters are the leader's alone, and so is the client that was granted: a follower says of neither that there is none.
func TestKeysAsTheirNodeKnowsThem(t *testing.T) {
	c := newCluster(t, 3).startAll()
	leader := c.leader()
	a := leader.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	a.expect(wire.OpGranted, 0, 1)
	a.send(acquire(2, "k", 30_000, 30_000))
	for i, ts := range c.nodes {
		var entry KeyEntry
		await(t, "the key with its waiter", func() bool {
			var page keysPage
			page.query.Limit = 1
			observer{ts.Server}.keys(&page)
			if len(page.keys) == 1 {
				entry = page.entry(&page.keys[0], false)
			}
			return len(page.keys) == 1 && (ts != leader || *entry.Waiters == 1)
		})
		if ts != leader && (entry.Waiters != nil || entry.Name != nil || entry.Addr != nil) {
			t.Errorf("the follower in seat %d says that waiters, name and address are %v, %v, %v", i+1, entry.Waiters, entry.Name, entry.Addr)
		}
	}
}
