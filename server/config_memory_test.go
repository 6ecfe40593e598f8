package server

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"hash/maphash"
	"net"
	"runtime"
	"strings"
	"testing"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// memorySum is what describeMemory says of the defaults, changed by change, in all.
func memorySum(change func(*Config)) (mebibytes float64) {
	c := DefaultConfig()
	change(&c)
	var out bytes.Buffer
	c.describeMemory(&out)
	_, line, _ := strings.Cut(out.String(), "in all")
	fmt.Sscan(line, &mebibytes)
	return mebibytes
}

// The memory that is described is that of the limits: each one counts, and the sum adds up.
func TestDescribeMemory(t *testing.T) {
	node := func(c *Config) { c.Cluster.PeerListen = ":5325" }
	both := func(f, g func(*Config)) func(*Config) { return func(c *Config) { f(c); g(c) } }
	for name, test := range map[string]struct{ before, after func(*Config) }{
		"keys":        {func(*Config) {}, func(c *Config) { c.MaxKeys += 1 << 20 }},
		"waiters":     {func(*Config) {}, func(c *Config) { c.MaxWaiters += 1 << 20 }},
		"connections": {func(*Config) {}, func(c *Config) { c.MaxConnections += 1 << 20 }},
		"buffered":    {func(*Config) {}, func(c *Config) { c.MaxBuffered += 20 << 20 }},
		"TLS":         {func(*Config) {}, func(c *Config) { c.TLSCert = "/c" }},
		"v0":          {func(c *Config) { c.Legacy = false }, func(*Config) {}},
		"a node":      {func(*Config) {}, node},
		"the log":     {node, both(node, func(c *Config) { c.Cluster.LogMemory = 100 << 20 })},
		"peers' TLS":  {node, both(node, func(c *Config) { c.Cluster.TLSCert = "/c" })},
	} {
		if before, after := memorySum(test.before), memorySum(test.after); after < before+8 {
			t.Errorf("with more of %s: %.1f MiB, after %.1f MiB", name, after, before)
		}
	}
}

// What bounds a node is counted with the bounds themselves.
func TestMemoryOfANodeFollowsItsBounds(t *testing.T) {
	c := DefaultConfig()
	c.Cluster.PeerListen = ":5325"
	var log, others int64
	for _, item := range c.memoryAtWorst() {
		switch item.what {
		case "bytes of the Raft log":
			log = item.count
		case "other nodes":
			others = item.each
		}
	}
	if retained := int64(raft.Config{}.MostLogBytes()); log != retained || log <= c.Cluster.LogMemory {
		t.Errorf("the log counts %d B; %d B are kept while a snapshot is on its way", log, retained)
	}
	limits := peerLimits{}.withDefaults()
	if least := int64(2*limits.urgentBytes + limits.bulkBytes); others < least {
		t.Errorf("another node counts %d B, and its queue alone may hold %d B", others, least)
	}
	// A reader gets the largest buffer by a frame of the largest size behind others.
	r := frameReader{}
	r.buf = make([]byte, bigFrameBuffer)
	r.end = wire.PeerHeaderSize
	frame, start := wire.BeginPeerFrame(nil, wire.PeerTypeInstallSnapshot, 0)
	frame, ok := wire.FinishPeerFrame(append(frame, make([]byte, wire.MaxPeerBody)...), start)
	if !ok {
		t.Fatal("a frame of the largest size is none")
	}
	copy(r.buf, frame[:wire.PeerHeaderSize])
	if r.makeRoom(wire.MaxPeerBody); len(r.buf) > peerReadBytes || len(r.buf) < len(frame) {
		t.Errorf("a reader's buffer of %d B for a frame of %d B; --check says %d B at most", len(r.buf), len(frame), peerReadBytes)
	}
}

type unheard struct{}

func (unheard) Reply(lock.Session, *lock.Reply)                                  {}
func (unheard) ForeignRelease(lock.Session, []byte, uint64, uint64, lock.Client) {}

// heapInUse is what lives on the heap and on stacks.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what the first has ended is swept now
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// expectCost fails the test unless measured is at most what --check says, and not much less.
func expectCost(t *testing.T, what string, measured, said int64) {
	t.Helper()
	if measured > said || measured < said/2 {
		t.Errorf("a %s takes %d B; --check says %d B", what, measured, said)
	}
}

