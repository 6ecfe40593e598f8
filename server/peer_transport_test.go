package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// connectedPeers are two nodes of which a has dialled b.
func connectedPeers(t testing.TB, o peerNodeOptions) (a, b *peerNode) {
	t.Helper()
	a = newPeerNode(t, newFakeDriver(peerMember(1)), o)
	b = newPeerNode(t, newFakeDriver(peerMember(2)), o)
	a.dialsTo(b.target())
	a.driver.await(t, "connected")
	b.driver.await(t, "admit")
	await(t, "a way back to a", func() bool { return b.acceptedFrom(peerMember(1)) != nil })
	return a, b
}

func TestPeersCarryFrames(t *testing.T) { eachWay(t, testPeersCarryFrames) }

func testPeersCarryFrames(t *testing.T, o peerNodeOptions) {
	a, b := connectedPeers(t, o)
	want := appendMessage(peerMember(2), 250_000)
	a.send(want)
	a.send(&raft.Message{Kind: raft.MsgTimeoutNow, To: peerMember(2), Term: 3, Target: peerMember(2)})
	a.send(&raft.Message{Kind: raft.MsgPreVote, To: peerMember(9), Term: 3}) // to nobody
	a.flush()
	var got []wire.PeerType
	for len(got) < 2 {
		h := b.driver.await(t, "received")
		if len(got) == 0 {
			m := raft.Message{}
			if err := raft.DecodeMessage(raft.MsgAppendEntries, []byte(h.body), &m); err != nil || len(m.Entries) != len(want.Entries) || m.Index != 7 {
				t.Errorf("decoded %d entries, %v", len(m.Entries), err)
			}
		}
		got = append(got, h.types...)
	}
	if got[0] != wire.PeerTypeAppendEntries || got[1] != wire.PeerTypeTimeoutNow || len(got) != 2 {
		t.Errorf("received %v", got)
	}
}

// A node is answered where it has asked, also one that this node does not dial; and only answers go that way.
func TestRepliesGoBackWhereTheRequestCameFrom(t *testing.T) {
	eachWay(t, testRepliesGoBackWhereTheRequestCameFrom)
}

func testRepliesGoBackWhereTheRequestCameFrom(t *testing.T, o peerNodeOptions) {
	a, b := connectedPeers(t, o)
	reply := &raft.Message{Kind: raft.MsgAppendEntriesReply, To: peerMember(1), Term: 3, Index: 8}
	b.send(reply)
	b.send(appendMessage(peerMember(1), 10)) // there is no way
	b.flush()
	if h := a.driver.await(t, "received"); len(h.types) != 1 || h.types[0] != wire.PeerTypeAppendEntriesReply || h.in.Sender != peerMember(2) {
		t.Errorf("received %v from %v", h.types, h.in.Sender)
	}
	// Without the connection that asked, a reply goes over the node's own.
	b.dialsTo(a.target())
	b.driver.await(t, "connected")
	a.driver.await(t, "admit")
	a.dialsTo()
	b.driver.await(t, "ended")
	b.send(reply)
	b.flush()
	if h := a.driver.await(t, "received"); h.types[0] != wire.PeerTypeAppendEntriesReply || h.in.dialled != "" {
		t.Errorf("received %v, over %+v", h.types, h.in)
	}
	// What is no reply has no place on a connection that was dialled.
	l, addr := listenRaw(t)
	a.dialsTo(peerTarget{member: peerMember(3), addr: addr})
	p := acceptRaw(t, l, peerMember(3))
	if err := p.shake.accept(); err != nil {
		t.Fatal(err)
	}
	p.say(wire.PeerTypeAppendEntries, string(raft.AppendMessage(nil, appendMessage(peerMember(1), 10))))
	p.expectEnd()
	a.log.await(t, "sent what does not check")
	if a.driver.has("received") {
		t.Error("it was handled")
	}
}

func TestRaftNeedsBothPairs(t *testing.T) { eachWay(t, testRaftNeedsBothPairs) }

