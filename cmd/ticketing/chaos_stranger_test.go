package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// forger listens where a node may look for another, and refuses whoever comes without having proved anything.
type forger struct {
	net.Listener
	answered chan raft.Refusal // after each refusal that was sent
}

// startForger answers at an address with one reason after the other, each as the first frame and as the one behind a HelloReply.
func startForger(t *testing.T, addr string, reasons ...raft.Refusal) *forger {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{Listener: l, answered: make(chan raft.Refusal, 64)}
	var open sync.WaitGroup
	open.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { f.refuse(conn, reasons[n/2%len(reasons)], n%2 == 1) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Wait()
	})
	return f
}

// refuse says what a node says that has proved the cluster secret, but for the proof.
func (f *forger) refuse(conn net.Conn, reason raft.Refusal, greet bool) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	var buf [wire.PeerHeaderSize + wire.MaxPeerBodyBeforeProof]byte
	var frame wire.PeerFrame
	var hello wire.PeerHello
	for got, whole := 0, 0; whole == 0; {
		n, err := conn.Read(buf[got:])
		if err != nil {
			return
		}
		got += n
		if whole, err = wire.DecodePeerFrame(buf[:got], wire.MaxPeerBodyBeforeProof, &frame); err != nil {
			return
		}
	}
	if wire.DecodePeerHello(frame.Body, &hello) != nil {
		return
	}
	var out []byte
	if greet {
		reply := hello
		reply.Self, reply.Expected = hello.Expected, hello.Self
		reply.Nonce[0]++
		begun, start := wire.BeginPeerFrame(out, wire.PeerTypeHelloReply, 0)
		out, _ = wire.FinishPeerFrame(wire.AppendPeerHello(begun, &reply), start)
	}
	begun, start := wire.BeginPeerFrame(out, wire.PeerTypeRefuse, 0)
	begun = wire.AppendPeerRefusal(begun, &wire.PeerRefusal{Reason: uint8(reason), Voter: wire.PeerPair{NodeID: 9}, Text: "go away"})
	out, _ = wire.FinishPeerFrame(append(begun, make([]byte, wire.PeerProofSize)...), start)
	conn.Write(out)
	conn.Read(buf[:]) // until the other side has read it
	select {
	case f.answered <- reason:
	default:
	}
}

// await waits for so many refusals.
func (f *forger) await(t *testing.T, refusals int) {
	t.Helper()
	for range refusals {
		select {
		case <-f.answered:
		case <-time.After(testTime):
			t.Fatal("nobody dials the forger")
		}
	}
}

// Whoever sits at a peer's address without the secret can say what he likes: nobody believes a refusal without proof, neither those
// who look for a dead member nor the node that wants to be one again.
func TestChaosForgedRefusal(t *testing.T) {
	parallelChaos(t)
	c := startChaosCluster(t, 3)
	l := c.load()
	reasons := []raft.Refusal{raft.RefuseRetired, raft.RefuseRegressed, raft.RefuseOtherIncarnation}
	victim := c.others(c.leader())[0]
	c.kill(victim)
	there := startForger(t, victim.peer, reasons...)
	there.await(t, 2*len(reasons))
	c.expectAlive(c.others(victim)...)
	l.progress()

	// A newcomer that knows no other address than a forger's goes on asking.
	elsewhere := startForger(t, localAddr(t), reasons...)
	next := c.prepareReplacement(victim.seat)
	next.environ = append(next.environ, "TICKETING_PEERS="+elsewhere.Addr().String())
	c.start(next)
	elsewhere.await(t, 2*len(reasons))
	c.expectAlive(next)
	c.kill(next)
	c.control("abort").expect(t, exitOK)
	there.Close()
	c.start(victim)
	c.finish()
}