// What --check says of keys and waiters holds of the real ones.
func TestMemoryConstants(t *testing.T) {
	const n = 1 << 17
	g, err := openGate(nil, lock.Time{Wall: gateEpoch}, bootID{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	empty := heapInUse()
	m := lock.NewManager(lock.Config{
		Limits: lock.Limits{Keys: n, Waiters: n, WaitersPerKey: n, InFlight: n}, Seed: maphash.MakeSeed(), Log: g, Sink: unheard{},
	})
	s := m.OpenSession(lock.Client{})
	request := wire.Request{Op: wire.OpAcquire, Lease: wire.MaxLeaseMillis, Key: make([]byte, wire.MaxKey)}
	for i := range n {
		longestKey(request.Key, i)
		request.Owner++
		m.Acquire(lock.Time{}, s, &request)
	}
	m.EndBatch(lock.Time{})
	keys := heapInUse()
	request.Wait = wire.MaxWaitMillis
	for range n {
		request.Owner++
		m.Acquire(lock.Time{}, s, &request)
	}
	waiters := heapInUse()
	if stats := m.Stats(); stats.Held != n || stats.Waiters != n {
		t.Fatalf("%d held, %d waiters", stats.Held, stats.Waiters)
	}
	expectCost(t, "key", (keys-empty)/n, keyBytes)
	expectCost(t, "waiter", (waiters-keys)/n, waiterBytes)
}

// longestKey writes the i-th key of the greatest length.
func longestKey(key []byte, i int) { copy(key, fmt.Sprintf("%0*d", wire.MaxKey, i)) }

// What --check says of v0 holds of a connection that waits for many keys, and of one that holds them. Maps double as they grow:
// just behind that they cost the most.
func TestMemoryConstantsOfV0(t *testing.T) {
	const n = 1<<16*7/8 + 1
	key := make([]byte, wire.MaxKey)
	empty := heapInUse()
	waiting := newLegacySession(new(legacyRoom))
	for i := range n {
		longestKey(key, i)
		k := waiting.key(key)
		call := &legacyCall{key: k}
		k.acquires = append(k.acquires, call)
		waiting.calls[uint64(i)+1] = call
	}
	waiters := heapInUse()
	holding := newLegacySession(new(legacyRoom))
	for i := range n {
		longestKey(key, i)
		k := holding.key(key)
		k.grants = append(k.grants, legacyGrant{owner: 1})
	}
	holders := heapInUse()
	expectCost(t, "v0 waiter", (waiters-empty)/n, legacyWaiterBytes)
	expectCost(t, "v0 grant", (holders-waiters)/n, legacyGrantBytes)
	runtime.KeepAlive(waiting)
	runtime.KeepAlive(holding)
}

// What --check says of a TLS connection holds of one that has seen long records and long replies. The client's side is dropped
// after its part, but for its socket: what is left is the server's.
func TestMemoryOfTLSConnections(t *testing.T) {
	const n = 100
	ts, trust := startTLS(t, nil)
	trust.DynamicRecordSizingDisabled = true
	var pings, pongs []byte
	for i := range 2000 {
		pings = append(pings, ping(uint64(i))...)
	}
	pongs = make([]byte, 2000*wire.HeaderSize)
	ts.dialTLS(t, trust).login("", "first")
	empty := heapInUse()
	var sockets []net.Conn
	for range n {
		c := ts.dialTLS(quiet{t}, trust).login("", "many")
		c.send(pings)
		if _, err := c.in.Read(pongs[:1]); err != nil {
			t.Fatal(err)
		}
		read := 1
		for read < len(pongs) {
			m, err := c.in.Read(pongs[read:])
			if err != nil {
				t.Fatal(err)
			}
			read += m
		}
		socket := c.Conn.(*tls.Conn).NetConn()
		sockets = append(sockets, socket)
		t.Cleanup(func() { socket.Close() })
	}
	expectCost(t, "TLS connection", (heapInUse()-empty)/n, tlsConnectionBytes)
	runtime.KeepAlive(sockets)
}

// quiet is a test whose clients do not live as long as it does.
type quiet struct{ testing.TB }

// Cleanup does nothing.
func (quiet) Cleanup(func()) {}
