package server

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"ticketing.internal/raft"
)

// aheadOf is a running node's marker on a disk that can fail.
func aheadOf(m *marker) (*markerAhead, *memoryDisk) {
	f, disk := markerOn(m)
	return newMarkerAhead(f), disk
}

// write lets the write that is due at now happen, and reports whether there was one.
func (a *markerAhead) write(now int64) bool {
	w, ok := a.advance(now)
	if ok {
		a.written(now, w.run())
	}
	return ok
}

func onDisk(t *testing.T, d *memoryDisk) *marker {
	t.Helper()
	m, err := decodeMarker(d.files[stateName])
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMarkMovesAheadOfUse(t *testing.T) {
	a, disk := aheadOf(lifeIn(newDomain))
	a.applied(0)
	if a.write(0) {
		t.Error("a write without a token")
	}
	token, writes := uint64(1_000_000), 0
	for range 1000 {
		token += 100_000
		a.applied(token)
		if a.write(0) {
			writes++
		}
		if mark := onDisk(t, disk).tokenMark; mark < token+markReserve {
			t.Fatalf("token %d, and the mark is %d", token, mark)
		}
	}
	// 100 million tokens, and each write is good for at least half a step.
	if writes < 5 || writes > 13 {
		t.Errorf("%d writes", writes)
	}
}

// A mark that is on the disk from an earlier life holds until it is needed.
func TestMarkOfAnEarlierLife(t *testing.T) {
	m := lifeIn(newDomain)
	m.tokenMark = 1 << 40
	a, _ := aheadOf(m)
	a.applied(1<<40 - markReserve - markStep/2)
	if a.write(0) {
		t.Error("written too early")
	}
	a.applied(1<<40 - markReserve - markStep/2 + 1)
	if !a.write(0) {
		t.Error("not written")
	}
}

func TestMarkAtTheEndOfTheNumbers(t *testing.T) {
	a, disk := aheadOf(lifeIn(newDomain))
	for range 3 {
		a.applied(math.MaxInt64 - 5)
		a.write(0)
	}
	if m := onDisk(t, disk); m.tokenMark != math.MaxInt64 || len(disk.ops) != 3 {
		t.Errorf("mark %d, after %d operations", m.tokenMark, len(disk.ops))
	}
}

func TestOneWriteAtATime(t *testing.T) {
	a, disk := aheadOf(lifeIn(newDomain))
	a.applied(1 << 30)
	first, ok := a.advance(0)
	if !ok {
		t.Fatal("no write")
	}
	a.applied(1<<30 + 1)
	if a.wanted {
		t.Error("what is under way is asked for again")
	}
	a.opened()
	a.members([]string{"n8:1"})
	if _, ok := a.advance(5 * second); ok {
		t.Error("a second write while the first is under way")
	}
	if why := a.failing(5 * second); why != "" {
		t.Errorf("after 5 s: %s", why)
	}
	if why := a.failing(6 * second); !strings.Contains(why, "has not come back for 6s") {
		t.Errorf("after 6 s: %q", why)
	}
	a.written(7*second, first.run())
	if why := a.failing(7 * second); why != "" {
		t.Errorf("after it came back: %s", why)
	}
	if !a.write(7 * second) {
		t.Fatal("no second write")
	}
	m := onDisk(t, disk)
	if m.tokenMark != 1<<30+markReserve+markStep || !m.opened || !slices.Equal(m.peers, []string{"n8:1"}) {
		t.Errorf("on the disk: %+v", m)
	}
	if a.write(8 * second) {
		t.Error("a third write, of nothing")
	}
}

func TestWriteThatFails(t *testing.T) {
	for failAt := 1; failAt <= 3; failAt++ {
		start := lifeIn(newDomain)
		start.opened = false
		a, disk := aheadOf(start)
		disk.failAt = failAt
		a.opened()
		a.members([]string{"n8:1"})
		a.applied(1 << 30)
		a.write(0)
		if why := a.failing(0); !strings.Contains(why, "the disk says no") {
			t.Errorf("operation %d failed: %q", failAt, why)
		}
		a.applied(1<<30 + 5) // goes on meanwhile
		if a.write(second - 1) {
			t.Errorf("operation %d failed: tried again at once", failAt)
		}
		if !a.write(second) {
			t.Errorf("operation %d failed: not tried again", failAt)
		}
		m := onDisk(t, disk)
		if a.failing(second) != "" || m.tokenMark != 1<<30+5+markReserve+markStep || !m.opened || !slices.Equal(m.peers, []string{"n8:1"}) {
			t.Errorf("operation %d failed: then %q, and %+v", failAt, a.failing(second), m)
		}
	}
}

// Newer addresses are not replaced by those of a failed write.
func TestAddressesOfAFailedWrite(t *testing.T) {
	a, disk := aheadOf(lifeIn(newDomain))
	a.members([]string{"n8:1"})
	w, _ := a.advance(0)
	a.members([]string{"n9:1"})
	disk.failAt = 1
	a.written(0, w.run())
	a.write(second)
	if m := onDisk(t, disk); !slices.Equal(m.peers, []string{"n9:1"}) {
		t.Errorf("%q", m.peers)
	}
}

func TestMembersThatAreKnown(t *testing.T) {
	a, disk := aheadOf(lifeIn(newDomain))
	for name, addresses := range map[string][]string{"the same": {"n1:5325", "n2:5325"}, "none": nil, "none that can be kept": {""}} {
		a.members(addresses)
		if a.write(0) {
			t.Errorf("%s: written", name)
		}
	}
	a.members([]string{"n2:5325", "n1:5325"})
	a.members([]string{"n1:5325", "n2:5325"})
	a.write(0)
	if m := onDisk(t, disk); !m.equal(lifeIn(newDomain)) {
		t.Errorf("there and back: %+v", m)
	}
}

// Random runs with a disk that fails now and then: what a restart finds is never behind what was written, and the mark is ahead
// whenever no write is due.
func TestMarkRandomRuns(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		a, disk := aheadOf(lifeIn(newDomain))
		var token, mark uint64
		for now := int64(0); now < 300*second; now += second / 10 {
			token += random.Uint64N(1_000_000)
			a.applied(token)
			if random.IntN(5) == 0 {
				disk.failAt = len(disk.ops) + 1 + random.IntN(3)
			}
			a.write(now)
			m := onDisk(t, disk)
			if m.tokenMark < mark {
				t.Fatalf("seed %d: the mark went back from %d to %d", seed, mark, m.tokenMark)
			}
			mark = m.tokenMark
			if a.failure == nil && mark < token+markReserve {
				t.Fatalf("seed %d: token %d, mark %d, and nothing is wrong", seed, token, mark)
			}
		}
	}
}

func TestMarkerWritesByTheStateWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, disk := aheadOf(lifeIn(newDomain))
		outcomes := make(chan error, 1)
		w := startStateWriter(func(err error) { outcomes <- err })
		a.applied(1 << 30)
		write, _ := a.advance(0)
		w.start(write)
		a.written(0, <-outcomes)
		if err := w.stop(t.Context()); err != nil || onDisk(t, disk).tokenMark <= 1<<30 || a.failing(0) != "" {
			t.Errorf("%v, %q", err, a.failing(0))
		}
	})
}

// Telling it costs the engine no allocation when nothing is due.
func TestMarkAllocatesNothing(t *testing.T) {
	a, _ := aheadOf(lifeIn(newDomain))
	a.applied(1 << 30)
	a.write(0)
	if n := testing.AllocsPerRun(100, func() {
		a.applied(1<<30 + 1)
		a.advance(0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Blocking changes and background ones at the same time lose nothing.
func TestMarkerIsSafeForConcurrentUse(t *testing.T) {
	f, disk := markerOn(lifeIn(newDomain))
	done := make(chan error, 3)
	go func() {
		var err error
		for i := range uint32(50) {
			err = f.addIncarnation(incarnationNumber(i))
		}
		done <- err
	}()
	go func() {
		var err error
		for i := range uint64(50) {
			err = f.apply(markerChange{tokenMark: 1000 + i, opened: true})
		}
		done <- err
	}()
	go func() {
		for range 50 {
			f.read()
		}
		done <- f.setNodeID(raft.Member{NodeID: 9, Incarnation: raft.Incarnation{0xff}}, 4, "n4:1")
	}()
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	m := onDisk(t, disk)
	if len(m.incarnations) != 2+50+1 || m.tokenMark != 1049 || m.seat != 4 || !m.hasNodeID(9) {
		t.Errorf("%d incarnations, mark %d, seat %d", len(m.incarnations), m.tokenMark, m.seat)
	}
}
