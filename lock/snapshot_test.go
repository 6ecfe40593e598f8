package lock

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// newFollower returns a manager that does not lead, at the fixture's time.
func newFollower() *Manager {
	m := NewManager(Config{Limits: roomy, Seed: maphash.MakeSeed(), Log: &scriptedLog{}, Sink: &recorder{}})
	m.StepDown(Time{})
	return m
}

// snapshotOf returns a whole snapshot, taken in parts of the given budget with change called between them.
func snapshotOf(f *fixture, budget int, change func()) (b []byte) {
	f.m.BeginSnapshot(f.now)
	for more := true; more; {
		b, more = f.m.AppendSnapshot(b, budget)
		if change != nil && more {
			change()
		}
	}
	return b
}

// locks lists the replicated part of a manager's locks.
func locks(m *Manager) (list []string) {
	var keys []KeyInfo
	for next := uint32(0); ; {
		keys, next = m.Keys(Time{}, keys, &KeysQuery{After: next})
		if next == 0 {
			break
		}
	}
	for _, k := range keys {
		list = append(list, fmt.Sprintf("%s owner=%d token=%d at=%d", k.Key, k.Owner, k.Token, k.GrantedAt))
	}
	slices.Sort(list)
	return list
}

func TestSnapshotLayout(t *testing.T) {
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	f.acquireFor(s, 7, "order-1234", 0, 30_000)
	f.now.Mono += int64(1500 * time.Millisecond)
	b := snapshotOf(f, 100, nil)
	hash := hex.EncodeToString(binary.BigEndian.AppendUint64(nil, f.m.StateHash()))
	end, _ := f.m.LatestLeaseEnd()
	left := hex.EncodeToString(binary.BigEndian.AppendUint32(nil, uint32((end-f.now.Mono+999_999)/1_000_000)))
	want := "01" + "0000000000000065" + hash + "00000001" +
		"0a" + "0000000000000007" + "0000000000000065" + "000001a3185c5000" + "00007530" + left + hex.EncodeToString([]byte("order-1234"))
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("snapshot\n%s, want\n%s", got, want)
	}
}

func TestSnapshotWhileTheTableChanges(t *testing.T) {
	for _, budget := range []int{1, 3, 50, 1000} {
		t.Run(fmt.Sprint("budget ", budget), func(t *testing.T) {
			f := newFixture(t, roomy)
			s := f.open("10.0.0.1:1")
			for i := range 200 {
				f.acquireFor(s, uint64(i+1), fmt.Sprintf("key-%d", i), 0, uint32(1000+i*100))
			}
			want, hash, counter := locks(f.m), f.m.StateHash(), f.m.LastToken()
			i := 0
			b := snapshotOf(f, budget, func() {
				if i == 200 {
					return
				}
				release := func(n int) {
					r := wire.Request{Owner: uint64(n + 1), Token: uint64(tokenBase + n + 1), Key: fmt.Appendf(nil, "key-%d", n)}
					f.m.Release(f.now, s, &r)
				}
				acquire := func(owner int, key string) {
					f.m.Acquire(f.now, s, &wire.Request{Owner: uint64(owner), Lease: 1000, Key: []byte(key)})
				}
				release(199 - i) // not visited yet
				release(i)       // visited
				acquire(1000+i, fmt.Sprintf("key-%d", 199-i))
				acquire(2000+i, fmt.Sprintf("new-%d", i))
				f.pass(time.Millisecond)
				i++
			})
			g := newFollower()
			if err := g.RestoreSnapshot(f.now, b); err != nil {
				t.Fatal(err)
			}
			if err := g.CheckInvariants(); err != nil {
				t.Fatal(err)
			}
			if got := locks(g); !slices.Equal(got, want) {
				t.Errorf("restored %d locks, want %d", len(got), len(want))
			}
			if g.StateHash() != hash || g.LastToken() != counter {
				t.Errorf("hash %x counter %d, want %x and %d", g.StateHash(), g.LastToken(), hash, counter)
			}
		})
	}
}

func TestSnapshotRemainingLease(t *testing.T) {
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	f.acquireFor(s, 1, "k1", 0, 10_000)
	f.acquireFor(s, 2, "k2", 0, 2_000)
	f.m.Acquire(f.now, s, &wire.Request{Owner: 3, Lease: 1000, Key: []byte("k3")}) // its lease has not started
	f.m.BeginSnapshot(f.now)
	b, _ := f.m.AppendSnapshot(nil, 100)
	f.check()
	g := newFollower()
	later := Time{Mono: 5 * int64(time.Hour)} // another machine, another clock
	if err := g.RestoreSnapshot(later, b); err != nil {
		t.Fatal(err)
	}
	g.Lead(later)
	log := g.log.(*scriptedLog)
	log.verdict = ApplyNow
	for _, step := range []struct {
		millis int64
		held   int
	}{{999, 3}, {1010, 2}, {1999, 2}, {2010, 1}, {9999, 1}, {10_010, 0}} {
		g.Tick(Time{Mono: later.Mono + step.millis*nanosPerMilli}, 100)
		if got := g.Stats().Held; got != step.held {
			t.Errorf("after %d ms: %d held, want %d", step.millis, got, step.held)
		}
	}
}

