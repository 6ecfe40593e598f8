package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

func TestPeersIntroduceThemselves(t *testing.T) {
	a := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	b := newPeerNode(t, newFakeDriver(peerMember(2)), peerNodeOptions{})
	a.dialsTo(b.target())
	at, from := b.driver.await(t, "admit").in, a.driver.await(t, "connected").in
	if at.Sender != peerMember(1) || at.Receiver != peerMember(2) || at.Domain != testPeerDomain || at.Term != 3 ||
		at.seat != 1 || at.clientAddr != "client:1" || at.credential != (raft.CredentialID{'c'}) || at.dialled != "" || !at.bound() {
		t.Errorf("the accepting side knows %+v", at)
	}
	if from.Sender != peerMember(2) || from.Receiver != peerMember(1) || from.seat != 2 || from.dialled != b.addr().String() || !from.bound() {
		t.Errorf("the dialing side knows %+v", from)
	}
	a.dialsTo(peerTarget{addr: b.addr().String()})
	if in := b.driver.await(t, "admit").in; in.bound() || !in.Receiver.IsZero() {
		t.Errorf("a connection to whoever is there is bound: %+v", in)
	}
	if in := a.driver.await(t, "connected").in; in.bound() || in.Sender != peerMember(2) {
		t.Errorf("a connection to whoever is there is bound: %+v", in)
	}
}

func TestRefusedPeers(t *testing.T) {
	stranger := func(d *fakeDriver) { d.id.domain = raft.Domain{'x'} }
	tests := []struct {
		name     string
		prepare  func(dialer, acceptor *fakeDriver)
		target   func(*peerTarget)
		reason   raft.Refusal
		believed bool // by the dialing side, as a proved refusal
	}{
		{"another domain", func(d, _ *fakeDriver) { stranger(d) }, nil, raft.RefuseDomain, true},
		{"meant for another process", nil, func(p *peerTarget) { p.member = peerMember(9) }, raft.RefuseReceiver, true},
		{"regressed", func(_, a *fakeDriver) { a.shown[peerMember(1)] = 4 }, nil, raft.RefuseRegressed, true},
		{"the term that was shown", func(_, a *fakeDriver) { a.shown[peerMember(1)] = 3 }, nil, raft.RefuseNone, false},
		{"retired", func(_, a *fakeDriver) {
			a.refuse = func(*peerIntroduction) peerRefusal {
				return peerRefusal{reason: raft.RefuseRetired, voter: peerMember(4), text: "replaced"}
			}
		}, nil, raft.RefuseRetired, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			da, db := newFakeDriver(peerMember(1)), newFakeDriver(peerMember(2))
			if tt.prepare != nil {
				tt.prepare(da, db)
			}
			da.refuse = func(*peerIntroduction) peerRefusal { return peerRefusal{} } // so that the acceptor's word is heard
			a, b := newPeerNode(t, da, peerNodeOptions{}), newPeerNode(t, db, peerNodeOptions{})
			target := b.target()
			if tt.target != nil {
				tt.target(&target)
			}
			a.dialsTo(target)
			if got := db.await(t, "admit").why.reason; got != tt.reason {
				t.Fatalf("refused as %v; want %v", got, tt.reason)
			}
			if tt.believed {
				got := da.await(t, "refused")
				if got.why.reason != tt.reason || got.in.dialled != target.addr || got.why.voter.IsZero() != (tt.reason != raft.RefuseRetired) {
					t.Errorf("the dialing side was told %+v", got)
				}
				b.log.await(t, "another node was refused")
				a.log.await(t, "another node refuses this one")
				db.await(t, "admit") // it goes on trying
			}
		})
	}
}

func TestDialerRefuses(t *testing.T) {
	da, db := newFakeDriver(peerMember(1)), newFakeDriver(peerMember(2))
	da.refuse = func(in *peerIntroduction) peerRefusal {
		if in.dialled != "" {
			return peerRefusal{reason: raft.RefuseRetired, voter: peerMember(5)}
		}
		return peerRefusal{}
	}
	a, b := newPeerNode(t, da, peerNodeOptions{}), newPeerNode(t, db, peerNodeOptions{})
	a.dialsTo(b.target())
	if h := db.await(t, "refused"); h.why.reason != raft.RefuseRetired || h.why.voter != peerMember(5) || h.in.Sender != peerMember(1) {
		t.Errorf("the accepting side was told %+v", h)
	}
	db.await(t, "ended")
	if da.has("connected") {
		t.Error("a refused connection is used")
	}
}

