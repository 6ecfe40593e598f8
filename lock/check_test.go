package lock

import (
	"strings"
	"testing"
	"time"
)

// TestCheckInvariantsFindsWhatIsBroken breaks one thing at a time.
func TestCheckInvariantsFindsWhatIsBroken(t *testing.T) {
	long := strings.Repeat("k", 40)
	tests := []struct {
		name    string
		corrupt func(m *Manager, record, waiter uint32)
		want    string
	}{
		{"nothing", func(*Manager, uint32, uint32) {}, ""},
		{"hash of the state", func(m *Manager, _, _ uint32) { m.sum++ }, "sum of the locks' hashes"},
		{"a field of a lock", func(m *Manager, r, _ uint32) { m.records.at(r).grantedAt++ }, "sum of the locks' hashes"},
		{"count of locks", func(m *Manager, _, _ uint32) { m.held++ }, "locks held"},
		{"count of keys", func(m *Manager, _, _ uint32) { m.occupied-- }, "keys occupied"},
		{"counter", func(m *Manager, _, _ uint32) { m.counter = 101 }, "above the counter"},
		{"a token twice", func(m *Manager, r, _ uint32) { m.records.at(r).token = 102 }, "have token 102"},
		{"timer of a lease not set", func(m *Manager, r, _ uint32) { m.leases.clear(r) }, "held for ever"},
		{"timer in the slot of another tick", func(m *Manager, r, _ uint32) { m.leases.setDue(r, m.leases.due(r)-9) }, "in the slot of"},
		{"a busy slot uncounted", func(m *Manager, _, _ uint32) { m.leases.busy-- }, "slots taken"},
		{"bitmap", func(m *Manager, _, _ uint32) { m.leases.taken[5] ^= 1 }, "bitmap"},
		{"bitmap of the bitmap", func(m *Manager, _, _ uint32) { m.leases.words[15] ^= 1 << 63 }, "word 1023"},
		{"late list", func(m *Manager, _, _ uint32) { m.leases.lateLast = 7 }, "last of the late"},
		{"a back link of a timer", func(m *Manager, r, _ uint32) { m.leases.nodes.at(r).prev ^= 1 }, "in slot"},
		{"timer of a wait not set", func(m *Manager, _, w uint32) { m.waits.clear(w) }, "timer false"},
		{"index", func(m *Manager, r, _ uint32) { m.index.remove(r); m.index.count++ }, "is found as 0"},
		{"count of the index", func(m *Manager, _, _ uint32) { m.index.count++ }, "keys: "},
		{"hash in the index", func(m *Manager, r, _ uint32) { m.index.nodes.at(r).hash++ }, "keys: "},
		{"index of owners", func(m *Manager, _, w uint32) { m.owners.remove(w) }, "not found by its owner"},
		{"key of a record", func(m *Manager, r, _ uint32) { m.records.at(r).key[0]++ }, "is found as"},
		{"a key in a free place", func(m *Manager, _, _ uint32) { m.keys.classes[5].ids.free(1) }, "free place"},
		{"a place without a key", func(m *Manager, _, _ uint32) { m.keys.classes[2].ids.alloc() }, "places in use"},
		{"a queue link", func(m *Manager, _, w uint32) { m.waiters.at(w).prev = 9 }, "is wrong"},
		{"a queue's length", func(m *Manager, r, _ uint32) { m.queues.at(m.records.at(r).queue).length++ }, "is said to have"},
		{"a queue's end", func(m *Manager, r, _ uint32) { m.queues.at(m.records.at(r).queue).last = 9 }, "is said to have"},
		{"count of waiters", func(m *Manager, _, _ uint32) { m.line.queued++ }, "waiters in queues"},
		{"a queue nobody has", func(m *Manager, _, _ uint32) { m.queueIDs.alloc() }, "queues in use"},
		{"a session's list", func(m *Manager, _, w uint32) { m.waiters.at(w).sessionPrev = 9 }, "is wrong"},
		{"a session's count", func(m *Manager, _, _ uint32) { m.sessions.at(2).inFlight++ }, "in flight"},
		{"a session's keys", func(m *Manager, _, _ uint32) { m.sessions.at(1).held-- }, "keys held"},
		{"a session's releases", func(m *Manager, _, _ uint32) { m.sessions.at(1).pending++ }, "releases pending"},
		{"keys of open sessions", func(m *Manager, _, _ uint32) { m.heldByOpen++ }, "held by open sessions"},
		{"a record for nothing", func(m *Manager, _, _ uint32) { m.add(m.table.hash([]byte("x")), []byte("x")) }, "kept for nothing"},
		{"a pin for nothing", func(m *Manager, r, _ uint32) { m.records.at(r).pins++ }, "pins for"},
		{"an end that nobody proposed", func(m *Manager, r, _ uint32) { m.records.at(r).flags |= endProposed }, "0 ends"},
		{"a Grant that nobody proposed", func(m *Manager, r, _ uint32) { m.records.at(r).flags |= grantProposed }, "0 Grants"},
		{"a waiter that nobody proposed", func(m *Manager, _, w uint32) { m.waiters.at(w).proposed = true }, "proposed=true"},
		{"taken back, and forgotten", func(m *Manager, r, _ uint32) { m.records.at(r).flags |= takenBack }, "not late"},
		{"a free key with a queue", func(m *Manager, r, _ uint32) { m.end(r) }, "free with a queue"},
		{"an id used and free", func(m *Manager, r, _ uint32) { m.table.ids.chunks[0].used++ }, "taken"},
		{"count of ids", func(m *Manager, _, _ uint32) { m.table.ids.used++ }, "in use"},
		{"room of ids", func(m *Manager, _, _ uint32) { m.table.ids.room[0] = 0 }, "room false"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, roomy)
			a, b := f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
			f.try(a, 1, "k1")
			f.try(a, 2, long)
			f.acquire(b, 3, "k1")
			f.acquire(b, 4, "k1")
			f.pass(time.Second)
			record, waiter := f.m.table.find(f.m.table.hash([]byte("k1")), []byte("k1")), f.m.line.find(b, 3)
			test.corrupt(f.m, record, waiter)
			err := f.m.CheckInvariants()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("found %v, want %q", err, test.want)
			}
		})
	}
}
