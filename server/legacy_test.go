package server

import (
	"math"
	"testing"
	"time"

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
	l := newLegacySession(new(legacyRoom))
	for i := range 4 * minSweep {
		k := l.key([]byte{byte(i >> 8), byte(i)})
		k.grants = append(k.grants, legacyGrant{owner: 1, token: uint64(i), forget: int64(i)})
		l.count(1)
		l.maybeSweep(int64(i)) // every older grant is over by now
	}
	if l.grants > minSweep || len(l.keys) > minSweep {
		t.Fatalf("%d grants of %d keys are remembered after all but one were over", l.grants, len(l.keys))
	}
}

// legacyGrants gives l a grant of each name, if it may remember one more at now.
func legacyGrants(e *engine, l *legacySession, now, leaseEnd int64, names ...byte) (remembered int) {
	for _, name := range names {
		if e.mayRemember(now, l) {
			k := l.key([]byte{name})
			k.grants = append(k.grants, legacyGrant{forget: leaseEnd + legacyMemory})
			l.count(1)
			remembered++
		}
	}
	return remembered
}

// A client that never releases is held to a bound: what it is remembered for is forgotten as soon as leases end, and beyond
// that it is granted nothing.
func TestLegacyMemoryOfGrantsIsBounded(t *testing.T) {
	const second = int64(time.Second)
	e := &engine{welcomer: welcomer{inFlight: 4}, legacy: legacyRoom{limit: math.MaxInt}}
	l := newLegacySession(&e.legacy)
	if n := legacyGrants(e, l, 0, second, 1, 2); n != 2 {
		t.Fatalf("%d of 2 grants are remembered", n)
	}
	if n := legacyGrants(e, l, 0, 9*second, 3, 4, 5); n != 2 {
		t.Fatalf("%d grants more are remembered, where 4 may be", n)
	}
	if n := legacyGrants(e, l, 5*second, 9*second, 6, 7, 8); n != 2 || l.grants != 4 {
		t.Fatalf("%d grants more are remembered when 2 of 4 leases have ended, in all %d", n, l.grants)
	}
}

// All sessions together are held to a bound too, and what has ended makes room whosever it was.
func TestLegacyMemoryOfAllSessionsIsBounded(t *testing.T) {
	const second = int64(time.Second)
	e := &engine{welcomer: welcomer{inFlight: 100}, legacy: legacyRoom{limit: 6}}
	a, b := newLegacySession(&e.legacy), newLegacySession(&e.legacy)
	e.sessions = []*conn{nil, {legacy: a}, {legacy: b}, {}}
	legacyGrants(e, a, 0, second, 1, 2, 3)
	if n := legacyGrants(e, b, 0, 9*second, 4, 5, 6, 7); n != 3 {
		t.Fatalf("%d grants are remembered beside 3 others, where 6 may be", n)
	}
	if n := legacyGrants(e, b, 2*second, 9*second, 7, 8, 9, 10); n != 3 || a.grants != 0 || len(a.keys) != 0 {
		t.Fatalf("%d grants more are remembered when the 3 of the other session have ended, of which %d remain", n, a.grants)
	}
	b.end()
	if e.legacy.grants != 0 {
		t.Errorf("%d grants of sessions that are over are counted", e.legacy.grants)
	}
}

// Releases that a server cannot carry out leave the grants in their order.
func TestLegacyRefusedReleasesKeepTheOrder(t *testing.T) {
	l := newLegacySession(new(legacyRoom))
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
