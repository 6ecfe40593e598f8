package server

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ticketing.internal/raft"
)

func pairNumber(id raft.NodeID, incarnation byte) raft.Member {
	return raft.Member{NodeID: id, Incarnation: raft.Incarnation{incarnation}}
}

// markerOn is a marker file on a memoryDisk that holds the given marker, or nothing.
func markerOn(m *marker) (*markerFile, *memoryDisk) {
	disk := &memoryDisk{files: map[string][]byte{}}
	if m != nil {
		disk.files[stateName] = appendMarker(nil, m)
	}
	return newMarkerFile(&stateFile{dir: "dir", disk: disk}, m), disk
}

func lifeInNew() newLife {
	return newLife{domain: newDomain, seat: 2, self: pairNumber(2, 1), peerAddr: "n2:5325", peers: []string{"n1:5325", "n3:5325"}, credentialEnd: 8}
}

// Each way to change the marker: what it holds after it, on the disk too.
func TestMarkerChanges(t *testing.T) {
	entered := &marker{domain: newDomain, seat: 2, peerAddr: "n2:5325", peers: []string{"n1:5325", "n3:5325"}, credentialEnd: 8, incarnations: []raft.Member{pairNumber(2, 1)}}
	with := func(m *marker, change func(*marker)) *marker {
		m = m.clone()
		change(m)
		return m
	}
	for name, test := range map[string]struct {
		before *marker
		change func(*markerFile) error
		want   *marker
	}{
		"enter a first domain": {nil, func(f *markerFile) error { return f.enter(lifeInNew()) }, entered},
		"enter another domain: the token mark is carried over": {lifeIn(oldDomain), func(f *markerFile) error { return f.enter(lifeInNew()) },
			with(entered, func(m *marker) { m.tokenMark = 99 })},
		"enter the domain of the marker": {lifeIn(newDomain), func(f *markerFile) error { return f.enter(lifeInNew()) },
			with(lifeIn(newDomain), func(m *marker) {
				m.incarnations = append(m.incarnations, pairNumber(2, 1))
				m.peers, m.credentialEnd = []string{"n1:5325", "n3:5325", "n2:5325"}, 8
			})},
		"an incarnation": {entered, func(f *markerFile) error { return f.addIncarnation(raft.Incarnation{9}) },
			with(entered, func(m *marker) { m.incarnations = append(m.incarnations, pairNumber(0, 9)) })},
		"an incarnation again": {entered, func(f *markerFile) error { return f.addIncarnation(raft.Incarnation{1}) }, entered},
		"a NodeId": {with(entered, func(m *marker) { m.incarnations = append(m.incarnations, pairNumber(0, 9)) }),
			func(f *markerFile) error { return f.setNodeID(pairNumber(4, 9), 2, "n2:5325") },
			with(entered, func(m *marker) { m.incarnations = append(m.incarnations, pairNumber(4, 9)) })},
		"a NodeId in another seat": {entered, func(f *markerFile) error { return f.setNodeID(pairNumber(4, 9), 3, "n7:1") },
			with(entered, func(m *marker) {
				m.seat, m.peerAddr, m.incarnations = 3, "n7:1", append(m.incarnations, pairNumber(4, 9))
			})},
		"a token mark":           {entered, func(f *markerFile) error { return f.apply(markerChange{tokenMark: 5}) }, with(entered, func(m *marker) { m.tokenMark = 5 })},
		"a lower token mark":     {lifeIn(newDomain), func(f *markerFile) error { return f.apply(markerChange{tokenMark: 5}) }, lifeIn(newDomain)},
		"a mark beyond the file": {entered, func(f *markerFile) error { return f.apply(markerChange{tokenMark: math.MaxUint64}) }, with(entered, func(m *marker) { m.tokenMark = math.MaxInt64 })},
		"open":                   {entered, func(f *markerFile) error { return f.apply(markerChange{opened: true}) }, with(entered, func(m *marker) { m.opened = true })},
		"open stays":             {lifeIn(newDomain), func(f *markerFile) error { return f.apply(markerChange{peers: []string{"x:1"}}) }, with(lifeIn(newDomain), func(m *marker) { m.peers = []string{"x:1"} })},
		"more peers than it has room for, and some that it cannot hold": {entered,
			func(f *markerFile) error {
				return f.apply(markerChange{peers: slices.Concat([]string{"", strings.Repeat("a", 256)}, slices.Repeat([]string{"x:1"}, 20))})
			},
			with(entered, func(m *marker) { m.peers = slices.Repeat([]string{"x:1"}, 16) })},
	} {
		f, disk := markerOn(test.before)
		if err := test.change(f); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, _ := f.read()
		onDisk, err := decodeMarker(disk.files[stateName])
		if err != nil || !got.equal(test.want) || !onDisk.equal(test.want) {
			t.Errorf("%s:\n%+v, on the disk\n%+v, %v; want\n%+v", name, got, onDisk, err, test.want)
		}
		// The same again costs no write.
		ops := len(disk.ops)
		if err := test.change(f); err != nil || len(disk.ops) != ops {
			t.Errorf("%s, again: %d operations, %v", name, len(disk.ops)-ops, err)
		}
	}
}

