package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/wire"
)

func TestChaosLeaderKilled(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := c.load()
	for range 3 {
		l.progress()
		leader := c.leader()
		c.kill(leader)
		l.progress()
		c.start(leader)
		c.awaitReady(leader)
	}
	c.finish()
}

// A leader that stood still for 5 s, for itself no time at all, is the leader no more when it goes on, and says nothing untrue.
func TestChaosLeaderStopped(t *testing.T) {
	c := startChaosCluster(t, 3)
	leader := c.leader()
	l, loyal := c.load(), c.loyalLoad(leader)
	l.progress()
	loyal.progress()
	leader.freeze()
	pause(5 * time.Second)
	l.progress()
	leader.process.signal(syscall.SIGCONT)
	c.awaitReady(leader)
	l.progress()
	c.finish()
}

// What a leader had proposed before it stood still is committed by the next one. When it goes on it learns so, and tells its clients:
// a lock whose lease is over by then, which becomes no Ticket, and a release that took effect.
func TestChaosLateReplies(t *testing.T) {
	c := startChaosCluster(t, 3)
	h, leader := c.history, c.leader()
	conn, err := dialFrames(nil, leader.client, h.now)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	broker, err := client.New(client.Config{Addrs: []string{leader.client}})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	if err := broker.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := func(key string, lease time.Duration) *asked {
		return &asked{request: wire.Request{Op: wire.OpAcquire, Owner: uint64(len(key)), Key: []byte(key), Lease: uint32(lease.Milliseconds())}}
	}
	kept := ask("kept", time.Minute)
	if err := conn.exchange([]*asked{kept}, testTime); err != nil || kept.word() != wire.OpGranted {
		t.Fatalf("%v, %v", kept.word(), err)
	}

	for _, n := range c.others(leader) {
		n.freeze()
	}
	late, released := ask("late-grant", time.Second), &asked{request: kept.request}
	released.request.Op, released.request.Token = wire.OpRelease, kept.reply.Token
	list := []*asked{late, released}
	if err := conn.send(list); err != nil {
		t.Fatal(err)
	}
	replies, ticket := make(chan error, 1), make(chan error, 1)
	go func() { replies <- conn.await(list, testTime) }()
	go func() {
		_, err := broker.Acquire(t.Context(), "late-ticket", 0, time.Second)
		ticket <- err
	}()
	pause(200 * time.Millisecond) // in which the leader proposes: it would step down after 500 ms
	leader.freeze()
	for _, n := range c.others(leader) {
		n.process.signal(syscall.SIGCONT)
	}

	// The locks were granted: they are free when their lease is over, and not before.
	c.nodes = c.others(leader)
	addrs := strings.Join(c.clientAddrs(), ",")
	for _, key := range []string{"late-grant", "late-ticket", "kept"} {
		run(t, nil, "acquire", "--addr", addrs, "--wait", "10s", key).expect(t, exitOK)
		if h.now() < late.sent+time.Second {
			t.Errorf("%s: the lease was over early, or the lock was never granted: then this says nothing", key)
		}
	}
	pause(time.Second)
	leader.process.signal(syscall.SIGCONT)
	if err := <-replies; err != nil {
		t.Fatal(err)
	}
	waited := time.Duration(late.reply.Millis) * time.Millisecond
	if late.word() != wire.OpGranted || late.received < late.sent+waited+time.Second {
		t.Errorf("the grant: %v at %v, asked for at %v, proposed %v later", late.word(), late.received, late.sent, waited)
	}
	if released.word() != wire.OpReleased {
		t.Errorf("the release: %v", released.word())
	}
	if err := <-ticket; !errors.Is(err, client.ErrIndeterminate) {
		t.Errorf("a grant that came after its deadline became a Ticket: %v", err)
	}
}

func TestChaosFollowerKilled(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := c.load()
	follower := c.others(c.leader())[0]
	l.progress()
	c.kill(follower)
	l.progress()
	c.start(follower)
	c.awaitReady(follower)
	l.progress()
	c.finish()
}

func TestChaosRollingReboot(t *testing.T) {
	c := startChaosCluster(t, 3)
	l := c.load()
	for _, n := range c.nodes {
		l.progress()
		eventually(t, fmt.Sprintf("seat %d to be allowed to stop", n.seat), func() bool {
			return c.control("can-stop", "--seat", fmt.Sprint(n.seat)).code == exitOK
		})
		n.process.signal(syscall.SIGTERM)
		n.process.wait().expect(t, exitOK)
		l.progress()
		c.start(n)
		c.awaitReady(n)
	}
	c.finish()
}

