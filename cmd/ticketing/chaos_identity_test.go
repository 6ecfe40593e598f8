package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// prepareReplacement prepares the replacement of a seat and returns its node, not started yet.
func (c *chaosCluster) prepareReplacement(seat int) *chaosNode {
	c.t.Helper()
	return c.prepareReplacementAt(newChaosNode(c.t, seat))
}

// prepareReplacementAt prepares the replacement of its seat by next.
func (c *chaosCluster) prepareReplacementAt(next *chaosNode) *chaosNode {
	c.t.Helper()
	credential := strings.TrimSpace(c.control("replace", "--seat", fmt.Sprint(next.seat), "--peer-addr", next.peer).expect(c.t, exitOK).stdout)
	var peers []string
	for _, n := range c.nodes {
		peers = append(peers, n.peer)
	}
	next.environ = []string{"TICKETING_JOIN=" + credential, "TICKETING_PEERS=" + strings.Join(peers, ",")}
	return next
}

// A learner that dies while it catches up comes back by itself, as another learner.
func TestChaosLearnerCrashes(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := startLoad(newHistory(t), c.clientAddrs(), 8, 4)
	old := c.others(c.leader())[0]
	c.kill(old)
	next := c.prepareReplacement(old.seat)
	c.nodes[old.seat-1] = next
	c.start(next)
	eventually(t, "the admission of the learner", func() bool {
		return strings.Contains(next.process.stderr.String(), "admitted: catching up")
	})
	c.kill(next)
	c.start(next)
	c.awaitReady(next)
	l.progress()
	l.stop()
	l.check()
	l.checkTokens(c.token, c.lastToken())
	c.awaitEqual(c.nodes...)
}

// A node that was only believed dead finds its seat taken when it comes to itself, also one that led.
func TestChaosPredecessorComesBack(t *testing.T) {
	for _, role := range []string{"follower", "leader"} {
		t.Run(role, func(t *testing.T) {
			c := startChaosCluster(t, 3)
			l := startLoad(newHistory(t), c.clientAddrs(), 8, 4)
			l.progress()
			old := c.leader()
			if role == "follower" {
				old = c.others(old)[0]
			}
			old.process.signal(syscall.SIGSTOP)
			c.nodes = c.others(old)
			c.leader()
			next := c.prepareReplacement(old.seat)
			c.start(next)
			c.awaitReady(next)
			old.process.signal(syscall.SIGCONT)
			old.process.wait().expect(t, exitConfig)
			l.progress()
			l.stop()
			l.check()
			l.checkTokens(c.token, c.lastToken())
			c.nodes = append(c.nodes, next)
			c.awaitEqual(c.nodes...)
		})
	}
}

// A leader that lives is replaced like any other: it hands over, and ends when its seat is taken.
func TestChaosLeaderReplaced(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := startLoad(newHistory(t), c.clientAddrs(), 8, 4)
	l.progress()
	old := c.leader()
	next := c.prepareReplacement(old.seat)
	c.start(next)
	old.process.wait().expect(t, exitConfig)
	c.nodes[old.seat-1] = next
	c.awaitReady(c.nodes...)
	l.progress()
	l.stop()
	l.check()
	l.checkTokens(c.token, c.lastToken())
	c.awaitEqual(c.nodes...)
}

// Whoever sits at a peer's address without the secret can say what he likes: nobody believes a refusal without proof.
func TestChaosForgedRefusal(t *testing.T) {
	c := startChaosCluster(t, 3)
	victim := c.others(c.leader())[0]
	c.kill(victim)
	forger, err := net.Listen("tcp", victim.peer)
	if err != nil {
		t.Fatal(err)
	}
	defer forger.Close()
	refused := make(chan struct{}, 64)
	go func() {
		for {
			nc, err := forger.Accept()
			if err != nil {
				return
			}
			frame, start := wire.BeginPeerFrame(nil, wire.PeerTypeRefuse, 0)
			frame = wire.AppendPeerRefusal(frame, &wire.PeerRefusal{Reason: uint8(raft.RefuseRetired), Text: "go away"})
			frame, _ = wire.FinishPeerFrame(append(frame, make([]byte, wire.PeerProofSize)...), start)
			nc.Write(frame)
			nc.Close()
			select {
			case refused <- struct{}{}:
			default:
			}
		}
	}()
	for range 6 {
		select {
		case <-refused:
		case <-time.After(testTime):
			t.Fatal("nobody dials the address of the dead node")
		}
	}
	c.awaitReady(c.others(victim)...)
}

// Strangers are kept out, and the cluster does not notice.
func TestChaosStrangers(t *testing.T) {
	c := startChaosCluster(t, 3)
	before, _ := c.view(c.leader())
	next := c.prepareReplacement(1)
	t.Run("wrong secret", func(t *testing.T) {
		p := c.start(&chaosNode{
			seat: 1, client: next.client, peer: next.peer, admin: next.admin, dir: t.TempDir(),
			environ: append([]string{"TICKETING_CLUSTER_SECRET=another secret of sixteen bytes"}, next.environ...),
		})
		p.wait().expect(t, exitConfig) // the credential is none of its own secret's
		o := run(t, []string{"TICKETING_CLUSTER_SECRET=another secret of sixteen bytes"}, "cluster", "status", "--peer", c.nodes[0].peer)
		o.expect(t, exitAuth)
	})
	t.Run("wrong domain", func(t *testing.T) {
		other := newChaosCluster(t, 3)
		stranger := other.nodes[0]
		stranger.environ = append(stranger.environ, "TICKETING_PEERS="+c.nodes[0].peer)
		c.start(stranger)
		pause(time.Second)
		if v, ok := c.view(stranger); ok && v.Ready {
			t.Fatal("a node of another domain is ready")
		}
		c.kill(stranger)
	})
	t.Run("plaintext and garbage", func(t *testing.T) {
		for _, junk := range []string{"GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 4096), "\x16\x03\x01\x02\x00"} {
			nc, err := net.Dial("tcp", c.nodes[0].peer)
			if err != nil {
				t.Fatal(err)
			}
			nc.Write([]byte(junk))
			nc.SetReadDeadline(time.Now().Add(testTime))
			for b := make([]byte, 512); err == nil; {
				_, err = nc.Read(b)
			}
			nc.Close()
		}
	})
	c.control("abort").expect(t, exitOK)
	c.awaitReady(c.nodes...)
	if after, _ := c.view(c.leader()); after.Term != before.Term {
		t.Fatalf("term %d before, %d after", before.Term, after.Term)
	}
}

// A second process on the same state directory, and a second use of a bootstrap credential, are refused.
func TestChaosSecondUse(t *testing.T) {
	c := startChaosCluster(t, 3)
	n := c.nodes[0]
	twin := &chaosNode{seat: 1, client: localAddr(t), peer: localAddr(t), admin: localAddr(t), dir: n.dir, environ: n.environ}
	o := c.start(twin).wait().expect(t, exitConfig)
	if !strings.Contains(o.stderr, "another process uses the directory") {
		t.Errorf("stderr %q", o.stderr)
	}
	// The disk of seat 1 was lost, and it is started with the credential of the bootstrap once more.
	c.kill(n)
	again := &chaosNode{seat: 1, client: n.client, peer: n.peer, admin: n.admin, dir: t.TempDir(), environ: n.environ}
	o = c.start(again).wait().expect(t, exitConfig)
	if !strings.Contains(o.stderr, "ticketing cluster replace") {
		t.Errorf("stderr %q", o.stderr)
	}
	c.start(n)
	c.awaitReady(c.nodes...)
}