func TestRestoreReplacesWhatWasHeld(t *testing.T) {
	f := newPending(t)
	a, b := f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
	f.acquire(a, 1, "kept")
	f.acquire(a, 2, "gone")
	f.apply(2)
	snapshot := snapshotOf(f, 10, nil)
	f.release(a, 1, 101, "kept")
	f.acquire(b, 3, "kept")
	f.acquire(b, 4, "gone")
	f.acquire(b, 5, "fresh")
	f.stepDown()
	f.sink.lines = nil
	if err := f.m.RestoreSnapshot(f.now, snapshot); err != nil {
		t.Fatal(err)
	}
	f.check()
	f.lose(wire.BusyNotLeader)
	f.forget()
	f.forget()
	f.want("1 B owner=1 not_leader", "2 E owner=3 indeterminate", "2 E owner=5 indeterminate")
	if got := locks(f.m); len(got) != 2 || !strings.HasPrefix(got[0], "gone owner=2 token=102") || !strings.HasPrefix(got[1], "kept owner=1 token=101") {
		t.Errorf("locks %q", got)
	}
	f.m.Lead(f.now)
	f.log.verdict = ApplyNow
	f.release(a, 1, 101, "kept")
	f.pass(time.Hour)
	if n := f.m.Stats().Held; n != 0 {
		t.Errorf("%d held", n)
	}
}

func TestRestoreRefusesWhatIsNoSnapshot(t *testing.T) {
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	f.try(s, 1, "k1")
	f.try(s, 2, strings.Repeat("k", 128))
	good := snapshotOf(f, 10, nil)
	g := newFollower()
	if err := g.RestoreSnapshot(f.now, good); err != nil {
		t.Fatal(err)
	}
	before := locks(g)
	for n := range good {
		if err := g.RestoreSnapshot(f.now, good[:n]); !errors.Is(err, ErrSnapshot) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	if err := g.RestoreSnapshot(f.now, append(good, 0)); !errors.Is(err, ErrSnapshot) {
		t.Errorf("a byte too many: %v", err)
	}
	change := func(at int, to byte) []byte {
		b := slices.Clone(good)
		b[at] = to
		return b
	}
	for name, b := range map[string][]byte{
		"another version":         change(0, 2),
		"one lock more":           change(20, 3),
		"one lock less":           change(20, 1),
		"a key of no bytes":       change(snapshotHeader, 0),
		"a token above the count": change(8, tokenBase),
	} {
		if err := g.RestoreSnapshot(f.now, b); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := locks(g); !slices.Equal(got, before) {
		t.Errorf("refused, but now %q is held, not %q", got, before)
	}
	twice := append(slices.Clone(good), good[snapshotHeader:snapshotHeader+snapshotLock+2]...)
	twice[20] = 3
	for name, b := range map[string][]byte{
		"another hash": change(16, good[16]^1), "another owner": change(snapshotHeader+8, 9), "a key twice": twice,
	} {
		if err := g.RestoreSnapshot(f.now, b); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
		if err := g.CheckInvariants(); err != nil || len(locks(g)) != 0 {
			t.Errorf("%s: %d held, %v", name, len(locks(g)), err)
		}
	}
}

func FuzzRestoreSnapshot(f *testing.F) {
	x := newFixture(f, roomy)
	s := x.open("10.0.0.1:1")
	f.Add(snapshotOf(x, 10, nil))
	x.try(s, 1, "k1")
	x.try(s, 2, strings.Repeat("k", 128))
	f.Add(snapshotOf(x, 10, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newFollower()
		if err := m.RestoreSnapshot(Time{Mono: 1 << 40}, b); err != nil && !errors.Is(err, ErrSnapshot) {
			t.Error(err)
		}
		if !repairHash(b) {
			return
		}
		if err := m.RestoreSnapshot(Time{Mono: 1 << 40}, b); err != nil {
			return
		}
		if err := m.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		m.BeginSnapshot(Time{Mono: 1 << 40})
		again, _ := m.AppendSnapshot(nil, 1<<30)
		g := newFollower()
		if err := g.RestoreSnapshot(Time{Mono: 1 << 41}, again); err != nil || g.StateHash() != m.StateHash() {
			t.Errorf("a snapshot of it: %v, hash %x, want %x", err, g.StateHash(), m.StateHash())
		}
	})
}

// repairHash puts the right hash into what looks like a snapshot, so that fuzzing gets behind it. It reports false for one
// that is none, or that gives a token twice, which no node does and nobody looks for.
func repairHash(b []byte) bool {
	if checkSnapshot(b) != nil {
		return false
	}
	t := table{counter: binary.BigEndian.Uint64(b[1:])}
	tokens := map[uint64]bool{}
	for l := b[snapshotHeader:]; len(l) > 0; l = l[snapshotLock+int(l[0]):] {
		r := record{
			owner: binary.BigEndian.Uint64(l[1:]), token: binary.BigEndian.Uint64(l[9:]),
			grantedAt: int64(binary.BigEndian.Uint64(l[17:])), leaseMillis: binary.BigEndian.Uint32(l[25:]),
		}
		if tokens[r.token] {
			return false
		}
		tokens[r.token] = true
		t.sum += lockHash(l[snapshotLock:snapshotLock+int(l[0])], &r)
	}
	binary.BigEndian.PutUint64(b[9:], t.stateHash())
	return true
}
