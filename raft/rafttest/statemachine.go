package rafttest

import (
	"encoding/binary"
	"time"

	"ticketing.internal/raft"
)

// stateMachine is the application's side of snapshots: the after-loss pause that remains (ms, u64), and the lock table.
type stateMachine struct{ p *process }

// Capture implements raft.StateMachine.
func (m stateMachine) Capture() raft.Capture {
	m.p.locks.BeginSnapshot(m.p.clock())
	return &capture{p: m.p, remaining: max(0, m.p.recoverUntil-m.p.local())}
}

type capture struct {
	p         *process
	remaining time.Duration
	begun     bool
	spare     []byte // read from the manager, not passed on yet
	done      bool
}

// AppendChunk implements raft.Capture.
func (c *capture) AppendChunk(dst []byte, limit int) ([]byte, bool) {
	if !c.begun {
		c.begun = true
		c.spare = binary.BigEndian.AppendUint64(c.spare, uint64(c.remaining/time.Millisecond))
	}
	for len(c.spare) < limit && !c.done {
		var more bool
		c.spare, more = c.p.locks.AppendSnapshot(c.spare, 64)
		c.done = !more
	}
	n := min(limit, len(c.spare))
	dst = append(dst, c.spare[:n]...)
	c.spare = append(c.spare[:0], c.spare[n:]...)
	return dst, c.done && len(c.spare) == 0
}

// Close implements raft.Capture.
func (c *capture) Close() {}

// Restore implements raft.StateMachine.
func (m stateMachine) Restore() raft.Restore { return &restore{p: m.p} }

type restore struct {
	p     *process
	bytes []byte
}

// Chunk implements raft.Restore.
func (r *restore) Chunk(data []byte) error {
	r.bytes = append(r.bytes, data...)
	return nil
}

// Install implements raft.Restore.
func (r *restore) Install() error {
	p := r.p
	if len(r.bytes) < 8 {
		p.s.fail("codec", "%v: a snapshot of %d bytes", p, len(r.bytes))
	}
	if p.leading {
		p.stepDown()
	}
	remaining := time.Duration(binary.BigEndian.Uint64(r.bytes)) * time.Millisecond
	if err := p.locks.RestoreSnapshot(p.clock(), r.bytes[8:]); err != nil {
		p.s.fail("codec", "%v: snapshot refused: %v", p, err)
	}
	if remaining > 0 {
		p.recoverUntil = p.local() + remaining
		p.refuse()
	}
	return nil
}

// Close implements raft.Restore.
func (r *restore) Close() {}
