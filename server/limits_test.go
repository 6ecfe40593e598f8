package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestTooManyConnections(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.MaxConnections = 2 })
	a := ts.session(t)
	ts.session(t)
	nc, err := net.Dial("tcp", ts.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	if b, err := io.ReadAll(nc); string(b) != "Etoo_many_connections\n" {
		t.Fatalf("got %q and %v", b, err)
	}
	ts.waitLog(t, "all places are taken")
	a.Close()
	await(t, "a free place", func() bool { n, _, _ := ts.admission.load(); return n == 1 })
	ts.session(t)
}

func TestLimitsAnswerWithTheirCode(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.MaxKeys, c.MaxWaiters, c.MaxWaitersPerKey, c.MaxInFlight = 3, 3, 2, 2 })
	a, b, c := ts.session(t), ts.session(t), ts.session(t)
	a.send(join(acquire(1, "k", 0, 30_000), acquire(2, "l", 0, 30_000), acquire(3, "m", 0, 30_000), acquire(4, "n", 0, 30_000)))
	a.expect(wire.OpGranted, 0, 1)
	l := a.expect(wire.OpGranted, 0, 2)
	a.expect(wire.OpGranted, 0, 3)
	a.expect(wire.OpBusy, uint16(wire.BusyTooManyKeys), 4)
	b.send(join(acquire(1, "k", 9_000, 30_000), acquire(2, "k", 9_000, 30_000), acquire(3, "l", 9_000, 30_000)))
	b.expect(wire.OpBusy, uint16(wire.BusyTooManyInFlight), 3)
	c.send(join(acquire(1, "k", 9_000, 30_000), acquire(2, "l", 9_000, 30_000), acquire(3, "m", 9_000, 30_000)))
	c.expect(wire.OpBusy, uint16(wire.BusyTooManyWaiters), 1)
	c.expect(wire.OpBusy, uint16(wire.BusyTooManyWaiters), 3)
	a.send(release(2, l.Token, "l"))
	a.expect(wire.OpReleased, 0, 2)
	c.expect(wire.OpGranted, 0, 2)
}

func TestSilentConnectionIsClosedAndItsWaitersLeave(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.IdleTimeout = 300 * time.Millisecond })
	a, b := ts.session(t), ts.session(t)
	old := ts.legacy(t)
	a.send(acquire(1, "k", 0, 30_000))
	a.expect(wire.OpGranted, 0, 1)
	b.send(acquire(2, "k", 60_000, 30_000))
	old.send(acquireV0("k", 60, 60))
	a.expectEnd()
	b.expectEnd()
	await(t, "only the v0 waiter is left, which is never closed for silence", func() bool { return ts.stats().Waiters == 1 })
}

// floodWithoutReading sends frames until the server takes no more, and returns how many it sent.
func floodWithoutReading(c *testClient, frame func(i int) []byte) int {
	c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	for i := 0; ; {
		var b []byte
		for range 512 {
			b = append(b, frame(i)...)
			i++
		}
		c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := c.Write(b); err != nil {
			return i
		}
	}
}

func TestUnsentRepliesOfAllTogetherAreBounded(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.MaxBuffered = 4096 })
	c := ts.session(t)
	floodWithoutReading(c, func(i int) []byte { return ping(uint64(i) + 1) })
	await(t, "the end of the connection with the most", func() bool { n, _, _ := ts.admission.load(); return n == 0 })
}

// Rule 12: what the kernel did not accept to the last byte is taken back, and nothing else.
func TestUndeliveredGrantsAreTakenBack(t *testing.T) {
	ts := startServer(t, nil)
	c := ts.session(t)
	floodWithoutReading(c, func(i int) []byte { return acquire(uint64(i)+1, fmt.Sprintf("key-%07d", i), 0, 250_000) })
	var held *conn
	await(t, "the server to hold replies back", func() bool {
		ts.engine.mu.Lock()
		defer ts.engine.mu.Unlock()
		held = ts.engine.sessions[1]
		return held != nil
	})
	granted := ts.stats().Held
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
	await(t, "the end of the connection", func() bool { n, _, _ := ts.admission.load(); return n == 0 })
	if kept := ts.stats().Held; kept == 0 || kept >= granted {
		t.Fatalf("%d of %d grants are held after their connection ended with replies unsent", kept, granted)
	}
	ts.engine.mu.Lock()
	defer ts.engine.mu.Unlock()
	if err := ts.engine.manager.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
}

// A grant that is taken back goes to the next waiter at once, whose loop may have nothing else to do. A loop that leaves the
// reply lying sends it when it comes round again, half a second later, each time; a loaded machine is late now and then.
func TestTakenBackGrantIsHandedOffAtOnce(t *testing.T) {
	ts := startServer(t, nil)
	const late = 400 * time.Millisecond
	for round := range 5 {
		if takeBackAndHandOff(t, ts, fmt.Sprint("k", round)) < late {
			return
		}
	}
	t.Fatalf("the next waiter's grant never came within %v", late)
}