func TestClusterSecrets(t *testing.T) {
	tests := []struct {
		name    string
		a, b    []string
		connect bool
	}{
		{"the same", []string{secretA}, []string{secretA}, true},
		{"another", []string{secretA}, []string{secretB}, false},
		{"rotation: the new one is known everywhere", []string{secretA, secretB}, []string{secretB, secretA}, true},
		{"rotation: one node has only the old one", []string{secretA, secretB}, []string{secretA}, true},
		{"rotation: made too early", []string{secretB, secretA}, []string{secretA}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{secrets: clusterSecrets(t, tt.a...)})
			b := newPeerNode(t, newFakeDriver(peerMember(2)), peerNodeOptions{secrets: clusterSecrets(t, tt.b...)})
			a.dialsTo(b.target())
			if tt.connect {
				a.driver.await(t, "connected")
				b.driver.await(t, "admit")
				return
			}
			b.log.await(t, "TICKETING_CLUSTER_SECRET")
			a.log.await(t, "refused without proof")
			if a.driver.has("connected") || a.driver.has("refused") || b.driver.has("admit") {
				t.Error("a peer without the secret was heard")
			}
			b.setSecrets(clusterSecrets(t, append(tt.a, tt.b...)...)) // SIGHUP
			a.setSecrets(clusterSecrets(t, append(tt.a, tt.b...)...))
			a.driver.await(t, "connected")
		})
	}
}

func TestOwnProcessOnTheOtherSide(t *testing.T) {
	a := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	a.dialsTo(peerTarget{addr: a.addr().String()})
	a.log.await(t, "this node has reached itself")
	if a.driver.has("admit") {
		t.Error("it was let in")
	}
}

func TestNoVersionInCommon(t *testing.T) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	p := newRawPeer(t, dialRaw(t, n), peerMember(2), clusterSecrets(t, secretA))
	hello := wire.PeerHello{Version: 9, Lowest: 8, Role: wire.PeerRolePeer, Domain: testPeerDomain, Self: pairOf(peerMember(2))}
	p.say(wire.PeerTypeHello, string(wire.AppendPeerHello(nil, &hello)))
	f, err := p.in.one(wire.MaxPeerBodyBeforeProof)
	if err != nil || f.Type != wire.PeerTypeRefuse {
		t.Fatalf("answered %+v, %v", f, err)
	}
	if why, proved, err := p.shake.readRefusal(f.Body); err != nil || proved || why.reason != raft.RefuseVersion ||
		!bytes.Contains([]byte(why.text), []byte("here 1 to 1, there 8 to 9")) {
		t.Errorf("refused with %+v, proved %v, %v", why, proved, err)
	}
	hello.Lowest = 1 // a newer one that still speaks ours
	p = newRawPeer(t, dialRaw(t, n), peerMember(2), clusterSecrets(t, secretA))
	p.say(wire.PeerTypeHello, string(wire.AppendPeerHello(nil, &hello)))
	if f, err := p.in.one(wire.MaxPeerBodyBeforeProof); err != nil || f.Type != wire.PeerTypeHelloReply {
		t.Errorf("answered %+v, %v", f, err)
	}
}

// TestForgedRefusals: a stranger at a peer's address says "retired" wherever it can. Nobody may believe it.
func TestForgedRefusals(t *testing.T) {
	body := append(wire.AppendPeerRefusal(nil, &wire.PeerRefusal{Reason: uint8(raft.RefuseRetired)}), make([]byte, wire.PeerProofSize)...)
	tests := []struct {
		name string
		play func(p *rawPeer)
	}{
		{"in place of its Hello", func(p *rawPeer) { p.say(wire.PeerTypeRefuse, string(body)) }},
		{"in place of its Proof", func(p *rawPeer) {
			var hello []byte
			if _, err := p.shake.readHello(wire.PeerTypeHello, &hello); err != nil {
				p.t.Error(err)
			}
			reply := wire.PeerHello{Version: 1, Lowest: 1, Role: wire.PeerRolePeer, Domain: testPeerDomain, Self: pairOf(peerMember(2)), Expected: pairOf(peerMember(1))}
			p.say(wire.PeerTypeHelloReply, string(wire.AppendPeerHello(nil, &reply)))
			p.in.one(wire.MaxPeerBodyBeforeProof)
			p.say(wire.PeerTypeRefuse, string(body))
		}},
		{"slipped in after both Proofs", func(p *rawPeer) {
			if err := p.shake.accept(); err != nil {
				p.t.Error(err)
			}
			p.say(wire.PeerTypeRefuse, string(body))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
			l, addr := listenRaw(t)
			n.dialsTo(peerTarget{member: peerMember(2), addr: addr})
			p := acceptRaw(t, l, peerMember(2))
			tt.play(p)
			p.expectEnd()
			acceptRaw(t, l, peerMember(2)) // it goes on trying
			if n.driver.has("refused") {
				t.Error("it was believed")
			}
		})
	}
}