// Strangers are kept out, and the cluster does not notice.
func TestChaosStrangers(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := c.load()
	l.progress()
	before, _ := c.view(c.leader())
	const another = "TICKETING_CLUSTER_SECRET=another secret of sixteen bytes"
	t.Run("wrong secret", func(t *testing.T) {
		next := c.prepareReplacement(1)
		next.environ = append(next.environ, another)
		c.start(next).wait().expect(t, exitConfig) // the credential is none of its own secret's
		run(t, []string{another}, "cluster", "status", "--peer", c.nodes[0].peer).expect(t, exitAuth)
		c.control("abort").expect(t, exitOK)

		// A node that had a life before, and does not know the secret any more, waits.
		follower := c.others(c.leader())[0]
		environ := follower.environ
		c.kill(follower)
		follower.environ = []string{another}
		c.start(follower)
		c.awaitLog(follower, "proof does not verify")
		c.expectStranger(follower)
		follower.environ = environ
		c.start(follower)
		c.awaitReady(follower)
	})
	t.Run("wrong domain", func(t *testing.T) {
		// Its credential names addresses at which there are nodes already.
		other := newChaosCluster(t, 3)
		stranger := other.nodes[0]
		other.nodes[1].peer, other.nodes[2].peer = c.nodes[1].peer, c.nodes[2].peer
		other.prepareBootstrap(time.Minute)
		c.start(stranger)
		c.awaitLog(stranger, "another domain")
		c.expectStranger(stranger)
	})
	t.Run("plaintext and garbage", func(t *testing.T) {
		for _, junk := range []string{"GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 4096)} {
			expectClosed(t, c.nodes[0].peer, junk)
		}
	})
	l.progress()
	c.finish()
	if after, _ := c.view(c.leader()); after.Term != before.Term {
		t.Fatalf("term %d before, %d after", before.Term, after.Term)
	}
}

// A node without TLS is none for those that have it, and the other way round, until somebody repairs its configuration.
func TestChaosPlaintextToTLS(t *testing.T) {
	requireChaos(t)
	for name, usual := range map[string]bool{"plaintext to TLS": true, "TLS to plaintext": false} {
		t.Run(name, func(t *testing.T) {
			c := newChaosCluster(t, 3)
			var hosts []net.IP
			for _, n := range c.nodes {
				hosts = append(hosts, net.IP(netip.MustParseAddrPort(n.peer).Addr().AsSlice()))
			}
			with := map[bool][]string{true: slices.Concat(c.environ, peerTLS(t, hosts...)), false: c.environ}
			c.environ = with[usual]
			c.startAll()
			l := c.load()
			l.progress()
			n := c.others(c.leader())[0]
			c.kill(n)
			c.environ = with[!usual]
			c.start(n)
			c.environ = with[usual]
			c.awaitLog(n, "not admitted yet")
			c.awaitLog(c.leader(), "set TICKETING_PEER_TLS_* on all nodes or on none")
			l.progress()
			c.expectStranger(n)
			if usual {
				expectClosed(t, c.leader().peer, "no record of TLS, and long enough to be seen for what it is")
			}
			c.start(n)
			c.finish()
		})
	}
}

// awaitLog waits until the log of a node says something.
func (c *chaosCluster) awaitLog(n *chaosNode, what string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("seat %d to log %q", n.seat, what), func() bool { return strings.Contains(n.process.stderr.String(), what) })
}

// expectStranger verifies that a process was not let in and goes on trying, and ends it.
func (c *chaosCluster) expectStranger(n *chaosNode) {
	c.t.Helper()
	if v, ok := c.view(n); !ok || v.Ready || v.Role != "joining" {
		c.t.Errorf("a stranger is there as a %q, ready: %v", v.Role, v.Ready)
	}
	c.expectAlive(n)
	c.kill(n)
}

// expectClosed verifies that a peer port closes a connection that speaks another protocol.
func expectClosed(t *testing.T, addr, junk string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTime))
	conn.Write([]byte(junk))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%.20q does not end a connection to the peer port", junk)
	}
}