func testRaftNeedsBothPairs(t *testing.T, o peerNodeOptions) {
	a := newPeerNode(t, newFakeDriver(peerMember(1)), o)
	b := newPeerNode(t, newFakeDriver(peerMember(2)), o)
	a.dialsTo(peerTarget{addr: b.addr().String()})
	a.driver.await(t, "connected")
	a.send(appendMessage(peerMember(2), 10))
	a.broadcast(wire.PeerTypeInitialConfig, func(dst []byte) []byte { return append(dst, "initial"...) })
	a.broadcast(wire.PeerTypeAccepted, func(dst []byte) []byte { return append(dst, "accepted"...) })
	a.flush()
	var got []wire.PeerType
	for len(got) < 2 {
		got = append(got, b.driver.await(t, "received").types...)
	}
	if got[0] != wire.PeerTypeInitialConfig || got[1] != wire.PeerTypeAccepted {
		t.Errorf("received %v", got)
	}
	// A peer that sends Raft all the same is closed.
	p := newRawPeer(t, dialRaw(t, b), peerMember(3), clusterSecrets(t, secretA))
	if err := p.shake.dial(wire.PeerRolePeer, raft.Member{}); err != nil {
		t.Fatal(err)
	}
	p.say(wire.PeerTypePreVote, string(raft.AppendMessage(nil, &raft.Message{Kind: raft.MsgPreVote})))
	p.expectEnd()
	b.log.await(t, "sent what does not check")
	if b.driver.has("received") {
		t.Error("it was handled")
	}
}

func TestNewerConnectionReplacesTheOlder(t *testing.T) {
	eachWay(t, testNewerConnectionReplacesTheOlder)
}

func testNewerConnectionReplacesTheOlder(t *testing.T, o peerNodeOptions) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), o)
	first := rawClient(t, n, peerMember(2), wire.PeerRolePeer)
	n.driver.await(t, "admit")
	second := rawClient(t, n, peerMember(2), wire.PeerRolePeer)
	first.expectEnd()
	second.say(wire.PeerTypeAccepted, "still here")
	if h := <-n.driver.happened; h.what != "admit" {
		t.Fatalf("%s happened before the newer connection was let in", h.what)
	}
	if h := <-n.driver.happened; h.what != "received" || h.body != "still here" {
		t.Fatalf("%s happened", h.what)
	}
	third := rawClient(t, n, peerMember(3), wire.PeerRolePeer) // another pair replaces nothing
	n.driver.await(t, "admit")
	second.Close()
	if h := n.driver.await(t, "ended"); h.in.Sender != peerMember(2) {
		t.Errorf("%v ended", h.in.Sender)
	}
	third.Close()
	if h := n.driver.await(t, "ended"); h.in.Sender != peerMember(3) {
		t.Errorf("%v ended", h.in.Sender)
	}
}

func TestRefusedConnectionReplacesNothing(t *testing.T) {
	eachWay(t, testRefusedConnectionReplacesNothing)
}

func testRefusedConnectionReplacesNothing(t *testing.T, o peerNodeOptions) {
	d := newFakeDriver(peerMember(1))
	n := newPeerNode(t, d, o)
	first := rawClient(t, n, peerMember(2), wire.PeerRolePeer)
	d.await(t, "admit")
	d.mu.Lock()
	d.refuse = func(*peerIntroduction) peerRefusal { return peerRefusal{reason: raft.RefuseRegressed} }
	d.mu.Unlock()
	if types := rawClient(t, n, peerMember(2), wire.PeerRolePeer).expectEnd(); len(types) != 1 || types[0] != wire.PeerTypeRefuse {
		t.Fatalf("the copy was told %v", types)
	}
	first.say(wire.PeerTypeAccepted, "still here")
	d.await(t, "received")
	if d.has("ended") {
		t.Error("a refused connection has ended another")
	}
}

// A member that is retired in the instant in which it connects is told so too.
func TestDroppedWhileLetIn(t *testing.T) { eachWay(t, testDroppedWhileLetIn) }

