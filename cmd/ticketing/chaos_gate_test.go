package main

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// letter is a message of Raft on its way from one node to another.
type letter struct {
	from, to raft.NodeID
	message  *raft.Message
	edited   bool          // message was changed
	delay    time.Duration // it passes that much later, and what follows on its connection after it
}

// firstID is the NodeId of a node that took part in the bootstrap.
func (n *chaosNode) firstID() raft.NodeID { return raft.NodeID(n.seat) }

// cutAfter takes the entries behind an index away.
func (l *letter) cutAfter(index uint64) {
	for n, e := range l.message.Entries {
		if e.Index > index {
			l.message.Entries, l.edited = l.message.Entries[:n], true
			return
		}
	}
}

// rule reports whether a letter may pass. One that may not is lost, as in a network that loses packets; connections stay. Rules are
// asked one letter at a time, in the order in which letters pass; what they do to a letter becomes of it.
type rule func(*letter) bool

// gates stand before the peer ports of nodes, so that a test sees what the nodes say to each other and has the last word about it.
// Handshakes, the bootstrap and requests always pass.
type gates struct {
	t *testing.T

	mu   sync.Mutex
	rule rule
}

// set replaces the rule; nil lets everything pass.
func (g *gates) set(r rule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rule = r
}

func (g *gates) pass(l *letter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rule == nil || g.rule(l)
}

// startGatedCluster bootstraps a cluster of n whose nodes have gates.
func startGatedCluster(t *testing.T, n int) *chaosCluster {
	t.Helper()
	requireChaos(t)
	c := newChaosCluster(t, n)
	c.gates = &gates{t: t}
	for _, node := range c.nodes {
		c.gates.build(node)
	}
	c.startAll()
	return c
}

// build puts a gate at the peer address of a node that is not started yet, and its peer port behind.
func (g *gates) build(n *chaosNode) {
	g.t.Helper()
	l, err := net.Listen("tcp", n.peer)
	if err != nil {
		g.t.Fatal(err)
	}
	n.listen = localAddr(g.t)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			outside, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { g.carry(outside, n) })
		}
	})
	g.t.Cleanup(func() { // after the processes have ended, and their connections with them
		l.Close()
		open.Wait()
	})
}

// carry connects who came to the gate with the node, until either ends.
func (g *gates) carry(outside net.Conn, n *chaosNode) {
	defer outside.Close()
	inside, err := net.Dial("tcp", n.listen)
	if err != nil {
		return // as if nobody were there: the other side finds its connection closed
	}
	defer inside.Close()
	var hello wire.PeerHello
	_, first, err := readFrame(outside)
	if err != nil {
		return
	}
	if err := wire.DecodePeerHello(first[wire.PeerHeaderSize:], &hello); err != nil {
		g.t.Errorf("to seat %d: %v", n.seat, err)
		return
	}
	if _, err := inside.Write(first); err != nil {
		return
	}
	dialler, dialled := raft.NodeID(hello.Self.NodeID), raft.NodeID(hello.Expected.NodeID)
	var back sync.WaitGroup
	back.Go(func() {
		g.filter(outside, inside, dialled, dialler)
		outside.Close()
	})
	g.filter(inside, outside, dialler, dialled)
	inside.Close()
	back.Wait()
}

// filter copies frames that may pass.
func (g *gates) filter(dst io.Writer, src io.Reader, from, to raft.NodeID) {
	for {
		header, frame, err := readFrame(src)
		if err != nil {
			return
		}
		if header.Type.IsRaft() {
			l := letter{from: from, to: to, message: new(raft.Message)}
			if err := raft.DecodeMessage(raft.MessageKind(header.Type), frame[wire.PeerHeaderSize:], l.message); err != nil {
				g.t.Errorf("from node %d to node %d: %v", from, to, err)
				return
			}
			if !g.pass(&l) {
				continue
			}
			pause(l.delay)
			if l.edited {
				begun, start := wire.BeginPeerFrame(nil, header.Type, 0)
				frame, _ = wire.FinishPeerFrame(raft.AppendMessage(begun, l.message), start)
			}
		}
		if _, err := dst.Write(frame); err != nil {
			return
		}
	}
}

// readFrame reads a whole frame.
func readFrame(src io.Reader) (header wire.PeerHeader, frame []byte, err error) {
	frame = make([]byte, wire.PeerHeaderSize)
	if _, err := io.ReadFull(src, frame); err != nil {
		return header, nil, err
	}
	if _, err := wire.DecodePeerHeader(frame, wire.MaxPeerBody, &header); err != nil {
		return header, nil, err
	}
	frame = append(frame, make([]byte, header.Length)...)
	_, err = io.ReadFull(src, frame[wire.PeerHeaderSize:])
	return header, frame, err
}

// controlIn returns the first Control of a kind that a letter carries, with its index, or nil.
func (l *letter) controlIn(kind raft.ControlKind) (c *raft.Control, index uint64) {
	for _, e := range l.message.Entries {
		if e.Kind != raft.EntryControl {
			continue
		}
		if c, err := raft.DecodeControl(e.Data); err == nil && c.Kind == kind {
			return c, e.Index
		}
	}
	return nil, 0
}