func TestMarkerIsACopy(t *testing.T) {
	f, _ := markerOn(lifeIn(newDomain))
	m, _ := f.read()
	m.peers[0], m.incarnations[0].NodeID = "changed:1", 77
	if again, _ := f.read(); !again.equal(lifeIn(newDomain)) {
		t.Errorf("changed from outside: %+v", again)
	}
}

func TestMarkerBeforeADomainIsEntered(t *testing.T) {
	for name, change := range map[string]func(*markerFile) error{
		"an incarnation": func(f *markerFile) error { return f.addIncarnation(raft.Incarnation{1}) },
		"a NodeId":       func(f *markerFile) error { return f.setNodeID(pairNumber(1, 1), 1, "a:1") },
		"a mark":         func(f *markerFile) error { return f.apply(markerChange{tokenMark: 1}) },
	} {
		f, disk := markerOn(nil)
		if err := change(f); !errors.Is(err, errNoMarker) || len(disk.ops) != 0 {
			t.Errorf("%s: %v, after %q", name, err, disk.ops)
		}
		if _, ok := f.read(); ok {
			t.Errorf("%s: there is a marker", name)
		}
	}
}

// A marker with as many incarnations as it has room for first forgets those that cannot hold the seat.
func TestMarkerForgetsTheLeastUseful(t *testing.T) {
	full := fullMarker()
	full.incarnations[2].NodeID, full.incarnations[5].NodeID = 0, 0
	f, _ := markerOn(full)
	var added []raft.Member
	for i := range byte(3) {
		m := pairNumber(raft.NodeID(i)+1, 0xf0+i)
		added = append(added, m)
		if err := f.setNodeID(m, 5, "a:1"); err != nil {
			t.Fatal(err)
		}
	}
	want := slices.Clone(full.incarnations)
	for _, at := range []int{5, 2, 0} { // the two without a NodeID, then the oldest
		want = slices.Delete(want, at, at+1)
	}
	if got, _ := f.read(); !slices.Equal(got.incarnations, append(want, added...)) {
		t.Errorf("%d incarnations, first %v, last %v", len(got.incarnations), got.incarnations[:4], got.incarnations[len(got.incarnations)-4:])
	}
}

// A crash before, within and after each operation of the disk leaves the old marker or the new one; and whoever goes on instead of
// crashing can write again.
func TestMarkerWriteThatFailsHalfway(t *testing.T) {
	for name, before := range map[string]*marker{"the first": nil, "of another domain": lifeIn(oldDomain), "of the same domain": lifeIn(newDomain)} {
		whole, _ := markerOn(before)
		if err := whole.enter(lifeInNew()); err != nil {
			t.Fatal(err)
		}
		after, _ := whole.read()
		for failAt := 1; failAt <= 3; failAt++ {
			f, disk := markerOn(before)
			disk.failAt = failAt
			if err := f.enter(lifeInNew()); !errors.Is(err, errDisk) {
				t.Errorf("%s: operation %d fails, and enter returns %v", name, failAt, err)
			}
			if m, ok := f.read(); ok != (before != nil) || ok && !m.equal(before) {
				t.Errorf("%s: operation %d failed, and the marker is taken as written: %+v", name, failAt, m)
			}
			kept, err := (&stateFile{dir: "dir", disk: disk}).inspect()
			if err != nil || kept.alone {
				t.Errorf("%s: operation %d failed, and a restart finds %+v, %v", name, failAt, kept, err)
			}
			found := kept.marker
			isBefore, isAfter := found == nil && before == nil || found != nil && before != nil && found.equal(before), found != nil && found.equal(after)
			if !isBefore && !isAfter {
				t.Errorf("%s: operation %d failed, and a restart finds %+v", name, failAt, found)
			}
			if err := f.enter(lifeInNew()); err != nil {
				t.Errorf("%s: again after a failed operation %d: %v", name, failAt, err)
			}
			if kept, _ = (&stateFile{dir: "dir", disk: disk}).inspect(); kept.marker == nil || !kept.marker.equal(after) {
				t.Errorf("%s: then a restart finds %+v", name, kept.marker)
			}
		}
	}
}

// After a failed write nobody knows what is on the disk: a change back to what was there before has to be written too.
func TestMarkerThatMayBeOnTheDisk(t *testing.T) {
	f, disk := markerOn(lifeIn(newDomain))
	disk.failAt = 3 // the rename is done, its sync is not
	if err := f.apply(markerChange{peers: []string{"x:1"}}); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	if err := f.apply(markerChange{peers: lifeIn(newDomain).peers}); err != nil {
		t.Fatal(err)
	}
	if m, err := decodeMarker(disk.files[stateName]); err != nil || !m.equal(lifeIn(newDomain)) {
		t.Errorf("the disk holds %+v, %v", m, err)
	}
}