func testDroppedWhileLetIn(t *testing.T, o peerNodeOptions) {
	d := newFakeDriver(peerMember(1))
	n := newPeerNode(t, d, o)
	retired := peerRefusal{reason: raft.RefuseRetired, voter: peerMember(4)}
	asked := 0
	d.refuse = func(in *peerIntroduction) (why peerRefusal) {
		if asked++; asked > 1 {
			return retired
		}
		n.drop(in.Sender, retired)
		return why
	}
	if types := rawClient(t, n, peerMember(2), wire.PeerRolePeer).expectEnd(); len(types) != 1 || types[0] != wire.PeerTypeRefuse {
		t.Fatalf("the retired member was told %v", types)
	}
}

func TestDroppedPeerIsToldWhy(t *testing.T) { eachWay(t, testDroppedPeerIsToldWhy) }

func testDroppedPeerIsToldWhy(t *testing.T, o peerNodeOptions) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), o)
	theirs := dialledRaw(t, n, peerMember(2))
	ours := rawClient(t, n, peerMember(2), wire.PeerRolePeer)
	ours.say(wire.PeerTypeAccepted, "let in")
	n.driver.await(t, "received")
	n.drop(peerMember(2), peerRefusal{reason: raft.RefuseRetired, voter: peerMember(4)})
	n.send(appendMessage(peerMember(2), 10)) // nothing follows the last word
	n.flush()
	ours.say(wire.PeerTypeAccepted, "too late")
	for _, p := range []*rawPeer{theirs, ours} {
		f, err := p.in.one(wire.MaxPeerBody)
		if err != nil || f.Type != wire.PeerTypeRefuse {
			t.Fatalf("told %v, %v", f.Type, err)
		}
		if why, proved, err := p.shake.readRefusal(f.Body); !proved || err != nil || why.voter != peerMember(4) || why.reason != raft.RefuseRetired {
			t.Errorf("told %+v, proved %v, %v", why, proved, err)
		}
		if types := p.expectEnd(); len(types) != 0 {
			t.Errorf("then %v", types)
		}
		p.Close()
	}
	for {
		h := <-n.driver.happened
		if h.what == "received" {
			t.Error("a frame of a dropped peer was handled")
		}
		if h.what == "ended" {
			break
		}
	}
}

func TestGarbageClosesTheConnection(t *testing.T) { eachWay(t, testGarbageClosesTheConnection) }

func testGarbageClosesTheConnection(t *testing.T, o peerNodeOptions) {
	good := frameBytes(wire.PeerTypeAccepted, "good")
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	tests := map[string][]byte{
		"checksum":       flipped,
		"unknown type":   frameBytes(99, "x"),
		"reserved":       append([]byte{0, 0, 0, 0, 14, 1}, make([]byte, 10)...),
		"too long":       {0x00, 0x10, 0x00, 0x01, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"out of place":   frameBytes(wire.PeerTypeHello, "x"),
		"a bad Refuse":   frameBytes(wire.PeerTypeRefuse, "x"),
		"Control":        frameBytes(wire.PeerTypeControl, "\x01"),
		"not our bodies": nil, // the driver says so
	}
	for name, garbage := range tests {
		t.Run(name, func(t *testing.T) {
			d := newFakeDriver(peerMember(1))
			if garbage == nil {
				d.failure = fmt.Errorf("%w of AppendEntries", raft.ErrMalformed)
			}
			n := newPeerNode(t, d, o)
			p := rawClient(t, n, peerMember(2), wire.PeerRolePeer)
			p.Write(append(bytes.Clone(good), garbage...))
			p.expectEnd()
			if h := d.await(t, "received"); h.body != "good" || len(h.types) != 1 {
				t.Errorf("received %v, %q", h.types, h.body)
			}
			n.log.await(t, "sent what does not check")
			d.await(t, "ended")
		})
	}
}

func TestEveryFrameCut(t *testing.T) { eachWay(t, testEveryFrameCut) }

func testEveryFrameCut(t *testing.T, o peerNodeOptions) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), o)
	whole := frameBytes(wire.PeerTypeAppendEntries, "a body of some bytes")
	for size := range len(whole) {
		p := rawClient(t, n, peerMember(2), wire.PeerRolePeer)
		n.driver.await(t, "admit")
		p.Write(whole[:size])
		p.Close()
		for h := range n.driver.happened {
			if h.what == "received" {
				t.Fatalf("%d of %d bytes were handled", size, len(whole))
			}
			if h.what == "ended" {
				break
			}
		}
	}
	// In two parts it is one frame.
	p := rawClient(t, n, peerMember(2), wire.PeerRolePeer)
	for size := 1; size < len(whole); size++ {
		p.Write(whole[:size])
		p.Write(whole[size:])
		if h := n.driver.await(t, "received"); h.body != "a body of some bytes" {
			t.Fatalf("cut after %d bytes: %q", size, h.body)
		}
	}
}

