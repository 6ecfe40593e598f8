package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// prepareReplacement prepares the replacement of a seat and returns its node, not started yet.
func (c *chaosCluster) prepareReplacement(seat int) *chaosNode {
	c.t.Helper()
	return c.prepareReplacementAt(newChaosNode(c.t, seat))
}

// prepareReplacementAt prepares the replacement of its seat by next.
func (c *chaosCluster) prepareReplacementAt(next *chaosNode) *chaosNode {
	c.t.Helper()
	c.mayJoin(next, c.control("replace", "--seat", fmt.Sprint(next.seat), "--peer-addr", next.peer).expect(c.t, exitOK).stdout)
	return next
}

// mayJoin gives a node a join credential, and tells it where to look for the cluster.
func (c *chaosCluster) mayJoin(n *chaosNode, credential string) {
	var peers []string
	for _, n := range c.nodes {
		peers = append(peers, n.peer)
	}
	n.environ = []string{"TICKETING_JOIN=" + strings.TrimSpace(credential), "TICKETING_PEERS=" + strings.Join(peers, ",")}
}

// A node that was only believed dead finds its seat taken when it comes to itself, also one that led.
func TestChaosPredecessorComesBack(t *testing.T) {
	for _, role := range []string{"follower", "leader"} {
		t.Run(role, func(t *testing.T) {
			c := startChaosCluster(t, 3)
			l := c.load()
			l.progress()
			old := c.leader()
			if role == "follower" {
				old = c.others(old)[0]
			}
			c.loyalLoad(old)
			old.freeze()
			c.nodes = c.others(old)
			c.leader()
			next := c.prepareReplacement(old.seat)
			c.start(next)
			c.awaitReady(next)
			old.process.signal(syscall.SIGCONT)
			old.process.wait().expect(t, exitConfig)
			l.progress()
			c.nodes = append(c.nodes, next)
			c.finish()
		})
	}
}

// A leader that lives is replaced like any other: it hands over, and ends when its seat is taken.
func TestChaosLeaderReplaced(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := c.load()
	l.progress()
	old := c.leader()
	c.loyalLoad(old).progress()
	next := c.prepareReplacement(old.seat)
	c.start(next)
	old.process.wait().expect(t, exitConfig)
	c.nodes[old.seat-1] = next
	c.awaitReady(c.nodes...)
	l.progress()
	c.finish()
}

// Of two replacements that are prepared at once one is, and the other is told why it is not. A joined node whose credential was
// taken from its environment is still a node after a reboot; nobody else has any use for the credential.
func TestChaosReplaceAndReboot(t *testing.T) {
	parallelChaos(t)
	c := startChaosCluster(t, 3)
	l := c.load()
	old := c.others(c.leader())[0]
	c.kill(old)
	candidates := []*chaosNode{newChaosNode(t, old.seat), newChaosNode(t, old.seat)}
	outcomes := make([]outcome, len(candidates))
	var both sync.WaitGroup
	for i, n := range candidates {
		both.Go(func() {
			outcomes[i] = c.control("replace", "--seat", fmt.Sprint(old.seat), "--peer-addr", n.peer)
		})
	}
	both.Wait()
	won := slices.IndexFunc(outcomes, func(o outcome) bool { return o.code == exitOK })
	if won < 0 {
		t.Fatalf("neither replacement was prepared: %v", outcomes)
	}
	if lost := outcomes[1-won]; lost.code != exitNegative || !strings.Contains(lost.stderr, "a replacement is under way") {
		t.Errorf("the other replacement: exit code %d, %s", lost.code, lost.stderr)
	}
	next := candidates[won]
	c.mayJoin(next, outcomes[won].stdout)
	environ := next.environ
	c.nodes[old.seat-1] = next
	c.start(next)
	c.awaitReady(next)
	l.progress()

	// Another process with the same credential, while the first one has its NodeId.
	second := newChaosNode(t, old.seat)
	second.environ = environ
	c.start(second).wait().expect(t, exitConfig)

	next.environ = nil // rebooted without the credential
	c.kill(next)
	c.start(next)
	c.awaitReady(next)

	// The retired process, and a second use of the credential at its own address, end with 78.
	if o := c.start(old).wait().expect(t, exitConfig); !strings.Contains(o.stderr, "seat taken by another process") {
		t.Errorf("stderr %q", o.stderr)
	}
	thief := newChaosNode(t, old.seat)
	thief.peer = next.peer
	thief.environ = environ
	c.kill(next)
	if o := c.start(thief).wait().expect(t, exitConfig); !strings.Contains(o.stderr, "TICKETING_JOIN is refused") {
		t.Errorf("stderr %q", o.stderr)
	}
	c.start(next)
	l.progress()
	c.finish()
}

// A second process on the same state directory, and a second use of a bootstrap credential, are refused.
func TestChaosSecondUse(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := c.load()
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
	l.progress()
	c.start(n)
	c.finish()
}
