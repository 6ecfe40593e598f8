package server

import (
	"testing"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

func TestLegacyQueuesWithV1InOneFIFO(t *testing.T) {
	ts := startServer(t, nil)
	holder, old, young := ts.session(t), ts.legacy(t), ts.session(t)
	holder.send(acquire(1, "k", 0, 30_000))
	held := holder.expect(wire.OpGranted, 0, 1)
	old.send(acquireV0("k", 60, 60))
	await(t, "the v0 waiter", func() bool { return ts.stats().Waiters == 1 })
	young.send(acquire(2, "k", 60_000, 30_000))
	await(t, "the v1 waiter", func() bool { return ts.stats().Waiters == 2 })
	holder.send(release(1, held.Token, "k"))
	first := old.expectGrant("k")
	old.send(releaseV0("k"))
	old.expectLine("Rk\n")
	if second := young.expect(wire.OpGranted, 0, 2); !(held.Token < first && first < second.Token) {
		t.Fatalf("tokens %d, %d, %d", held.Token, first, second.Token)
	}
}

func TestLegacyReleaseMeansTheConnectionsOwnOldestGrant(t *testing.T) {
	ts := startServer(t, nil)
	a, b := ts.legacy(t), ts.legacy(t)
	a.send(acquireV0("k", 1, 60))
	a.expectGrant("k")
	b.send(releaseV0("k")) // never another's
	b.expectLine("Nk\n")
	a.send(releaseV0("k"))
	a.expectLine("Rk\n")
	a.send(releaseV0("k"))
	a.expectLine("Nk\n")
}

// A grant that nobody gave back costs the next release of its key an N.
func TestLegacyForgottenReleaseCostsTheNext(t *testing.T) {
	ts := startServer(t, nil)
	c := ts.legacy(t)
	c.send(acquireV0("k", 5, 1))
	c.expectGrant("k") // expires
	c.send(acquireV0("k", 5, 60))
	c.expectGrant("k")
	c.send(join(releaseV0("k"), releaseV0("k")))
	c.expectLine("Nk\nRk\n")
}

// Clients match replies by operation and key, first in first out: a younger acquire's T waits for an older's answer.
func TestLegacyRepliesKeepTheirOrder(t *testing.T) {
	ts := startServer(t, nil)
	holder, c := ts.session(t), ts.legacy(t)
	holder.send(acquire(1, "k", 0, 30_000))
	held := holder.expect(wire.OpGranted, 0, 1)
	c.send(join(acquireV0("k", 60, 60), acquireV0("k", 1, 60), acquireV0("k", 5, 0)))
	c.expectLine("Einvalid_lease\n") // the E at once, its T in its order
	await(t, "the end of the shorter wait", func() bool { return ts.stats().Waiters == 1 })
	holder.send(release(1, held.Token, "k"))
	c.expectGrant("k")
	c.expectLine("Tk\nTk\n")
}

func TestLegacyKeysWithNewlinesInTheFixedPart(t *testing.T) {
	ts := startServer(t, nil)
	c := ts.legacy(t)
	c.send(acquireV0("k", 0x0a0a, 0x0a)) // wait 2570 s, lease 10 s
	c.expectGrant("k")
	c.send([]byte("\n\nRk\n"))
	c.expectLine("Rk\n")
}

func TestLegacyOff(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Legacy = false })
	c := ts.dial(t)
	c.send([]byte("A"))
	c.expectLine("Enot_active\n")
	c.expectEnd()
	ts.session(t)
}

func TestLegacyMemoryOfGrantsIsSwept(t *testing.T) {
	l := newLegacySession()
	for i := range 4 * leastSweep {
		k := l.key([]byte{byte(i >> 8), byte(i)})
		k.grants = append(k.grants, legacyGrant{owner: 1, token: uint64(i), forget: int64(i)})
		l.grants++
		l.maybeSweep(int64(i)) // every older grant is over by now
	}
	if l.grants > leastSweep || len(l.keys) > leastSweep {
		t.Fatalf("%d grants of %d keys are remembered after all but one were over", l.grants, len(l.keys))
	}
}

// A client that never releases is held to a bound: what it is remembered for is forgotten as soon as leases end, and beyond
// that it is granted nothing.
func TestLegacyMemoryOfGrantsIsBounded(t *testing.T) {
	const limit = 8
	l := newLegacySession()
	second := int64(1_000_000_000)
	grant := func(name byte, leaseEnd int64) bool {
		if !l.mayRemember(0, limit) {
			return false
		}
		k := l.key([]byte{name})
		k.grants = append(k.grants, legacyGrant{forget: leaseEnd + legacyMemory})
		l.grants++
		return true
	}
	for i := range byte(limit) {
		if !grant(i, int64(i+1)*second) {
			t.Fatalf("grant %d of %d is refused", i+1, limit)
		}
	}
	if grant(99, second) {
		t.Fatal("one more than the limit is remembered")
	}
	if !l.mayRemember(5*second, limit) || l.grants != 3 {
		t.Fatalf("%d grants are remembered when 5 of %d leases have ended", l.grants, limit)
	}
}

// Releases that a server cannot carry out leave the grants in their order.
func TestLegacyRefusedReleasesKeepTheOrder(t *testing.T) {
	l := newLegacySession()
	k := l.key([]byte("k"))
	c := &conn{legacy: l, shard: &shard{}}
	for token := uint64(1); token <= 2; token++ {
		l.calls[token] = &legacyCall{key: k, release: true, grant: legacyGrant{owner: token, token: token}}
		k.releases = append(k.releases, l.calls[token])
	}
	for owner := uint64(1); owner <= 2; owner++ {
		l.answer(&engine{}, lock.Time{}, c, &lock.Reply{Op: wire.OpBusy, Owner: owner})
	}
	if len(k.grants) != 2 || k.grants[0].token != 1 || k.grants[1].token != 2 {
		t.Fatalf("grants %+v, want tokens 1 and 2", k.grants)
	}
}