// Without a majority nothing is granted, never again, and the nodes say so.
func TestChaosMajorityLost(t *testing.T) {
	parallelChaos(t)
	c := startChaosCluster(t, 3)
	h, leader := c.history, c.leader()
	l := c.load()
	loyal := c.loyalLoad(leader)
	l.progress()
	loyal.progress()
	conn, err := dialFrames(nil, leader.client, h.now)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	acquire := func(owner uint64, wait time.Duration) *asked {
		return &asked{request: wire.Request{
			Op: wire.OpAcquire, Owner: owner, Key: []byte("held"), Wait: uint32(wait.Milliseconds()), Lease: uint32(auditLease.Milliseconds()),
		}}
	}
	held, queued, late := acquire(1, 0), acquire(2, time.Hour), acquire(3, 0)
	if err := conn.exchange([]*asked{held}, testTime); err != nil || held.word() != wire.OpGranted {
		t.Fatalf("%v, %v", held.word(), err)
	}
	h.add(event{key: "held", token: held.reply.Token, asked: held.sent, granted: held.received, deadline: held.sent + auditLease})
	if err := conn.send([]*asked{queued}); err != nil {
		t.Fatal(err)
	}
	followers := c.others(leader)
	for _, n := range followers {
		c.kill(n)
	}
	lost := h.now()
	eventually(t, "the leader to step down", func() bool {
		v, ok := c.view(leader)
		return ok && !v.Ready && v.Role != "leader"
	})
	release := &asked{request: wire.Request{Op: wire.OpRelease, Owner: 1, Token: held.reply.Token, Key: []byte("held")}}
	if err := conn.await([]*asked{queued}, testTime); err != nil {
		t.Fatal(err)
	}
	if err := conn.exchange([]*asked{late, release}, testTime); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*asked{late, release} {
		if q.word() != wire.OpBusy || wire.Busy(q.reply.Code) != wire.BusyNoLeader {
			t.Errorf("%v without a majority: %v %v", q.request.Op, q.word(), wire.Busy(q.reply.Code))
		}
	}
	if code := wire.Busy(queued.reply.Code); queued.word() != wire.OpBusy || code != wire.BusyNotLeader && code != wire.BusyNoLeader {
		t.Errorf("who waited in the queue: %v %v", queued.word(), code)
	}
	c.awaitLog(leader, "the majority is out of reach: this node stops leading")
	for _, n := range followers {
		c.start(n) // they ask to be replaced, which nobody can grant
	}
	for _, n := range followers {
		c.awaitLog(n, "not admitted yet")
	}
	pause(time.Second)
	c.expectOver(lost)
}

// expectOver verifies of a domain that has lost its majority that nothing was granted since, that no process serves, and that each of
// them runs on and says why.
func (c *chaosCluster) expectOver(lost time.Duration) {
	c.t.Helper()
	for _, n := range c.nodes {
		if v, ok := c.view(n); !ok || v.Ready || v.WhyNotReady == "" {
			c.t.Errorf("seat %d: ready %v, %q", n.seat, v.Ready, v.WhyNotReady)
		}
	}
	c.expectAlive(c.nodes...)
	run(c.t, nil, "acquire", "--addr", strings.Join(c.clientAddrs(), ","), "--wait", "1s", "after").expect(c.t, exitUnreachable)
	c.history.expectNone(c.t, "all", lost, c.history.now())
	c.history.expectNone(c.t, "loyal", lost, c.history.now())
	for _, l := range c.loads {
		l.stop()
		for _, a := range l.auditors {
			a.settle()
		}
	}
	c.history.check(c.t, c.token, c.history.largest()) // how many tokens were taken nobody can tell any more
}

// All processes end, and are started with the environment of before while the credential is still valid: the domain is over, also
// when the credential is over.
func TestChaosAllRestarted(t *testing.T) {
	parallelChaos(t)
	c := newChaosCluster(t, 3)
	const valid = 6 * time.Second
	end := time.Now().Add(valid)
	c.prepareBootstrap(valid)
	c.startAll()
	l := c.load()
	l.progress()
	for _, n := range c.nodes {
		c.kill(n)
	}
	lost := c.history.now()
	for _, n := range c.nodes {
		c.start(n)
	}
	if time.Now().After(end) {
		t.Fatal("the credential has ended before the processes were started again: then this says nothing")
	}
	pause(time.Until(end) + time.Second)
	for _, n := range c.nodes {
		if v, ok := c.view(n); !ok || v.Role != "joining" {
			t.Errorf("seat %d: role %q", n.seat, v.Role)
		}
	}
	c.expectOver(lost)
}