// Every crash of a process that enters, is admitted, and runs on: what is on the disk when it promises something is what it promised.
func TestMarkerCrashBetweenAllSteps(t *testing.T) {
	steps := []struct {
		change  func(*markerFile) error
		promise func(*marker) bool // holds of the marker once the step has returned
	}{
		{func(f *markerFile) error { return f.enter(lifeInNew()) }, func(m *marker) bool { return m.domain == newDomain && m.has(raft.Incarnation{1}) }},
		{func(f *markerFile) error { return f.setNodeID(pairNumber(2, 1), 2, "n2:5325") }, func(m *marker) bool { return m.hasNodeID(2) }},
		{func(f *markerFile) error { return f.apply(markerChange{tokenMark: 1 << 25, opened: true}) }, func(m *marker) bool { return m.tokenMark >= 1<<25 && m.opened }},
		{func(f *markerFile) error { return f.addIncarnation(raft.Incarnation{2}) }, func(m *marker) bool { return m.has(raft.Incarnation{2}) }},
	}
	for failAt := 1; failAt <= 3*len(steps)+1; failAt++ {
		f, disk := markerOn(lifeIn(oldDomain))
		disk.failAt = failAt
		done := 0
		for _, step := range steps {
			if step.change(f) != nil {
				break // the process ends here
			}
			done++
		}
		kept, err := (&stateFile{dir: "dir", disk: disk}).inspect()
		if err != nil || kept.marker == nil {
			t.Fatalf("crash at operation %d: %+v, %v", failAt, kept, err)
		}
		if kept.marker.tokenMark < 99 {
			t.Errorf("crash at operation %d: the mark of the old domain is lost: %+v", failAt, kept.marker)
		}
		for i, step := range steps[:done] {
			if !step.promise(kept.marker) {
				t.Errorf("crash at operation %d: step %d had returned, and the disk holds %+v", failAt, i, kept.marker)
			}
		}
	}
}

func TestInspect(t *testing.T) {
	whole := appendMarker(nil, exampleMarker())
	later := slices.Clone(whole)
	later[9] = 2
	for name, test := range map[string]struct {
		content []byte
		want    keptState
		refused string
	}{
		"nothing":             {nil, keptState{}, ""},
		"a marker":            {whole, keptState{marker: exampleMarker()}, ""},
		"a standalone record": {appendState(nil, exampleState()), keptState{alone: true}, ""},
		"an empty file":       {[]byte{}, keptState{}, "torn or damaged: 0 bytes; what it said is lost"},
		"a torn marker":       {whole[:len(whole)-1], keptState{}, "ticketing cluster replace"},
		"a foreign file":      {[]byte("some other file of 31 characters"), keptState{}, "not one of this program"},
		"a later version":     {later, keptState{}, "start the version that wrote it"},
	} {
		dir := t.TempDir()
		if test.content != nil {
			if err := os.WriteFile(filepath.Join(dir, stateName), test.content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// What a crash in the middle of a write leaves behind counts for nothing.
		if err := os.WriteFile(filepath.Join(dir, stateNewName), whole[:20], 0o600); err != nil {
			t.Fatal(err)
		}
		kept, err := openTestState(t, dir).inspect()
		if test.refused != "" {
			if ExitCode(err) != exitConfig || !strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: exit code %d, %v", name, ExitCode(err), err)
			}
			continue
		}
		same := kept.alone == test.want.alone && (kept.marker == nil) == (test.want.marker == nil)
		if err != nil || !same || kept.marker != nil && !kept.marker.equal(test.want.marker) {
			t.Errorf("%s: %+v, %v", name, kept, err)
		}
	}
}

// A standalone server does not take a node's directory, whoever asks.
func TestStandaloneServerOnAMarker(t *testing.T) {
	f := openTestState(t, t.TempDir())
	if err := newMarkerFile(f, nil).enter(lifeInNew()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.read(); !errors.Is(err, errStateMode) || ExitCode(err) != exitConfig {
		t.Errorf("exit code %d, %v", ExitCode(err), err)
	}
	if names, _ := filepath.Glob(filepath.Join(f.dir, "*")); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
	if info, err := os.Stat(filepath.Join(f.dir, stateName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestRAMDisk(t *testing.T) {
	const shm = "/dev/shm"
	var s unix.Statfs_t
	if err := unix.Statfs(shm, &s); err != nil {
		t.Skipf("%s: %v; this test needs a tmpfs there", shm, err)
	}
	dir, err := os.MkdirTemp(shm, "ticketing-test-")
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("%v; this test needs a tmpfs that can be written", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if kind, err := openTestState(t, dir).ramDisk(); err != nil || kind != "tmpfs" {
		t.Errorf("%s: %q, %v", dir, kind, err)
	}
	proc, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	if kind, err := ramDisk(proc); err != nil || kind != "" {
		t.Errorf("/proc: %q, %v", kind, err)
	}
	proc.Close()
	if _, err := ramDisk(proc); err == nil {
		t.Error("a closed file has a file system")
	}
}

// incarnationNumber makes incarnations for tests.
func incarnationNumber(n uint32) (i raft.Incarnation) {
	binary.BigEndian.PutUint32(i[:], n)
	return i
}
