package server

import (
	"encoding/binary"
	"errors"
	"time"

	"ticketing.internal/raft"
)

// The replica's part of a snapshot is what remains of the after-loss pause (u32, ms), then the lock table's.
const pauseBytes = 4

// capturePlaces is how many places of the lock table one call looks at, which holds the engine well below a millisecond.
const capturePlaces = 4096

// Capture implements raft.StateMachine.
func (r *replica) Capture() raft.Capture {
	now := r.engine.clock.now()
	r.engine.manager.BeginSnapshot(now)
	left := max(r.pauseEnd-now.Mono, 0) / int64(time.Millisecond)
	return &capture{r: r, ready: binary.BigEndian.AppendUint32(nil, uint32(left)), more: true}
}

// capture is a snapshot on its way out.
type capture struct {
	r     *replica
	ready []byte // made and not handed out yet
	more  bool   // the table has more
}

// AppendChunk implements raft.Capture.
func (c *capture) AppendChunk(dst []byte, limit int) (chunk []byte, last bool) {
	if len(c.ready) < limit && c.more {
		c.ready, c.more = c.r.engine.manager.AppendSnapshot(c.ready, capturePlaces)
	}
	n := min(limit, len(c.ready))
	dst = append(dst, c.ready[:n]...)
	c.ready = c.ready[:copy(c.ready, c.ready[n:])]
	return dst, !c.more && len(c.ready) == 0
}

// Close implements raft.Capture. The table gives up an unfinished snapshot when the next begins.
func (c *capture) Close() {}

// Restore implements raft.StateMachine.
func (r *replica) Restore() raft.Restore { return &restore{r: r} }

// restore is a snapshot that arrives.
type restore struct {
	r    *replica
	data []byte
}

var errShortSnapshot = errors.New("a snapshot without the replica's part")

// Chunk implements raft.Restore.
func (s *restore) Chunk(data []byte) error {
	s.data = append(s.data, data...)
	return nil
}

// Install implements raft.Restore.
func (s *restore) Install() error {
	if len(s.data) < pauseBytes {
		return errShortSnapshot
	}
	r := s.r
	now := r.engine.clock.now()
	if r.state.Serving {
		// Deposed and overtaken in one batch: the reign ends before the table is replaced.
		r.depose(now, &raft.State{Term: r.state.Term})
	}
	if err := r.engine.manager.RestoreSnapshot(now, s.data[pauseBytes:]); err != nil {
		return err
	}
	left := int64(binary.BigEndian.Uint32(s.data)) * int64(time.Millisecond)
	r.pauseEnd = 0
	if left > 0 {
		r.pauseEnd = now.Mono + left
	}
	return nil
}

// Close implements raft.Restore.
func (s *restore) Close() { s.data = nil }