func TestNamesAreResolvedAtEachDial(t *testing.T) {
	b := newPeerNode(t, newFakeDriver(peerMember(2)), peerNodeOptions{})
	answers := [][]netip.Addr{nil, {netip.MustParseAddr("127.0.0.2")}, {netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.1")}}
	asked := make(chan string, 100)
	resolve := func(_ context.Context, host string) ([]netip.Addr, error) {
		asked <- host
		if len(answers) == 0 {
			return nil, errors.New("no such name")
		}
		a := answers[0]
		answers = answers[1:]
		return a, nil
	}
	a := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{limits: peerLimits{resolve: resolve}})
	_, port, _ := net.SplitHostPort(b.addr().String())
	a.dialsTo(peerTarget{member: peerMember(2), addr: "node-2.test:" + port})
	a.log.await(t, "the name has no address")
	a.log.await(t, "127.0.0.2")
	a.driver.await(t, "connected") // by the second address of the third answer
	if !a.isMemberAddr(netip.MustParseAddr("127.0.0.1")) || a.isMemberAddr(netip.MustParseAddr("127.0.0.9")) {
		t.Error("the addresses of members are not known")
	}
	if len(asked) != 3 {
		t.Errorf("asked %d times", len(asked))
	}
}

func TestTargetsChange(t *testing.T) {
	a, b := connectedPeers(t, peerNodeOptions{})
	c := newPeerNode(t, newFakeDriver(peerMember(3)), peerNodeOptions{})
	before := a.dialled(peerMember(2))
	a.dialsTo(b.target(), c.target())
	a.driver.await(t, "connected")
	if a.dialled(peerMember(2)) != before || a.dialled(peerMember(3)) == nil {
		t.Error("a target that stays was dialled again, or the new one was not")
	}
	a.dialsTo(c.target())
	b.driver.await(t, "ended")
	if a.dialled(peerMember(2)) != nil {
		t.Error("a target that is gone is still connected")
	}
	// The process has got a NodeID: every connection is made anew under it.
	a.driver.mu.Lock()
	a.driver.id.self.NodeID = 6
	a.driver.mu.Unlock()
	a.dialsTo(c.target())
	for c.driver.await(t, "admit").in.Sender.NodeID != 6 {
	}
}

func TestConnectionComesBack(t *testing.T) { eachWay(t, testConnectionComesBack) }

func testConnectionComesBack(t *testing.T, o peerNodeOptions) {
	a, b := connectedPeers(t, o)
	for range 5 {
		a.dialled(peerMember(2)).close()
		b.driver.await(t, "admit")
		a.driver.await(t, "connected")
	}
}

// A node that could not be reached and can be again has a line, and one alone.
func TestPeerThatIsReachableAgain(t *testing.T) {
	addr := freeAddr(t)
	a := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	a.dialsTo(peerTarget{member: peerMember(2), addr: addr})
	a.log.await(t, "another node cannot be reached: trying again")
	a.dialsTo(peerTarget{member: peerMember(3), addr: addr}) // it comes back as another member
	b := newPeerNode(t, newFakeDriver(peerMember(3)), peerNodeOptions{listen: addr})
	a.log.await(t, `msg="another node can be reached again" peer=`+addr)
	b.driver.await(t, "admit")
	if a.setLost(addr, false) {
		t.Error("it would be said again")
	}
}

func TestPeerPortInUse(t *testing.T) {
	a := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	_, err := openPeerTransport(a.addr().String(), peerOptions{})
	if want := "TICKETING_PEER_LISTEN=" + a.addr().String(); err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "; stop what uses the port, or choose another") {
		t.Errorf("%v; want %q and what to do", err, want)
	}
}

