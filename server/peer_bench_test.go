package server

import (
	"fmt"
	"testing"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// drainPeer reads what arrives and tells how many bytes it was.
func drainPeer(p *rawPeer, arrived chan<- int) {
	buf := make([]byte, 512<<10)
	for {
		n, err := p.Read(buf)
		if err != nil {
			return
		}
		arrived <- n
	}
}

func TestSendingAllocatesNothing(t *testing.T) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	p := dialledRaw(t, n, peerMember(2))
	arrived := make(chan int, 1024)
	go drainPeer(p, arrived)
	m := appendMessage(peerMember(2), 20_000)
	size := len(frameBytes(wire.PeerTypeAppendEntries, string(raft.AppendMessage(nil, m))))
	turn := func() {
		n.send(m)
		n.flush()
		for left := size; left > 0; {
			left -= <-arrived
		}
	}
	for range 100 {
		turn()
	}
	if allocs := testing.AllocsPerRun(1000, turn); allocs != 0 {
		t.Errorf("%v allocations a message", allocs)
	}
}

func TestReceivingAllocatesNothing(t *testing.T) {
	d := newFakeDriver(peerMember(1))
	d.quiet = true
	n := newPeerNode(t, d, peerNodeOptions{})
	p := rawClient(t, n, peerMember(2), wire.PeerRolePeer)
	n.driver.await(t, "admit")
	frame := frameBytes(wire.PeerTypeAppendEntries, string(raft.AppendMessage(nil, appendMessage(peerMember(1), 20_000))))
	for range 100 {
		p.Write(frame)
	}
	if allocs := testing.AllocsPerRun(1000, func() { p.Write(frame) }); allocs != 0 {
		t.Errorf("%v allocations a message", allocs)
	}
}

// BenchmarkPeers sends a batch to two followers, as a leader does, and waits until both have it.
func BenchmarkPeers(b *testing.B) {
	for _, size := range []int{100, 10_000, 250_000} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			n := newPeerNode(b, newFakeDriver(peerMember(1)), peerNodeOptions{})
			l, addr := listenRaw(b)
			var targets []peerTarget
			arrived := make(chan int, 1024)
			for id := raft.NodeID(2); id <= 3; id++ {
				targets = append(targets, peerTarget{member: peerMember(id), addr: addr})
				n.dialsTo(targets...)
				p := acceptRaw(b, l, peerMember(id))
				if err := p.shake.accept(); err != nil {
					b.Fatal(err)
				}
				n.driver.await(b, "connected")
				go drainPeer(p, arrived)
			}
			m := appendMessage(peerMember(2), size)
			total := 2 * len(frameBytes(wire.PeerTypeAppendEntries, string(raft.AppendMessage(nil, m))))
			b.SetBytes(int64(total))
			b.ReportAllocs()
			for b.Loop() {
				for id := raft.NodeID(2); id <= 3; id++ {
					m.To = peerMember(id)
					n.send(m)
				}
				n.flush()
				for left := total; left > 0; {
					left -= <-arrived
				}
			}
		})
	}
}
