package client

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func follower(leader string) func(*host) {
	return func(h *host) { h.role, h.leader = wire.RoleNotLeader, leader }
}

func TestLeaderOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		a, l, c := w.host("a:1", follower("l:1")), w.host("l:1"), w.host("c:1", follower("l:1"))
		b := w.open("a:1", "l:1", "c:1")
		ra, rl, rc := w.next(a), w.next(l), w.next(c)
		for i := range 4 {
			call := w.acquire(w.Context(), fmt.Sprint(i))
			rl.grant(rl.acquire(fmt.Sprint(i)), uint64(i)+1)
			call.granted()
		}
		ra.silent()
		rc.silent()
		if s := b.Stats(); s.Connections != 3 || s.Serving != 1 || s.Leader != "l:1" {
			w.Errorf("stats %+v", s)
		}
	})
}

func TestRoundRobin(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.host("a:1")
		b := w.openWith(Config{Addrs: []string{"a:1"}}, nil)
		conns := []*remote{w.next(h), w.next(h)} // a single address gets two
		if s := b.Stats(); s.Connections != 2 || s.Serving != 2 {
			w.Fatalf("stats %+v", s)
		}
		for i := range 10 {
			w.acquire(w.Context(), fmt.Sprint(i))
		}
		for _, r := range conns {
			for range 5 {
				if q, err := r.receive(); err != nil || q.Op != wire.OpAcquire {
					w.Fatalf("got %+v, %v", q, err)
				}
			}
			r.silent()
		}
		// With one of the two gone everything goes over the other.
		conns[0].hangUp()
		w.acquire(w.Context(), "x")
		conns[1].acquire("x")
	})
}

func TestLeaderMoves(t *testing.T) {
	inWorld(t, func(w *world) {
		ha, hl := w.host("a:1", follower("l:1")), w.host("l:1")
		b := w.open("a:1", "l:1")
		ra, rl := w.next(ha), w.next(hl)

		rl.moved("a:1", 7) // the old leader steps down
		call := w.acquire(w.Context(), "k")
		rl.silent()
		ra.silent() // it is said to lead, and has not said so itself
		ra.moved("a:1", 7)
		q := ra.acquire("k")
		ra.grant(q, 1)
		call.granted()

		// Older news change nothing, also when they come last.
		rl.moved("l:1", 6)
		ra.moved("a:1", 7)
		call = w.acquire(w.Context(), "again")
		ra.grant(ra.acquire("again"), 2)
		call.granted()
		rl.silent()
		if s := b.Stats(); s.Leader != "a:1" || s.Redirects != 1 {
			w.Errorf("stats %+v", s)
		}

		// Nor is a claim to lead in a term that is over good for anything when nobody else is left.
		b.mu.Lock()
		for _, s := range b.sessions {
			if s.peer.addr == "l:1" && s.serving {
				w.Error("l:1 is taken for a leader by its claim of term 6")
			}
		}
		b.unlock()

		// The new leader loses its quorum, and then knows of no leader.
		ra.moved("", 8)
		call = w.acquire(w.Context(), "wait")
		ra.silent()
		rl.moved("l:1", 9)
		rl.grant(rl.acquire("wait"), 3)
		call.granted()
	})
}

// A leader that was deposed and does not know it yet is not asked while the new one is there.
func TestDeposedLeader(t *testing.T) {
	inWorld(t, func(w *world) {
		ha, hl := w.host("a:1", follower("l:1")), w.host("l:1")
		w.open("a:1", "l:1")
		ra, rl := w.next(ha), w.next(hl)
		ra.moved("a:1", 7)
		for i := range 3 {
			w.acquire(w.Context(), fmt.Sprint(i))
			ra.acquire(fmt.Sprint(i))
		}
		rl.silent()
		// Better it than nobody.
		ra.hangUp()
		w.acquire(w.Context(), "k")
		rl.acquire("k")
	})
}

func TestHintOutsideAddrs(t *testing.T) {
	inWorld(t, func(w *world) {
		ha, hx := w.host("a:1", follower("x:1")), w.host("x:1")
		b := w.open("a:1")
		w.next(ha)
		rx := w.next(hx)
		call := w.acquire(w.Context(), "k")
		rx.grant(rx.acquire("k"), 1)
		call.granted()

		// While it is named it is dialled again; when another is, it is let go.
		rx.hangUp()
		rx = w.next(hx)
		w.change(ha, func() { ha.leader = "" }) // a:1 does not name it any more either
		rx.moved("a:1", 3)
		rx.hangUp()
		before := len(w.dials("x:1"))
		w.pass(time.Minute)
		if n := len(w.dials("x:1")); n != before {
			w.Errorf("x:1 was dialled %d times more", n-before)
		}
		if s := b.Stats(); s.Leader != "a:1" {
			w.Errorf("stats %+v", s)
		}
	})
}

func TestHintsAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.host("a:1", follower(""))
		b := w.open("a:1")
		r := w.next(h)
		for i := range 20 { // the hosts hang: the peers stay
			w.host(fmt.Sprintf("x%d:1", i), func(h *host) { h.hold = true })
			r.moved(fmt.Sprintf("x%d:1", i), uint64(i)+1)
		}
		b.mu.Lock()
		n := len(b.peers)
		b.unlock()
		if n != 2+maxHinted {
			w.Errorf("%d peers, want 2 and %d", n, maxHinted)
		}
		for _, bad := range []string{"x", "nonsense:port", "a b:1", ":5", "x:0", "x:99999", "\x1b[31m:5", "a/b:1"} {
			before := w.dialledHosts()
			r.moved(bad, 100)
			if bad != "x" && (w.dialledHosts() != before || b.Stats().Leader == bad) {
				w.Errorf("the hint %q was taken", bad)
			}
		}
	})
}

