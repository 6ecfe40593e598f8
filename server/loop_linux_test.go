package server

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ticketing.internal/wire"
)

// startTweaked is startServer with a hand on the server between New and Run.
func startTweaked(t *testing.T, adjust func(*Config), tweak func(*Server)) *testServer {
	t.Helper()
	return runServer(t, openServer(t, 1, adjust), tweak)
}

func TestDeadlinesOfTheLoop(t *testing.T) {
	short := int64(100 * time.Millisecond)
	ts := startTweaked(t, nil, func(s *Server) {
		for _, l := range s.transport.loops {
			l.handshakes.limit, l.slow.limit, l.quiet.limit = short, short, short
		}
	})
	t.Run("half-open handshake", func(t *testing.T) {
		c := ts.dial(t)
		c.send([]byte{1, 0})
		c.expectEnd()
	})
	t.Run("v0 keep-alive", func(t *testing.T) {
		ts.legacy(t).expectLine("\n\n")
	})
	t.Run("client that never reads", func(t *testing.T) {
		c := ts.session(t)
		sent := floodWithoutReading(c, func(i int) []byte { return ping(uint64(i) + 1) })
		ts.waitLog(t, "did not take its replies")
		await(t, "the end of the connection", func() bool { n, _, _ := ts.admission.load(); return n < 2 })
		t.Logf("cut off after %d pings", sent)
		other := ts.session(t)
		other.send(ping(1))
		other.expect(wire.OpPong, 0, 1)
	})
}

// A stall holds timers back until what had arrived is read, and not for as long as something arrives.
func TestStallIsOverAlsoUnderLoad(t *testing.T) {
	l := &loop{engine: &engine{}, planned: 0}
	at := stallGap + 1
	l.noticeStall(at, false)
	if !l.stalled || l.engine.holdTick != at+stallGrace {
		t.Fatalf("a stall is not noticed: %v, hold until %d", l.stalled, l.engine.holdTick)
	}
	l.planned = at // it comes round in time from now on, and always has something to read
	if l.noticeStall(at+stallReadLimit-1, false); !l.stalled {
		t.Error("timers are judged before what had arrived is read")
	}
	if l.noticeStall(at+stallReadLimit, false); l.stalled {
		t.Error("timers are held back for as long as something arrives")
	}
	l.planned = at + stallReadLimit
	l.noticeStall(at+2*stallReadLimit, false)
	if l.noticeStall(at+2*stallReadLimit+1, true); l.stalled {
		t.Error("timers are held back although nothing is left to read")
	}
}

// Somebody who has just proved the token need not make room for strangers.
func TestEvictionOfAHandshakeSparesSessions(t *testing.T) {
	ts := startServer(t, nil)
	c := ts.session(t)
	c.send(ping(1))
	c.expect(wire.OpPong, 0, 1)
	ts.engine.mu.Lock()
	session := ts.engine.sessions[1]
	ts.engine.mu.Unlock()
	ts.engine.send(mail{to: session, kind: mailEvictUnproved})
	c.send(ping(2))
	c.expect(wire.OpPong, 0, 2)
	ts.engine.send(mail{to: session, kind: mailEvict})
	await(t, "the end of the connection", func() bool { n, _, _ := ts.admission.load(); return n == 0 })
}

// A loop that has ended may still be woken until everything else has: its descriptors are nobody else's until then.
func TestLateWakeOfALoop(t *testing.T) {
	ts := openServer(t, 1, nil)
	defer ts.release()
	ts.transport.run()
	ts.transport.stop()
	var others []int
	for range 4 {
		fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		others = append(others, fd)
	}
	ts.transport.loops[0].shard.wake()
	for _, fd := range others {
		var count [8]byte
		if _, errno := readNow(fd, count[:]); errno != unix.EAGAIN {
			t.Errorf("descriptor %d, opened after the end of the loop, was written to", fd)
		}
	}
}
