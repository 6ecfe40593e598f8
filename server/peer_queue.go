package server

import (
	"encoding/binary"
	"sync"

	"ticketing.internal/wire"
)

const (
	// peerUrgentBytes and peerBulkBytes bound what waits for one peer. The former is above the window of raft.Config, so that
	// what Raft has on its way to a peer is not dropped for its size alone.
	peerUrgentBytes = 6 << 20
	peerBulkBytes   = 2 << 20
	// peerKeptBuffer is how large a buffer may be to be used again.
	peerKeptBuffer = 1 << 20
)

// peerQueue holds the frames that wait to be written to one connection between nodes, in two classes: chunks of a snapshot are bulk,
// everything else is urgent and goes first. A frame that finds no room is dropped, which Raft repairs.
type peerQueue struct {
	urgentLimit, bulkLimit int // bytes; immutable

	mu sync.Mutex
	// Guarded by mu: whole frames.
	urgent  []byte
	bulk    []byte
	bulkAt  int // where the first of bulk begins
	dropped uint64
	ended   bool // the connection is over: nothing waits any more
}

// end throws away what waits, and whatever is added from now on.
func (q *peerQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended, q.urgent, q.bulk, q.bulkAt = true, nil, nil, 0
}

// add appends one frame, whose body is appended by body. It reports false if there is no room, or the connection is over.
func (q *peerQueue) add(t wire.PeerType, requestID uint32, body func(dst []byte) []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	dst, limit := &q.urgent, q.urgentLimit
	if t == wire.PeerTypeInstallSnapshot {
		dst, limit = &q.bulk, q.bulkLimit
		if q.bulkAt > 0 && len(q.bulk) > limit/2 {
			q.bulk = append(q.bulk[:0], q.bulk[q.bulkAt:]...)
			q.bulkAt = 0
		}
		limit += q.bulkAt
	}
	if q.ended || len(*dst) >= limit {
		q.dropped++
		return false
	}
	buf, start := wire.BeginPeerFrame(*dst, t, requestID)
	buf, ok := wire.FinishPeerFrame(body(buf), start)
	if ok && len(buf) > limit && start > 0 {
		buf, ok = buf[:start], false
	}
	*dst = buf
	if !ok {
		q.dropped++
	}
	return ok
}

// take returns what is to be written next: everything urgent, or else one bulk frame, or nothing. spare is a buffer that an earlier take
// returned, and is reused.
func (q *peerQueue) take(spare []byte) []byte {
	if cap(spare) > peerKeptBuffer {
		spare = nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.urgent) > 0 {
		out := q.urgent
		q.urgent = spare[:0]
		return out
	}
	if q.bulkAt == len(q.bulk) {
		return spare[:0]
	}
	size := wire.PeerHeaderSize + int(binary.BigEndian.Uint32(q.bulk[q.bulkAt:]))
	out := append(spare[:0], q.bulk[q.bulkAt:q.bulkAt+size]...)
	if q.bulkAt += size; q.bulkAt == len(q.bulk) {
		q.bulk, q.bulkAt = q.bulk[:0], 0
		if cap(q.bulk) > peerKeptBuffer {
			q.bulk = nil
		}
	}
	return out
}

// waiting reports whether there is anything to take.
func (q *peerQueue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.urgent) > 0 || q.bulkAt < len(q.bulk)
}
