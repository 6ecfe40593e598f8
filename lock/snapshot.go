package lock

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A snapshot holds the replicated state. Integers are unsigned and big-endian.
//
//	offset  size  field
//	0       1     version, 1
//	1       8     token counter
//	9       8     state hash
//	17      4     number of locks
//	21            the locks, in no order, each:
//	0       1       key length n, 1..128
//	1       8       owner
//	9       8       token, at most the counter
//	17      8       granted_at, unix ms
//	25      4       lease, ms
//	29      4       remaining lease, ms, counted from the snapshot's arrival
//	33      n       key
const (
	snapshotVersion = 1
	snapshotHeader  = 21
	snapshotLock    = 33
)

// ErrSnapshot says that bytes are not a snapshot, or not a whole one.
var ErrSnapshot = errors.New("not a snapshot of a lock table")

// snapshot is one under construction. What it holds is what was held when it began: the locks whose tokens are not above
// the counter of then. One that ends before its place was visited is saved.
type snapshot struct {
	active  bool
	mono    int64  // when it began
	counter uint64 // when it began
	next    uint32 // the places from 1 to next have been visited
	end     uint32 // the places from here on were not there when it began
	saved   []byte // encoded locks, to be appended
}

// awaits reports whether the snapshot holds the lock at a place that has not been visited yet.
func (s *snapshot) awaits(id uint32, token uint64) bool {
	return s.active && id > s.next && token <= s.counter
}

// saveLock keeps a lock that ends for the snapshot that awaits it.
func (t *table) saveLock(id uint32, r *record) {
	t.snapshot.saved = t.appendLock(t.snapshot.saved, id, r)
}

func (t *table) appendLock(dst []byte, id uint32, r *record) []byte {
	dst = append(dst, r.keyLen)
	dst = binary.BigEndian.AppendUint64(dst, r.owner)
	dst = binary.BigEndian.AppendUint64(dst, r.token)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.grantedAt))
	dst = binary.BigEndian.AppendUint32(dst, r.leaseMillis)
	dst = binary.BigEndian.AppendUint32(dst, t.remainingMillis(id, r, t.snapshot.mono))
	return append(dst, t.keyOf(r)...)
}

// remainingMillis returns what remains at mono of the lease of a lock, rounded up.
func (t *table) remainingMillis(id uint32, r *record, mono int64) uint32 {
	left := t.leaseEnd(id, r, Time{Mono: mono}) - mono
	return uint32((max(left, 0) + nanosPerMilli - 1) / nanosPerMilli)
}

// BeginSnapshot starts a snapshot of the replicated state as it is now; an unfinished one is given up. What remains of the
// leases is counted at now.
func (m *Manager) BeginSnapshot(now Time) {
	t := &m.table
	t.snapshot = snapshot{
		active: true, mono: now.Mono, counter: t.counter, saved: t.snapshot.saved[:0],
		end: uint32(len(t.ids.chunks)) << chunkBits,
	}
	b := append(t.snapshot.saved, snapshotVersion)
	b = binary.BigEndian.AppendUint64(b, t.counter)
	b = binary.BigEndian.AppendUint64(b, t.stateHash())
	t.snapshot.saved = binary.BigEndian.AppendUint32(b, uint32(t.held))
}

// AppendSnapshot appends the next part of the snapshot to dst, visiting at most budget places of the table. more is false
// when it is complete; the parts are then the state at BeginSnapshot, whatever changed between the calls.
func (m *Manager) AppendSnapshot(dst []byte, budget int) (b []byte, more bool) {
	t := &m.table
	s := &t.snapshot
	if !s.active {
		return dst, false
	}
	dst = append(dst, s.saved...)
	s.saved = s.saved[:0]
	for ; budget > 0; budget-- {
		id := t.ids.next(s.next)
		if id == 0 || id >= s.end {
			t.snapshot = snapshot{}
			return dst, false
		}
		if r := t.records.at(id); r.flags&held != 0 && r.token <= s.counter {
			dst = t.appendLock(dst, id, r)
		}
		s.next = id
	}
	return dst, true
}

// RestoreSnapshot replaces the replicated state by that of the snapshot b, whose remaining leases count from now. The
// manager must not lead. If b is not a snapshot, the error is ErrSnapshot, saying why, and nothing has changed, unless b
// holds a key twice or its hash is wrong: then nothing is held.
func (m *Manager) RestoreSnapshot(now Time, b []byte) error {
	if err := checkSnapshot(b); err != nil {
		return fmt.Errorf("restore snapshot of %d bytes: %w: %w", len(b), ErrSnapshot, err)
	}
	m.snapshot = snapshot{}
	m.releaseAll(now)
	m.counter = binary.BigEndian.Uint64(b[1:])
	hash := binary.BigEndian.Uint64(b[9:])
	for b = b[snapshotHeader:]; len(b) > 0; {
		key := b[snapshotLock : snapshotLock+int(b[0])]
		if !m.restoreLock(now, key, b) {
			m.releaseAll(now)
			return fmt.Errorf("restore snapshot: %w: key %q is in it twice", ErrSnapshot, key)
		}
		b = b[snapshotLock+len(key):]
	}
	if got := m.stateHash(); got != hash {
		m.releaseAll(now)
		return fmt.Errorf("restore snapshot: %w: its hash is %x, its locks have %x", ErrSnapshot, hash, got)
	}
	return nil
}

// checkSnapshot checks everything that can be without a table.
func checkSnapshot(b []byte) error {
	if len(b) < snapshotHeader || b[0] != snapshotVersion {
		return errors.New("no header of version 1")
	}
	counter := binary.BigEndian.Uint64(b[1:])
	locks := int(binary.BigEndian.Uint32(b[17:]))
	for b = b[snapshotHeader:]; len(b) > 0; locks-- {
		n := int(b[0])
		switch {
		case n < 1 || n > maxKey || len(b) < snapshotLock+n:
			return fmt.Errorf("a key of %d bytes in the last %d", n, len(b))
		case binary.BigEndian.Uint64(b[9:]) > counter:
			return fmt.Errorf("token %d above the counter, %d", binary.BigEndian.Uint64(b[9:]), counter)
		}
		b = b[snapshotLock+n:]
	}
	if locks != 0 {
		return fmt.Errorf("%d locks less than said", locks)
	}
	return nil
}

// restoreLock adds the lock at the start of b. It reports whether its key was free.
func (m *Manager) restoreLock(now Time, key, b []byte) bool {
	t := &m.table
	hash := t.hash(key)
	id := t.find(hash, key)
	if id == 0 {
		id = t.add(hash, key)
	} else if t.records.at(id).flags&held != 0 {
		return false
	}
	r := t.put(id, binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]),
		binary.BigEndian.Uint32(b[25:]), int64(binary.BigEndian.Uint64(b[17:])))
	r.session = 0
	t.leases.setDue(id, tickAfter(now.Mono+int64(binary.BigEndian.Uint32(b[29:]))*nanosPerMilli))
	m.settle(now, id)
	return true
}

// releaseAll makes every key free.
func (m *Manager) releaseAll(now Time) {
	for id := m.table.ids.next(0); id != 0; id = m.table.ids.next(id) {
		if m.records.at(id).flags&held != 0 {
			m.end(id)
			m.settle(now, id)
		}
	}
}
