package server

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// brokenCarrier is a connection that the other side has reset.
type brokenCarrier struct{}

func (brokenCarrier) run() (*wire.PeerFrame, error)   { return nil, io.EOF }
func (brokenCarrier) write([]byte) (n int, err error) { return 0, syscall.EPIPE }
func (brokenCarrier) awaitRoom()                      {}
func (brokenCarrier) closeWrite()                     {}
func (brokenCarrier) hangUp()                         {}

// What is queued on a connection that has broken is thrown away: whoever flushes does not try again and again.
func TestBrokenConnectionIsGivenUp(t *testing.T) {
	c := &peerConn{tcp: new(net.TCPConn), quit: make(chan struct{}), carrier: brokenCarrier{}, queue: peerQueue{urgentLimit: 1000, bulkLimit: 1000}}
	add := func() {
		c.queue.add(wire.PeerTypeAppendEntries, 0, func(dst []byte) []byte { return append(dst, "frame"...) })
	}
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		for range 3 {
			add()
			c.push()
		}
	}()
	select {
	case <-flushed:
	case <-time.After(patience):
		t.Fatal("a flush does not end")
	}
	if c.queue.waiting() {
		t.Error("frames wait on a connection that is over")
	}
}

// The last word may be queued while the writer is at what came before it: it closes only behind the last word.
func TestLastWordIsWrittenBeforeTheEnd(t *testing.T) {
	c := &peerConn{tcp: new(net.TCPConn), quit: make(chan struct{}), wakeup: make(chan struct{}, 1), queue: peerQueue{urgentLimit: 1000, bulkLimit: 1000}}
	c.ending.Store(true) // as refuse does first
	if c.lastWritten() {
		t.Error("a connection that is ending counts as ended before its last word is queued")
	}
	c.ending.Store(false)
	c.refuse(peerRefusal{reason: raft.RefuseRetired})
	if c.lastWritten() {
		t.Error("a last word that waits counts as written")
	}
	c.queue.take(nil)
	if !c.lastWritten() {
		t.Error("a last word that was taken does not count as written")
	}
}