// takeBackAndHandOff has a grant of key taken back, and returns how long the next waiter then waits for its own.
func takeBackAndHandOff(t *testing.T, ts *testServer, key string) time.Duration {
	t.Helper()
	holder, slow, next := ts.session(t), ts.session(t), ts.session(t)
	holder.send(acquire(1, key, 0, 30_000))
	held := holder.expect(wire.OpGranted, 0, 1)
	slow.send(acquire(2, key, 60_000, 30_000))
	await(t, "the slow waiter", func() bool { return ts.stats().Waiters == 1 })
	next.send(acquire(3, key, 60_000, 30_000))
	await(t, "the next waiter", func() bool { return ts.stats().Waiters == 2 })
	floodWithoutReading(slow, func(i int) []byte { return ping(uint64(i) + 10) })
	holder.send(release(1, held.Token, key))
	holder.expect(wire.OpReleased, 0, 1)
	slow.Conn.(*net.TCPConn).SetLinger(0)
	slow.Close()
	started := time.Now()
	next.expect(wire.OpGranted, 0, 3)
	return time.Since(started)
}

func TestAdmissionMakesRoomFromTheBusiestSource(t *testing.T) {
	a := newAdmission(1<<20, 1<<20)
	second := int64(time.Second)
	source := func(host byte, port int) *conn {
		return &conn{remote: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, host}), uint16(port))}
	}
	first := source(1, 1)
	a.admit(first, 0)
	var crowd []*conn
	for i := range handshakeSlots - 1 {
		c := source(2, i)
		crowd = append(crowd, c)
		a.admit(c, second/2)
	}
	if victim, full := a.full(second); !full || victim != nil {
		t.Fatalf("at the bound with nobody over the grace: victim %v, full %v", victim, full)
	}
	if victim, full := a.full(2 * second); !full || victim != crowd[0] {
		t.Fatalf("the victim is not the oldest of the busiest source (full %v)", full)
	}
	a.proved(crowd[0])
	if _, full := a.full(2 * second); full {
		t.Fatal("still full after a handshake has finished")
	}
	for _, c := range append(crowd, first) {
		a.remove(c)
	}
	if a.connections != 0 || a.handshakes.count != 0 || len(a.sources) != 0 || a.handshakes.head != nil || a.handshakes.tail != nil {
		t.Fatalf("left over: %d connections, %d handshakes, %d sources", a.connections, a.handshakes.count, len(a.sources))
	}
}

// The request path of a running server with real sockets makes no garbage.
func TestNoAllocationPerRequest(t *testing.T) {
	ts := startServer(t, nil)
	c := ts.session(t)
	const batch = 64
	var acquires, releases []byte
	for i := range batch {
		key := fmt.Sprintf("key-%012d", i)
		acquires = append(acquires, acquire(uint64(i)+1, key, 0, 30_000)...)
		releases = append(releases, release(uint64(i)+1, 0, key)...)
	}
	frame := len(releases) / batch
	replies := make([]byte, batch*wire.HeaderSize)
	c.SetDeadline(time.Time{})
	round := func() {
		c.Conn.Write(acquires)
		io.ReadFull(c.Conn, replies)
		for i := range batch {
			r := replies[i*wire.HeaderSize:]
			if r[0] != byte(wire.OpGranted) {
				t.Fatalf("got %c", r[0])
			}
			binary.BigEndian.PutUint64(releases[i*frame+16:], binary.BigEndian.Uint64(r[16:]))
		}
		c.Conn.Write(releases)
		io.ReadFull(c.Conn, replies)
	}
	for range 50 {
		round()
	}
	if n := testing.AllocsPerRun(500, round); n != 0 {
		t.Fatalf("%v allocations in %d requests", n, 2*batch)
	}
}

func TestPlacesForConnections(t *testing.T) {
	for _, c := range []struct {
		name          string
		wanted, files int
		places        int
		refused       bool
	}{
		{"files for all", 100, 1000, 100, false},
		{"files for some", 100, reservedFiles + 7, 7, false},
		{"files for one", 100, reservedFiles + 1, 1, false},
		{"files for none", 100, reservedFiles, 0, true},
		{"too few files for the server itself", 100, 16, 0, true},
		{"files for what others may open on the other ports", 1000, 1000, 1000 - 64 - 64 - 64 - 16 - 64, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			places, err := connectionPlaces(c.wanted, c.files)
			if places != c.places || (err != nil) != c.refused {
				t.Errorf("%d places, error %v", places, err)
			}
		})
	}
}