// A hinted leader that pauses after failures is dialled at once.
func TestHintCutsPauseShort(t *testing.T) {
	inWorld(t, func(w *world) {
		ha := w.host("a:1", follower(""))
		w.open("a:1", "b:1")
		ra := w.next(ha)
		w.pass(10 * time.Second) // b:1 is down; it pauses for 3.2 s by now
		hb := w.host("b:1")
		began := w.clock.Now()
		ra.moved("b:1", 1)
		w.next(hb)
		if took := w.clock.Now() - began; took != 0 {
			w.Errorf("connected after %v", took)
		}
	})
}

// The leader advertises an address that we cannot reach, and is one of those that we are connected to: its next
// welcome says so.
func TestLeaderUnderAnotherName(t *testing.T) {
	inWorld(t, func(w *world) {
		ha, hb := w.host("a:1", follower("")), w.host("b:1", follower(""))
		w.open("a:1", "b:1")
		ra, rb := w.next(ha), w.next(hb)
		w.pass(4 * time.Second)
		call := w.acquire(w.Context(), "k")
		w.change(ha, func() { ha.role = wire.RoleServing })
		began := w.clock.Now()
		ra.moved("10.0.0.1:5225", 2)
		rb.moved("10.0.0.1:5225", 2)
		ra = w.next(ha)
		ra.grant(ra.acquire("k"), 1)
		call.granted()
		if took := w.clock.Now() - began; took != hintPatience+minBackoff {
			w.Errorf("found after %v", took)
		}
		// Once a hint, not again and again.
		ra.moved("", 3)
		ra.moved("10.0.0.9:5225", 4)
		w.pass(14 * time.Second)
		if n := len(w.dials("b:1")); n > 4 {
			w.Errorf("b:1 was dialled %d times", n)
		}
	})
}

// Over a long time without a leader nothing is closed, nor dialled in a hurry.
func TestNoLeaderIsQuiet(t *testing.T) {
	inWorld(t, func(w *world) {
		ha := w.host("a:1", follower("gone:1"))
		w.open("a:1")
		r := w.next(ha)
		w.calls.Go(r.pongs)
		w.pass(time.Hour)
		if n := len(w.dials("a:1")); n != 1 {
			w.Errorf("a:1 was dialled %d times", n)
		}
		if n := len(w.dials("gone:1")); n > 3600/3+10 {
			w.Errorf("gone:1 was dialled %d times in an hour", n)
		}
	})
}

func TestReleasesFollowTheLeader(t *testing.T) {
	inWorld(t, func(w *world) {
		ha, hl := w.host("a:1", follower("l:1")), w.host("l:1")
		w.open("a:1", "l:1")
		ra, rl := w.next(ha), w.next(hl)
		ticket := w.ticket(rl, "k", 1)
		release := w.release(w.Context(), ticket)
		rl.release("k", 1)
		rl.moved("a:1", 2)
		release.pending()
		ra.silent()
		ra.moved("a:1", 2)
		ra.released(ra.release("k", 1))
		if o := release.succeeds(); o.took != 0 {
			w.Errorf("took %v", o.took)
		}
	})
}

// What an acquire meets at a node that does not lead any more is the caller's to judge; the next goes elsewhere.
func TestNotLeader(t *testing.T) {
	inWorld(t, func(w *world) {
		ha, hl := w.host("a:1", follower("l:1")), w.host("l:1")
		w.open("a:1", "l:1")
		ra, rl := w.next(ha), w.next(hl)
		call := w.acquire(w.Context(), "k")
		q := rl.acquire("k")
		rl.send(wire.Reply{Op: wire.OpMoved, Token: 5, Text: []byte("a:1")},
			wire.Reply{Op: wire.OpBusy, Owner: q.Owner, Code: uint16(wire.BusyNotLeader)})
		call.fails(ErrBusy, wire.BusyNotLeader)
		ra.moved("a:1", 5)
		w.acquire(w.Context(), "k")
		ra.acquire("k")
		rl.silent()
	})
}

// A stuck connection is passed over while another serves.
func TestStuckConnectionIsPassedOver(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.host("a:1")
		b := w.openWith(Config{Addrs: []string{"a:1"}}, nil)
		stuck, fine := w.next(h), w.next(h)
		b.mu.Lock()
		if b.sessions[0].raw != stuck.near {
			stuck, fine = fine, stuck
		}
		b.unlock()
		stuck.choke(0)
		w.acquire(w.Context(), "1")
		w.acquire(w.Context(), "2")
		w.pass(2 * stuckAfter)
		for i := range 6 {
			w.acquire(w.Context(), fmt.Sprint("more", i))
		}
		var keys []string
		for range 7 {
			q, err := fine.receive()
			if err != nil {
				w.Fatal(err)
			}
			keys = append(keys, string(q.Key))
		}
		if !slices.Contains(keys, "more5") {
			w.Errorf("got %q", keys)
		}
	})
}

// Nothing is sent on a stuck connection when the time to be sent is over: the error is definite.
func TestExpiredInStuckQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		r.choke(0)
		first := w.acquire(w.Context(), "first")
		w.pass(time.Second)
		second := w.start(func() (*Ticket, error) { return b.Acquire(w.Context(), "second", 2*time.Second, time.Second) })
		if o := second.fails(ErrBusy, wire.BusyNoLeader); o.took != 2*time.Second {
			w.Errorf("took %v", o.took)
		}
		r.choke(1 << 20)
		r.grant(r.acquire("first"), 1)
		first.granted()
		r.silent()
	})
}
