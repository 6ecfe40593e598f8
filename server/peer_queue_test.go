package server

import (
	"testing"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

func TestPeerQueueOrder(t *testing.T) {
	q := peerQueue{urgentLimit: 1000, bulkLimit: 1000}
	body := func(text string) func([]byte) []byte { return func(dst []byte) []byte { return append(dst, text...) } }
	var spare []byte
	take := func() (out string) {
		spare = q.take(spare)
		for b := spare; len(b) > 0; {
			var f wire.PeerFrame
			n, err := wire.DecodePeerFrame(b, wire.MaxPeerBody, &f)
			if n == 0 {
				t.Fatal(err)
			}
			out += string(f.Body)
			b = b[n:]
		}
		return out
	}
	for _, text := range []string{"a", "b", "c"} {
		q.add(wire.PeerTypeInstallSnapshot, 0, body(text))
	}
	q.add(wire.PeerTypeAppendEntries, 0, body("1"))
	q.add(wire.PeerTypePreVote, 0, body("2"))
	got := take() + " " + take()
	q.add(wire.PeerTypeAppendEntries, 0, body("3"))
	got += " " + take() + " " + take() + " " + take() + " " + take()
	if got != "12 a 3 b c " || q.waiting() {
		t.Errorf("taken: %q", got)
	}
	big := body(string(make([]byte, 900)))
	if !q.add(wire.PeerTypeAppendEntries, 0, big) || q.add(wire.PeerTypeAppendEntries, 0, big) || !q.add(wire.PeerTypeAppendEntries, 0, body("small")) {
		t.Error("the bound does not hold")
	}
	if q.add(wire.PeerTypePreVote, 0, body(string(make([]byte, wire.MaxPeerBody+1)))) || q.dropped != 2 {
		t.Errorf("a frame that is too long was queued; %d dropped", q.dropped)
	}
	take()
	if !q.add(wire.PeerTypeAppendEntries, 0, body(string(make([]byte, 5000)))) {
		t.Error("a frame above the bound finds no room in an empty queue")
	}
}

func TestSlowPeer(t *testing.T) { eachWay(t, testSlowPeer) }

func testSlowPeer(t *testing.T, o peerNodeOptions) {
	const bulkFrame, limit = 64 << 10, 2 << 20
	o.limits = peerLimits{urgentBytes: limit, bulkBytes: limit}
	n := newPeerNode(t, newFakeDriver(peerMember(1)), o)
	p := dialledRaw(t, n, peerMember(2))
	c := n.dialled(peerMember(2))
	chunk := &raft.Message{Kind: raft.MsgInstallSnapshot, To: peerMember(2), Data: make([]byte, bulkFrame)}
	dropped := func() uint64 {
		c.queue.mu.Lock()
		defer c.queue.mu.Unlock()
		if len(c.queue.bulk)-c.queue.bulkAt > limit || len(c.queue.urgent) > limit {
			t.Fatalf("%d bytes of bulk and %d urgent ones wait; at most %d may", len(c.queue.bulk)-c.queue.bulkAt, len(c.queue.urgent), limit)
		}
		return c.queue.dropped
	}
	// The peer reads nothing: the kernel's buffers fill, then the queue, and then chunks are dropped.
	for dropped() < 100 {
		n.send(chunk)
		n.flush()
	}
	c.queue.mu.Lock()
	waiting := (len(c.queue.bulk) - c.queue.bulkAt) / bulkFrame
	c.queue.mu.Unlock()
	n.send(&raft.Message{Kind: raft.MsgAppendEntries, To: peerMember(2)}) // a heartbeat
	n.flush()
	n.send(&raft.Message{Kind: raft.MsgPreVote, To: peerMember(2)})
	n.flush()
	var behind int // chunks that come behind the heartbeat
	for heartbeat := false; behind < waiting-1; {
		f, err := p.in.one(wire.MaxPeerBody)
		if err != nil {
			t.Fatalf("the connection to a slow peer was closed: %v, heartbeat %v, %d chunks behind it", err, heartbeat, behind)
		}
		heartbeat = heartbeat || f.Type == wire.PeerTypeAppendEntries
		if heartbeat && f.Type == wire.PeerTypeInstallSnapshot {
			behind++
		}
	}
	if n.driver.has("refused") {
		t.Error("refused")
	}
	// Urgent frames are bounded too.
	for before := dropped(); dropped() < before+10; {
		n.send(appendMessage(peerMember(2), 200_000))
		n.flush()
	}
	// Its end holds nobody up, although much waits for it.
	c.close()
	c.writing.Lock()
	c.out, c.sent = []byte("the rest of something"), 0
	c.writing.Unlock()
	c.queue.add(wire.PeerTypeAppendEntries, 0, func(dst []byte) []byte { return append(dst, "too late"...) })
	c.push()
	rawClient(t, n, peerMember(3), wire.PeerRolePeer).say(wire.PeerTypeAccepted, "still here")
	n.driver.await(t, "received")
}

// What is queued while somebody else writes is written without a further flush.
func TestAllThatIsQueuedIsWritten(t *testing.T) { eachWay(t, testAllThatIsQueuedIsWritten) }

func testAllThatIsQueuedIsWritten(t *testing.T, o peerNodeOptions) {
	const senders, frames, size = 4, 2000, 4000
	o.limits = peerLimits{urgentBytes: senders * frames * (size + 200)}
	n := newPeerNode(t, newFakeDriver(peerMember(1)), o)
	p := dialledRaw(t, n, peerMember(2))
	for range senders {
		go func() {
			for range frames {
				n.send(appendMessage(peerMember(2), size))
				n.flush()
			}
		}()
	}
	for i := range senders * frames {
		if _, err := p.in.one(wire.MaxPeerBody); err != nil {
			t.Fatalf("after %d of %d frames: %v", i, senders*frames, err)
		}
	}
}
