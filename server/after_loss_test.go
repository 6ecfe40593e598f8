package server

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// startAfterLoss bootstraps a cluster one of whose nodes has the marker of a domain before.
func startAfterLoss(t *testing.T) *testCluster {
	t.Helper()
	c := newCluster(t, 3)
	lost := *lifeIn(newDomain)
	lost.tokenMark = 1 << 60 // far above what the clock gives
	state, err := openStateFile(c.dirs[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := state.replace(appendMarker(nil, &lost)); err != nil {
		t.Fatal(err)
	}
	state.close()
	return c.startAll()
}

// replicaOf is the replica of a node, whose engine's lock the caller holds.
func replicaOf(ts *testServer) *replica { return &ts.engine.authority.(*member).replica }

// Leases of a lost domain may still run: nothing is granted for 250 s, counted on each node from its own apply, and handed on with a
// snapshot.
func TestAfterALossNothingIsGrantedYet(t *testing.T) {
	c := startAfterLoss(t)
	leader := c.leader()
	a := leader.session(t)
	a.send(acquire(1, "k", 0, 30_000))
	a.expect(wire.OpBusy, uint16(wire.BusyRecovering), 1)
	a.send(acquire(2, "k", 30_000, 30_000))
	a.expect(wire.OpBusy, uint16(wire.BusyRecovering), 2)
	a.send(release(3, 7, "k"))
	a.expect(wire.OpNotHeld, 0, 3)
	for i, ts := range c.nodes {
		await(t, "a node that says that it waits", func() bool { return strings.HasPrefix(observer{ts.Server}.ready(), "recovering: ") })
		ts.engine.mu.Lock()
		r := replicaOf(ts)
		if left := time.Duration(r.pauseEnd - ts.clock.mono()); left <= 200*time.Second || left > 250*time.Second {
			t.Errorf("seat %d waits for another %v", i+1, left)
		}
		chunk, _ := r.Capture().AppendChunk(nil, pauseBytes)
		if left := binary.BigEndian.Uint32(chunk); left <= 200_000 || left > 250_000 {
			t.Errorf("a snapshot of seat %d says that %d ms are left", i+1, left)
		}
		if token := ts.engine.manager.LastToken(); token < 1<<60 {
			t.Errorf("seat %d would grant tokens above %d, which the domain before may have granted", i+1, token)
		}
		ts.engine.mu.Unlock()
	}
	leader.engine.batch(&leader.self, func(now lock.Time) { replicaOf(leader).pauseEnd = now.Mono }) // 250 s later
	await(t, "the end of the pause", leader.ready)
	a.send(acquire(4, "k", 0, 30_000))
	a.expect(wire.OpGranted, 0, 4)
}

// What a snapshot says is left counts from its arrival.
func TestPauseArrivesWithASnapshot(t *testing.T) {
	c := newCluster(t, 3).startAll()
	ts := c.leader()
	ts.engine.mu.Lock()
	defer ts.engine.mu.Unlock()
	r := replicaOf(ts)
	capture := r.Capture()
	var data []byte
	for last := false; !last; {
		data, last = capture.AppendChunk(data, 1<<20)
	}
	binary.BigEndian.PutUint32(data, 90_000)
	into := &replica{engine: ts.engine}
	restore := into.Restore()
	if err := restore.Chunk(data); err != nil {
		t.Fatal(err)
	}
	if err := restore.Install(); err != nil {
		t.Fatal(err)
	}
	if left := time.Duration(into.pauseEnd - ts.clock.mono()); left <= 60*time.Second || left > 90*time.Second {
		t.Errorf("%v are left of 90 s", left)
	}
}
