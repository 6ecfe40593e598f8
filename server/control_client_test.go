package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

func controlClient(t testing.TB, secret string, peers ...string) *ControlClient {
	t.Helper()
	c, err := NewControlClient(ControlConfig{Peers: peers, Secrets: [][]byte{[]byte(secret)}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answering is a node that answers every request with reply.
func answering(t testing.TB, id raft.NodeID, reply func(r *wire.ControlRequest) *wire.ControlReply) *peerNode {
	t.Helper()
	d := newFakeDriver(peerMember(id))
	d.answer = reply
	return newPeerNode(t, d, peerNodeOptions{})
}

func TestControlFollowsTheLeader(t *testing.T) {
	expires := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	leader := answering(t, 1, func(r *wire.ControlRequest) *wire.ControlReply {
		if r.Seat != 2 || r.PeerAddr != "new:5325" || r.ValidMillis != 60_000 {
			return &wire.ControlReply{Code: wire.ControlRejected, Text: "not what was sent"}
		}
		return &wire.ControlReply{
			Code: wire.ControlDone, Domain: testPeerDomain, Seat: 2, Member: wire.PeerPair{NodeID: 4}, PeerAddr: "new:5325", ExpiresMillis: expires.UnixMilli(),
		}
	})
	follower := answering(t, 2, func(*wire.ControlRequest) *wire.ControlReply {
		return &wire.ControlReply{Code: wire.ControlNotLeader, Leader: leader.addr().String()}
	})
	_, nobody := listenRaw(t)
	c := controlClient(t, secretA, "127.0.0.1:1", follower.addr().String(), nobody)
	got, err := c.Prepare(background(t), 2, "new:5325", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got.Seat != 2 || got.NodeID != 4 || got.PeerAddr != "new:5325" || !got.Expires.Equal(expires) {
		t.Errorf("prepared %+v", got)
	}
	credential, _, err := auth.ParseJoin(clusterSecrets(t, secretB, secretA), got.Credential)
	if err != nil || credential.NodeID != 4 || credential.Domain != testPeerDomain || credential.Seat != 2 || credential.Expired(expires.UnixMilli()-1) {
		t.Errorf("the credential says %+v, %v", credential, err)
	}
}

func TestControlAnswers(t *testing.T) {
	reply := func(r wire.ControlReply) func(*wire.ControlRequest) *wire.ControlReply {
		return func(*wire.ControlRequest) *wire.ControlReply { return &r }
	}
	tests := []struct {
		name   string
		secret string
		answer func(*wire.ControlRequest) *wire.ControlReply
		want   error
		text   string
	}{
		{"done", secretA, reply(wire.ControlReply{Code: wire.ControlDone, Text: "seat 2 leads"}), nil, "seat 2 leads"},
		{"rejected", secretA, reply(wire.ControlReply{Code: wire.ControlRejected, Reason: uint8(raft.ReasonUnderWay)}), ErrControlRejected, "rejected: a replacement is under way"},
		{"unknown", secretA, reply(wire.ControlReply{Code: wire.ControlUnknown}), ErrOutcomeUnknown, ""},
		{"no leader", secretA, reply(wire.ControlReply{Code: wire.ControlNotLeader}), ErrNoLeader, ""},
		{"not serving", secretA, reply(wire.ControlReply{Code: wire.ControlUnavailable, Text: "not open yet"}), ErrNoLeader, ""},
		{"another secret", secretB, reply(wire.ControlReply{Code: wire.ControlDone}), ErrClusterSecret, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := answering(t, 1, tt.answer)
			c := controlClient(t, tt.secret, n.addr().String())
			_, err := c.round(background(t), &wire.ControlRequest{Kind: wire.ControlTransfer, Seat: 2})
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v; want %v", err, tt.want)
			}
			if tt.want == ErrNoLeader {
				return
			}
			text, err := c.Transfer(background(t), 2)
			if !errors.Is(err, tt.want) || err == nil && text != tt.text || err != nil && tt.text != "" && err.Error() != tt.text {
				t.Errorf("%q, %v; want %q", text, err, tt.text)
			}
		})
	}
	c := controlClient(t, secretA, "127.0.0.1:1")
	if _, err := c.Abort(background(t)); !errors.Is(err, ErrClusterUnreachable) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestControlWaitsForALeader(t *testing.T) {
	asked := 0
	n := answering(t, 1, func(*wire.ControlRequest) *wire.ControlReply {
		if asked++; asked < 3 {
			return &wire.ControlReply{Code: wire.ControlNotLeader}
		}
		return &wire.ControlReply{Code: wire.ControlDone, Data: []byte(`{"mode":"cluster"}`)}
	})
	data, err := controlClient(t, secretA, n.addr().String()).Status(background(t))
	if err != nil || string(data) != `{"mode":"cluster"}` || asked != 3 {
		t.Errorf("%s, %v after %d questions", data, err, asked)
	}
	ctx, cancel := context.WithCancel(context.Background())
	silent := answering(t, 1, func(*wire.ControlRequest) *wire.ControlReply { cancel(); return nil })
	if _, err := controlClient(t, secretA, silent.addr().String()).Abort(ctx); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("no answer: %v", err)
	}
}

// A node that accepts and says nothing does not take the time of those behind it, and what was found before the time was over is
// what is told.
func TestControlWithASilentNode(t *testing.T) {
	_, silent := listenRaw(t)
	follower := answering(t, 1, func(*wire.ControlRequest) *wire.ControlReply {
		return &wire.ControlReply{Code: wire.ControlNotLeader, Text: "raft: not the leader"}
	})
	leader := answering(t, 2, func(*wire.ControlRequest) *wire.ControlReply { return &wire.ControlReply{Code: wire.ControlDone} })
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := controlClient(t, secretA, silent, leader.addr().String()).Transfer(ctx, 0); err != nil {
		t.Errorf("with a leader behind a silent node: %v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := controlClient(t, secretA, silent, follower.addr().String()).Transfer(ctx, 0)
	for _, want := range []string{follower.addr().String() + ": not the leader", "1 of 2 nodes answered, and it does not lead", silent + ": no answer within "} {
		if !errors.Is(err, ErrNoLeader) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "deadline") {
			t.Errorf("without a leader: %v; want %q in it", err, want)
		}
	}
}

// Nobody is told to give a cluster up because of the nodes that could not be asked, or that wait for something else.
func TestControlTellsWhyNobodyLeads(t *testing.T) {
	waits := func(id raft.NodeID, why string) string {
		return answering(t, id, func(r *wire.ControlRequest) *wire.ControlReply {
			if r.Kind != wire.ControlStatus {
				return &wire.ControlReply{Code: wire.ControlNotLeader, Text: "raft: not the leader"}
			}
			return &wire.ControlReply{Code: wire.ControlNotLeader, Text: "raft: not the leader", Data: []byte(`{"why_not_ready":"` + why + `"}`)}
		}).addr().String()
	}
	cutOff, alone := waits(1, "no leader is known; "+majorityAdvice), waits(2, "bootstrap: seat 3 is missing")
	for name, test := range map[string]struct {
		peers    []string
		headline string
		lines    []string
	}{
		"all answer":       {[]string{cutOff, alone}, "2 of 2 nodes answered, and none leads; " + majorityAdvice, []string{cutOff + ": no leader is known", alone + ": bootstrap: seat 3 is missing"}},
		"some answer":      {[]string{cutOff, "127.0.0.1:1"}, "1 of 2 nodes answered, and it does not lead; ask the others from where they can be reached before you give the cluster up", []string{cutOff + ": no leader is known; " + majorityAdvice}},
		"a bootstrap":      {[]string{alone}, "1 of 1 nodes answered, and it does not lead", []string{alone + ": bootstrap: seat 3 is missing"}},
		"a part of a boot": {[]string{alone, "127.0.0.1:1"}, "1 of 2 nodes answered, and it does not lead", []string{alone + ": bootstrap: seat 3 is missing"}},
	} {
		for _, kind := range []wire.ControlKind{wire.ControlStatus, wire.ControlTransfer} {
			_, err := controlClient(t, secretA, test.peers...).round(background(t), &wire.ControlRequest{Kind: kind})
			if !errors.Is(err, ErrNoLeader) {
				t.Errorf("%s: %v", name, err)
				continue
			}
			lines := strings.Split(err.Error(), "\n")
			if want := ErrNoLeader.Error() + ": " + test.headline; lines[0] != want {
				t.Errorf("%s, %v: %q; want %q", name, kind, lines[0], want)
			}
			for _, want := range test.lines {
				if !slices.Contains(lines[1:], want) {
					t.Errorf("%s, %v: no %q in %q", name, kind, want, lines[1:])
				}
			}
		}
	}
}

func TestControlOfASeatThatIsNone(t *testing.T) {
	leader := answering(t, 1, func(r *wire.ControlRequest) *wire.ControlReply {
		if r.Kind == wire.ControlStatus {
			return &wire.ControlReply{Code: wire.ControlDone, Data: []byte(`{"members":[{"seat":2},{"seat":1},{"seat":3},{"seat":2}]}`)}
		}
		return &wire.ControlReply{Code: wire.ControlRejected, Reason: uint8(raft.ReasonUnknownSeat), Text: "unknown seat"}
	})
	_, _, err := controlClient(t, secretA, leader.addr().String()).CanStop(background(t), 4)
	if want := "seat 4: the cluster has no such seat; its seats are 1, 2, 3"; !errors.Is(err, ErrUnknownSeat) || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

// A question has no effect that could be unknown.
func TestControlQuestionWithoutAnAnswer(t *testing.T) {
	for kind, want := range map[wire.ControlKind]error{wire.ControlStatus: ErrClusterUnreachable, wire.ControlCanStop: ErrClusterUnreachable, wire.ControlAbort: ErrOutcomeUnknown} {
		ctx, cancel := context.WithCancel(context.Background())
		n := answering(t, 1, func(*wire.ControlRequest) *wire.ControlReply { cancel(); return nil })
		if _, err := controlClient(t, secretA, n.addr().String()).round(ctx, &wire.ControlRequest{Kind: kind}); !errors.Is(err, want) {
			t.Errorf("%v: %v; want %v", kind, err, want)
		}
	}
}

// A certificate that is refused is told before the nodes that could be asked.
func TestControlTellsOfACertificate(t *testing.T) {
	refused := controlError("b:1", &tls.CertificateVerificationError{Err: errors.New("unknown authority")}, false)
	alert := controlError("c:1", &net.OpError{Op: "remote error", Err: tls.AlertError(42)}, true)
	dial := controlError("a:1", &net.OpError{Op: "dial", Err: errors.New("refused")}, false)
	for _, certificate := range []error{refused, alert} {
		err := worst([]error{dial, &notLeading{"d:1", "not the leader"}, certificate})
		if !errors.Is(err, ErrPeerCertificate) || !strings.HasPrefix(err.Error(), ErrPeerCertificate.Error()+"\n") {
			t.Errorf("%v", err)
		}
	}
}

func TestControlAsksNobodyTwiceInARound(t *testing.T) {
	asked := map[string]int{}
	var addr [2]string
	for i := range addr {
		addr[i] = answering(t, raft.NodeID(i+1), func(*wire.ControlRequest) *wire.ControlReply {
			asked[addr[i]]++
			return &wire.ControlReply{Code: wire.ControlNotLeader, Leader: addr[1-i]}
		}).addr().String()
	}
	_, err := controlClient(t, secretA, addr[:]...).round(background(t), &wire.ControlRequest{Kind: wire.ControlAbort})
	if !errors.Is(err, ErrNoLeader) || asked[addr[0]] != 1 || asked[addr[1]] != 1 {
		t.Errorf("two followers that name each other: asked %v, %v", asked, err)
	}
}

func TestCheckPeerAddress(t *testing.T) {
	for addr, good := range map[string]bool{
		"10.0.0.1:5325": true, "n1:5325": true, "[::1]:5325": true,
		"": false, "n1": false, "n1:0": false, ":5325": false, "0.0.0.0:5325": false, "[::]:5325": false, "n1:70000": false, "a b:1": false,
		strings.Repeat("a", 250) + ":5325": true, strings.Repeat("a", 251) + ":5325": false,
	} {
		if err := CheckPeerAddress(addr); (err == nil) != good {
			t.Errorf("%q: %v", addr, err)
		}
	}
	secrets := [][]byte{[]byte(secretA)}
	if _, err := NewControlClient(ControlConfig{Peers: []string{"n1"}, Secrets: secrets}); err == nil {
		t.Error("a client of a node without a port")
	}
	c := controlClient(t, secretA, "127.0.0.1:1")
	for _, request := range []struct {
		addr  string
		valid time.Duration
	}{{"n9", time.Minute}, {"n9:1", time.Millisecond}, {"n9:1", 25 * time.Hour}} {
		if _, err := c.Prepare(background(t), 2, request.addr, request.valid); err == nil || errors.Is(err, ErrClusterUnreachable) {
			t.Errorf("prepared %+v: %v", request, err)
		}
	}
}

func TestCanStopNamesTheNodeThatWasAsked(t *testing.T) {
	leader := answering(t, 1, func(r *wire.ControlRequest) *wire.ControlReply {
		if r.Seat == 3 {
			return &wire.ControlReply{Code: wire.ControlRejected, Text: "seat 2 is silent"}
		}
		return &wire.ControlReply{Code: wire.ControlDone, Text: "it may"}
	})
	follower := answering(t, 3, func(*wire.ControlRequest) *wire.ControlReply {
		return &wire.ControlReply{Code: wire.ControlNotLeader, Leader: leader.addr().String(), Seat: 3}
	})
	for peer, want := range map[string]bool{leader.addr().String(): true, follower.addr().String(): false} {
		yes, why, err := controlClient(t, secretA, peer).CanStop(background(t), 0)
		if yes != want || why == "" || err != nil {
			t.Errorf("%v, %q, %v; want %v", yes, why, err, want)
		}
	}
}

func TestRequestsKeepToTheirRole(t *testing.T) {
	done := func(*wire.ControlRequest) *wire.ControlReply { return &wire.ControlReply{Code: wire.ControlDone} }
	allowedIn := map[wire.PeerRole][]wire.ControlKind{
		wire.PeerRoleJoin:    {wire.ControlStatus, wire.ControlAdmit, wire.ControlRejoin},
		wire.PeerRoleControl: {wire.ControlStatus, wire.ControlPrepare, wire.ControlAbort, wire.ControlTransfer, wire.ControlCanStop},
	}
	for role, kinds := range allowedIn {
		for kind := wire.ControlStatus; kind <= wire.ControlRejoin; kind++ {
			n := answering(t, 1, done)
			p := rawClient(t, n, raft.Member{Incarnation: raft.Incarnation{9}}, role)
			p.say(wire.PeerTypeControl, string(wire.AppendControlRequest(nil, &wire.ControlRequest{Kind: kind})))
			f, err := p.in.one(wire.MaxPeerBody)
			if allowed := slices.Contains(kinds, kind); allowed != (err == nil && f.Type == wire.PeerTypeControlReply) || allowed != n.driver.has("control") {
				t.Errorf("%v in the role %v: answered type %d, %v", kind, role, f.Type, err)
			}
		}
	}
}

func TestJoinerAsks(t *testing.T) {
	joiner := newPeerNode(t, newFakeDriver(raft.Member{Incarnation: raft.Incarnation{9}}), peerNodeOptions{})
	var got *wire.ControlRequest
	leader := answering(t, 1, func(r *wire.ControlRequest) *wire.ControlReply {
		got = r
		return &wire.ControlReply{Code: wire.ControlDone, Member: wire.PeerPair{NodeID: 4, Incarnation: r.Self.Incarnation}}
	})
	request := &wire.ControlRequest{
		Kind: wire.ControlRejoin, Seat: 2, Self: wire.PeerPair{Incarnation: [16]byte{9}}, PeerAddr: "p:1", ClientAddr: "c:1",
		Marker: []wire.PeerPair{pairOf(peerMember(2)), {Incarnation: [16]byte{9}}},
	}
	reply, err := joiner.ask(background(t), leader.addr().String(), request, time.Minute)
	if err != nil || reply.Member.NodeID != 4 || reply.Member.Incarnation != [16]byte{9} {
		t.Fatalf("%+v, %v", reply, err)
	}
	if got.Seat != 2 || got.PeerAddr != "p:1" || got.ClientAddr != "c:1" || !slices.Equal(got.Marker, request.Marker) {
		t.Errorf("the leader was asked %+v", got)
	}
	leader.driver.mu.Lock()
	leader.driver.refuse = func(*peerIntroduction) peerRefusal {
		return peerRefusal{reason: raft.RefuseRetired, voter: peerMember(7)}
	}
	leader.driver.mu.Unlock()
	var refused *provedRefusal
	if _, err := joiner.ask(background(t), leader.addr().String(), request, time.Minute); !errors.As(err, &refused) || refused.voter != peerMember(7) {
		t.Errorf("refused with %v", err)
	}
}

func TestControlOfAnotherDomainIsRefused(t *testing.T) {
	n := answering(t, 1, nil)
	p := newRawPeer(t, dialRaw(t, n), raft.Member{}, clusterSecrets(t, secretA))
	p.shake.identity = func(raft.Member) peerIdentity { return peerIdentity{domain: raft.Domain{'x'}} }
	if err := p.shake.dial(wire.PeerRoleControl, raft.Member{}); err != nil {
		t.Fatal(err)
	}
	if types := p.expectEnd(); !slices.Equal(types, []wire.PeerType{wire.PeerTypeRefuse}) {
		t.Errorf("answered %v", types)
	}
}

func TestControlConfiguration(t *testing.T) {
	secret := [][]byte{[]byte(secretA)}
	for name, cfg := range map[string]ControlConfig{
		"no peers":       {Secrets: secret},
		"no secret":      {Peers: []string{"a:1"}},
		"short secret":   {Peers: []string{"a:1"}, Secrets: [][]byte{[]byte("short")}},
		"half of TLS":    {Peers: []string{"a:1"}, Secrets: secret, TLSCert: "cert.pem"},
		"missing files":  {Peers: []string{"a:1"}, Secrets: secret, TLSCert: "/none/c", TLSKey: "/none/k", TLSCA: "/none/ca"},
		"no port at all": {Peers: []string{"a"}, Secrets: secret},
	} {
		c, err := NewControlClient(cfg)
		if err == nil {
			_, err = c.NodeStatus(background(t), c.peers[0])
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