// TestPeersLeaveNothingBehind: goroutines and descriptors are what they were before.
func TestPeersLeaveNothingBehind(t *testing.T) { eachWay(t, testPeersLeaveNothingBehind) }

func testPeersLeaveNothingBehind(t *testing.T, o peerNodeOptions) {
	count := func() (goroutines, fds int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("needs /proc/self/fd")
		}
		return runtime.NumGoroutine(), len(entries)
	}
	turn := func() {
		t.Run("turn", func(t *testing.T) {
			a, b := connectedPeers(t, o)
			b.dialsTo(a.target(), peerTarget{addr: "127.0.0.1:1"})
			b.driver.await(t, "connected")
			dialRaw(t, a)
			rawClient(t, a, peerMember(5), wire.PeerRolePeer).Close()
			rawClient(t, a, peerMember(0), wire.PeerRoleControl)
			a.send(appendMessage(peerMember(2), 100_000))
			a.flush()
			b.driver.await(t, "received")
		})
	}
	turn()
	goroutines, fds := count()
	for range 5 {
		turn()
	}
	for deadline := time.Now().Add(patience); ; runtime.Gosched() { // goroutines that have ended are counted for a moment
		g, f := count()
		if g <= goroutines && f <= fds {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines and %d descriptors, before %d and %d", g, f, goroutines, fds)
		}
	}
}

func TestPeerPlaces(t *testing.T) {
	source := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }
	second := int64(time.Second)
	var p peerPlaces
	var first *peerConn
	for i := range peerPlacesInAll - memberPlaces {
		c := new(peerConn)
		if i == 1 {
			first = c
		}
		src := source(1 + i%3)
		if i%3 == 2 {
			src = source(2) // has two thirds
		}
		if victim, ok := p.enter(c, src, false, int64(i)); victim != nil || !ok {
			t.Fatalf("place %d is taken", i)
		}
	}
	if victim, ok := p.enter(new(peerConn), source(9), false, second); victim != nil || ok {
		t.Error("a stranger got a place although nobody is over his time")
	}
	for i := range memberPlaces {
		if victim, ok := p.enter(new(peerConn), source(9), true, second); victim != nil || !ok {
			t.Fatalf("place %d of members is taken", i)
		}
	}
	if victim, ok := p.enter(new(peerConn), source(9), false, 3*second); victim != first || !ok {
		t.Errorf("the oldest of the source with the most had to make room: %v", victim == first)
	}
	newcomer := new(peerConn)
	if victim, ok := p.enter(newcomer, source(8), true, 3*second); victim == nil || !ok {
		t.Error("a member got no place")
	}
	p.leave(newcomer)
	if victim, ok := p.enter(new(peerConn), source(7), false, 3*second); victim != nil || !ok {
		t.Error("the place of a connection that left is not free")
	}
	if len(p.everybody) != peerPlacesInAll-memberPlaces || len(p.members) != memberPlaces {
		t.Errorf("%d and %d places", len(p.everybody), len(p.members))
	}
}

func TestMembersGetInThroughAFlood(t *testing.T) {
	a := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	b := newPeerNode(t, newFakeDriver(peerMember(2)), peerNodeOptions{})

	for range peerPlacesInAll - memberPlaces {
		dialRaw(t, b)
	}
	newRawPeer(t, dialRaw(t, b), peerMember(9), clusterSecrets(t, secretA)).expectEnd() // all places are taken
	b.dialsTo(a.target())                                                               // by which b knows the address of a
	b.driver.await(t, "connected")
	a.dialsTo(b.target())
	a.driver.await(t, "connected")

}
