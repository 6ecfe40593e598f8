package server

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// Who has the cluster secret and is no member cannot have any number of connections. Members get in all the same, and so does whoever
// replaces a connection of its own.
func TestStrangersWithTheSecretAreBounded(t *testing.T) {
	eachWay(t, testStrangersWithTheSecretAreBounded)
}

func testStrangersWithTheSecretAreBounded(t *testing.T, o peerNodeOptions) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), o)
	_, nobody := listenRaw(t)
	n.dialsTo(peerTarget{member: peerMember(2), addr: nobody})
	connect := func(id raft.NodeID) *rawPeer {
		p := rawClient(t, n, peerMember(id), wire.PeerRolePeer)
		n.driver.await(t, "admit")
		return p
	}
	const first = 100
	var strangers []*rawPeer
	for i := range raft.NodeID(mostStrangers) {
		strangers = append(strangers, connect(first+i))
		await(t, "a place", func() bool { return n.acceptedFrom(peerMember(first+i)) != nil })
	}
	if types := connect(99).expectEnd(); len(types) != 1 || types[0] != wire.PeerTypeRefuse {
		t.Errorf("one more got %v", types)
	}
	n.log.await(t, raft.RefuseOverloaded.Error())
	connect(2)
	await(t, "a member's place", func() bool { return n.acceptedFrom(peerMember(2)) != nil })
	connect(first)
	if types := strangers[0].expectEnd(); len(types) != 0 {
		t.Errorf("the one that was replaced got %v", types)
	}
	strangers[1].Close()
	n.driver.await(t, "ended")
	connect(99)
	await(t, "the place of one that has gone", func() bool { return n.acceptedFrom(peerMember(99)) != nil })
}

// Plaintext on a port that is TLS is answered so that whoever sent it knows what to do.
func TestPlaintextToTLSIsToldSo(t *testing.T) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{tls: peerCertificates(t)})
	p := newRawPeer(t, dialRaw(t, n), peerMember(2), clusterSecrets(t, secretA))
	var refused *unprovedRefusal
	if err := p.shake.dial(wire.PeerRolePeer, peerMember(1)); !errors.As(err, &refused) || refused.reason != raft.RefuseTLS {
		t.Errorf("a node without TLS: %v", err)
	}
	p.expectEnd()
	n.log.await(t, "plaintext on the peer port, which is TLS")
	_, err := controlClient(t, secretA, n.addr().String()).Status(background(t))
	if !errors.Is(err, ErrNodesUseTLS) {
		t.Errorf("a command without TLS: %v", err)
	}
}

// A node that closes without a word may expect TLS or plaintext, where this one has the other.
func TestNodeThatHangsUpInTheHandshake(t *testing.T) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	l, addr := listenRaw(t)
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	if _, err := n.ask(background(t), addr, &wire.ControlRequest{Kind: wire.ControlStatus}, time.Minute); err == nil || !strings.Contains(err.Error(), tlsAdvice) {
		t.Errorf("%v does not say %q", err, tlsAdvice)
	}
}

// Why a node is not let in says what to set, also where the other side's words do not.
func TestRequestsSayWhatToSet(t *testing.T) {
	certificates := peerCertificates(t)
	asker := func(o peerNodeOptions) *peerNode { return newPeerNode(t, newFakeDriver(peerMember(1)), o) }
	plain, secured := newPeerNode(t, newFakeDriver(peerMember(2)), peerNodeOptions{}), newPeerNode(t, newFakeDriver(peerMember(2)), peerNodeOptions{tls: certificates})
	l, greets := listenRaw(t)
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			c.Write([]byte("220 no TLS here\r\n"))
			io.Copy(io.Discard, c)
		}
	}()
	for name, test := range map[string]struct {
		asks *peerNode
		addr string
		want string
	}{
		"another secret":               {asker(peerNodeOptions{secrets: clusterSecrets(t, secretB)}), plain.addr().String(), "TICKETING_CLUSTER_SECRET"},
		"another secret, with TLS":     {asker(peerNodeOptions{tls: certificates, secrets: clusterSecrets(t, secretB)}), secured.addr().String(), "end TLS"},
		"TLS to a plaintext node":      {asker(peerNodeOptions{tls: certificates}), plain.addr().String(), tlsAdvice},
		"TLS to another plaintext":     {asker(peerNodeOptions{tls: certificates}), greets, tlsAdvice},
		"plaintext to a node with TLS": {asker(peerNodeOptions{}), secured.addr().String(), tlsAdvice},
	} {
		_, err := test.asks.ask(background(t), test.addr, &wire.ControlRequest{Kind: wire.ControlStatus}, time.Minute)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v does not say %q", name, err, test.want)
		}
	}
}