func TestProvedRefusalIsTakenAtItsWord(t *testing.T) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	l, addr := listenRaw(t)
	n.dialsTo(peerTarget{member: peerMember(2), addr: addr})
	p := acceptRaw(t, l, peerMember(2))
	if err := p.shake.accept(); err != nil {
		t.Fatal(err)
	}
	p.shake.refuse(peerRefusal{reason: raft.RefuseRetired, voter: peerMember(7), text: "seat 1"})
	if h := n.driver.await(t, "refused"); h.why != (peerRefusal{raft.RefuseRetired, peerMember(7), "seat 1"}) {
		t.Errorf("told %+v", h.why)
	}
}

// TestProofsAreBoundToTheTLSSession: who relays proofs from one TLS session into another is found out.
func TestProofsAreBoundToTheTLSSession(t *testing.T) {
	certificates := peerCertificates(t)
	n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{tls: certificates})
	for _, relayed := range []bool{false, true} {
		session := tls.Client(dialRaw(t, n), certificates.PeerClient("127.0.0.1"))
		if err := session.Handshake(); err != nil {
			t.Fatal(err)
		}
		p := newRawPeer(t, session, peerMember(2), clusterSecrets(t, secretA))
		binding, err := tlsconf.Binding(session.ConnectionState())
		if err != nil {
			t.Fatal(err)
		}
		if relayed {
			binding[0] ^= 1
		}
		p.shake.transcript.Binding = binding
		if err := p.shake.dial(wire.PeerRolePeer, peerMember(1)); (err != nil) != relayed {
			t.Errorf("relayed %v: %v", relayed, err)
		}
	}
	n.log.await(t, "something between the two ends TLS")
}

func TestHalfOpenHandshakesEnd(t *testing.T) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{limits: peerLimits{handshake: 20 * time.Millisecond}})
	hello := frameBytes(wire.PeerTypeHello, string(wire.AppendPeerHello(nil, &wire.PeerHello{
		Version: 1, Lowest: 1, Role: wire.PeerRolePeer, Domain: testPeerDomain, Self: pairOf(peerMember(2)),
	})))
	for _, size := range []int{0, 1, wire.PeerHeaderSize, len(hello) - 1, len(hello)} {
		p := newRawPeer(t, dialRaw(t, n), peerMember(2), clusterSecrets(t, secretA))
		p.Write(hello[:size])
		p.expectEnd()
	}
	if n.driver.has("admit") {
		t.Error("one was let in")
	}
}

func TestNothingButHandshakesBeforeTheProof(t *testing.T) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	msg := raft.AppendMessage(nil, &raft.Message{Kind: raft.MsgPreVote, Term: 1})
	long := make([]byte, wire.MaxPeerBodyBeforeProof+1)
	for name, bytes := range map[string][]byte{
		"Raft":         frameBytes(wire.PeerTypePreVote, string(msg)),
		"Proof":        frameBytes(wire.PeerTypeProof, string(make([]byte, 100))),
		"Control":      frameBytes(wire.PeerTypeControl, "\x01"),
		"a long Hello": frameBytes(wire.PeerTypeHello, string(long)),
		"HTTP":         []byte("GET / HTTP/1.1\r\n\r\n"),
		"TLS":          {0x16, 0x03, 0x01, 0x02, 0x00, 1, 0, 1, 0xfc, 3, 3, 1, 2, 3, 4, 5, 6, 7, 8},
	} {
		p := newRawPeer(t, dialRaw(t, n), peerMember(2), clusterSecrets(t, secretA))
		p.Write(bytes)
		if types := p.expectEnd(); len(types) != 0 {
			t.Errorf("%s: answered %v", name, types)
		}
	}
	if n.driver.has("received") || n.driver.has("control") {
		t.Error("a frame was handled")
	}
}

func TestProofsOfAnotherRoleOrSide(t *testing.T) {
	n := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{})
	for _, swap := range []func(*peerShake){
		func(h *peerShake) { h.own, h.other = h.other, h.own },
		func(h *peerShake) { h.own, _ = peerKeysOf(wire.PeerRoleControl) },
	} {
		p := newRawPeer(t, dialRaw(t, n), peerMember(2), clusterSecrets(t, secretA))
		h := &p.shake
		h.role = wire.PeerRolePeer
		h.own, h.other = peerKeysOf(wire.PeerRolePeer)
		swap(h)
		id := h.identity(raft.Member{})
		hello := h.hello(&id, raft.Member{})
		h.transcript.Hello = wire.AppendPeerHello(nil, &hello)
		p.say(wire.PeerTypeHello, string(h.transcript.Hello))
		if _, err := h.readHello(wire.PeerTypeHelloReply, &h.transcript.HelloReply); err != nil {
			t.Fatal(err)
		}
		p.say(wire.PeerTypeProof, string(h.proof()))
		var refused *unprovedRefusal
		if err := h.readProof(); !errors.As(err, &refused) || refused.reason != raft.RefuseSecret {
			t.Errorf("answered %v", err)
		}
	}
}

// peerCertificates makes a CA and a certificate of it for 127.0.0.1.
func peerCertificates(t *testing.T) *tlsconf.Reloader {
	t.Helper()
	dir := t.TempDir()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	from, until := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leafKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, NotBefore: from, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &leafKey.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r, err := tlsconf.NewServer(tlsconf.ServerFiles{
		Cert: file("cert.pem", "CERTIFICATE", leafDER), Key: file("key.pem", "PRIVATE KEY", keyDER), ClientCA: file("ca.pem", "CERTIFICATE", caDER),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPeersOverTLS(t *testing.T) {
	ours, theirs := peerCertificates(t), peerCertificates(t)
	tests := []struct {
		name       string
		a, b       *tlsconf.Reloader
		aLog, bLog string // "": they connect
	}{
		{"one CA", ours, ours, "", ""},
		{"another CA", ours, theirs, "a handshake between nodes failed", "a handshake between nodes failed"},
		{"plaintext to TLS", nil, ours, "", "plaintext on the peer port"},
		{"TLS to plaintext", ours, nil, "", "TLS on the peer port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newPeerNode(t, newFakeDriver(peerMember(1)), peerNodeOptions{tls: tt.a})
			b := newPeerNode(t, newFakeDriver(peerMember(2)), peerNodeOptions{tls: tt.b})
			a.dialsTo(b.target())
			if tt.bLog != "" {
				b.log.await(t, tt.bLog)
				if tt.aLog != "" {
					a.log.await(t, tt.aLog)
				}
				if a.driver.has("connected") || b.driver.has("admit") {
					t.Error("they connected")
				}
				return
			}
			a.driver.await(t, "connected")
			a.send(appendMessage(peerMember(2), 300_000))
			a.flush()
			if h := b.driver.await(t, "received"); len(h.types) != 1 || h.types[0] != wire.PeerTypeAppendEntries || len(h.body) < 300_000 {
				t.Errorf("received %v, %d bytes", h.types, len(h.body))
			}
		})
	}
}

// A refusal whose text is its reason again, as an older node sends it, is said once.
func TestRefusalInWords(t *testing.T) {
	for _, test := range []struct {
		text, want string
	}{
		{"", "retired"},
		{"retired", "retired"},
		{"ask somebody else", "retired: ask somebody else"},
	} {
		why := peerRefusal{reason: raft.RefuseRetired, text: test.text}
		if got := (&provedRefusal{why}).Error(); got != "refused: "+test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
		if says := len(refusalAttrs(&why)) > 1; says != (test.want != "retired") {
			t.Errorf("text %q: in the log twice: %v", test.text, says)
		}
	}
}

// What an event does not have is no attribute of its line.
func TestEventAttributes(t *testing.T) {
	if attrs := eventAttrs("leader", &raft.Event{}, slog.Int("term", 3)); len(attrs) != 1 {
		t.Errorf("%v", attrs)
	}
	if attrs := eventAttrs("leader", &raft.Event{Peer: peerMember(2), Detail: "why"}); len(attrs) != 2 || attrs[0].Key != "leader" || attrs[1].Key != "detail" {
		t.Errorf("%v", attrs)
	}
}
