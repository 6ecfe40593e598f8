package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

var (
	// errPeerUnexpected says that a frame has no place where it came.
	errPeerUnexpected = errors.New("a frame that has no place here")
	// errPeerSecret says that the other side's proof does not verify.
	errPeerSecret = errors.New("the other side does not know the cluster secret of this one: compare TICKETING_CLUSTER_SECRET")
	// errPeerSelf says that this process has reached itself.
	errPeerSelf = errors.New("this is the process itself")
	// errPeerVersion says that there is no version in common.
	errPeerVersion = errors.New("no protocol version in common")
)

// unprovedRefusal is a Refuse that came before both sides had proved the secret, or whose own proof does not verify. Anybody
// on the path or on the other address can have sent it.
type unprovedRefusal struct {
	reason raft.Refusal
	text   string
}

func (u *unprovedRefusal) Error() string {
	return "refused, without proof: " + (&peerRefusal{reason: u.reason, text: u.text}).words()
}

// peerShake is the handshake of one connection between nodes, on either side: Hello, HelloReply, then a Proof each, the dialing
// side's first. A refusal has a proof too once both Hellos are known.
type peerShake struct {
	out      io.Writer
	in       *frameReader
	secrets  *auth.ClusterSecrets
	identity func(other raft.Member) peerIdentity

	// Results.
	role       wire.PeerRole
	transcript auth.PeerTranscript // its Binding is set before the handshake
	own, other auth.PeerKey
	intro      peerIntroduction // without the addresses
	proved     bool             // the other side has proved the secret
}

// dial makes the handshake of the dialing side. expected may be zero.
func (h *peerShake) dial(role wire.PeerRole, expected raft.Member) error {
	h.role = role
	h.own, h.other = peerKeysOf(role)
	id := h.identity(expected)
	hello := h.hello(&id, expected)
	h.transcript.Hello = wire.AppendPeerHello(nil, &hello)
	if err := h.write(wire.PeerTypeHello, h.transcript.Hello); err != nil {
		return err
	}
	reply, err := h.readHello(wire.PeerTypeHelloReply, &h.transcript.HelloReply)
	if err != nil {
		return err
	}
	if reply.Role != role {
		return wire.PeerMalformed
	}
	if err := h.meet(&id, reply); err != nil {
		return err
	}
	h.intro.named = h.intro.named && expected.NodeID != 0
	if h.intro.Sender != expected {
		h.intro.ShownTerm = 0 // that is the term of the one who was expected
	}
	if err := h.write(wire.PeerTypeProof, h.proof()); err != nil {
		return err
	}
	return h.readProof()
}

// accept makes the handshake of the accepting side.
func (h *peerShake) accept() error {
	hello, err := h.readHello(wire.PeerTypeHello, &h.transcript.Hello)
	if err != nil {
		return err
	}
	h.role = hello.Role
	h.other, h.own = peerKeysOf(hello.Role)
	id := h.identity(memberOf(hello.Self))
	if err := h.meet(&id, hello); err != nil {
		return err
	}
	reply := h.hello(&id, memberOf(hello.Self))
	h.transcript.HelloReply = wire.AppendPeerHello(nil, &reply)
	if err := h.write(wire.PeerTypeHelloReply, h.transcript.HelloReply); err != nil {
		return err
	}
	if err := h.readProof(); err != nil {
		return err
	}
	return h.write(wire.PeerTypeProof, h.proof())
}

func (h *peerShake) hello(id *peerIdentity, expected raft.Member) wire.PeerHello {
	hello := wire.PeerHello{
		Version: wire.PeerVersion, Lowest: wire.PeerVersionLowest, Role: h.role,
		Domain: id.domain, Self: pairOf(id.self), Expected: pairOf(expected),
	}
	rand.Read(hello.Nonce[:])
	return hello
}

// readHello reads the other side's Hello, keeps its body for the proofs, and settles the version.
func (h *peerShake) readHello(want wire.PeerType, body *[]byte) (*wire.PeerHello, error) {
	f, err := h.frame(want)
	if err != nil {
		return nil, err
	}
	*body = append([]byte(nil), f.Body...)
	hello := new(wire.PeerHello)
	if err := wire.DecodePeerHello(f.Body, hello); err != nil {
		return nil, err
	}
	if hello.Version < wire.PeerVersionLowest || hello.Lowest > wire.PeerVersion {
		err := fmt.Errorf("%w: here %d to %d, there %d to %d; upgrade the older one", errPeerVersion,
			wire.PeerVersionLowest, wire.PeerVersion, hello.Lowest, hello.Version)
		h.refuse(peerRefusal{reason: raft.RefuseVersion, text: err.Error()})
		return nil, err
	}
	return hello, nil
}

// meet takes down who the other side says it is. id is what this side says, as of before its Hello.
func (h *peerShake) meet(id *peerIdentity, hello *wire.PeerHello) error {
	h.intro.role, h.intro.own = h.role, id.self
	h.intro.Introduction = raft.Introduction{
		Domain: hello.Domain, Sender: memberOf(hello.Self), Receiver: memberOf(hello.Expected), ShownTerm: id.shown,
	}
	h.intro.named = h.role == wire.PeerRolePeer && id.self.NodeID != 0 && hello.Self.NodeID != 0 && hello.Expected.NodeID != 0
	switch other := h.intro.Sender.Incarnation; {
	case other == id.self.Incarnation && other != raft.Incarnation{}:
		h.refuse(peerRefusal{reason: raft.RefuseSelf})
		return errPeerSelf
	case other == raft.Incarnation{} && h.role != wire.PeerRoleControl:
		return wire.PeerMalformed
	}
	return nil
}

// proof returns the body of this side's Proof. The term is read only now: the other side has fixed what it expects of it before
// its Hello, so it cannot be lower.
func (h *peerShake) proof() []byte {
	id := h.identity(h.intro.Sender)
	body := wire.AppendPeerProof(nil, &wire.PeerProof{
		Term: id.term, Seat: uint8(id.seat), Credential: id.credential, ClientAddr: id.clientAddr,
	})
	mac := h.secrets.ProvePeer(h.own, &h.transcript, byte(wire.PeerTypeProof), body)
	return append(body, mac[:]...)
}

// readProof reads the other side's Proof and verifies it.
func (h *peerShake) readProof() error {
	f, err := h.frame(wire.PeerTypeProof)
	if err != nil {
		return err
	}
	var p wire.PeerProof
	covered, mac, err := wire.DecodePeerProof(f.Body, &p)
	if err != nil {
		return err
	}
	if !h.secrets.VerifyPeer(mac, h.other, &h.transcript, byte(wire.PeerTypeProof), covered) {
		h.refuse(peerRefusal{reason: raft.RefuseSecret})
		return errPeerSecret
	}
	h.intro.Term = p.Term
	h.intro.seat, h.intro.credential, h.intro.clientAddr = raft.Seat(p.Seat), p.Credential, p.ClientAddr
	h.proved = true
	return nil
}

// frame reads one frame, which must be of the type wanted.
func (h *peerShake) frame(want wire.PeerType) (wire.PeerFrame, error) {
	f, err := h.in.one(wire.MaxPeerBodyBeforeProof)
	switch {
	case err != nil:
		return f, err
	case f.Type == want:
		return f, nil
	case f.Type == wire.PeerTypeRefuse:
		why, _, err := h.readRefusal(f.Body)
		if err != nil {
			return f, err
		}
		return f, &unprovedRefusal{why.reason, why.text}
	}
	return f, fmt.Errorf("%w: type %d in the handshake", errPeerUnexpected, f.Type)
}

// readRefusal decodes a Refuse. proved is true only if both sides have proved the secret and so does the refusal.
func (h *peerShake) readRefusal(body []byte) (why peerRefusal, proved bool, err error) {
	var r wire.PeerRefusal
	covered, mac, err := wire.DecodePeerRefusal(body, &r)
	if err != nil {
		return why, false, err
	}
	why = peerRefusal{reason: raft.Refusal(r.Reason), voter: memberOf(r.Voter), text: r.Text}
	proved = h.proved && h.secrets.VerifyPeer(mac, h.other, &h.transcript, byte(wire.PeerTypeRefuse), covered)
	return why, proved, nil
}

// refusal returns the body of a Refuse, with a proof if the other side could verify one.
func (h *peerShake) refusal(why peerRefusal) []byte {
	body := wire.AppendPeerRefusal(nil, &wire.PeerRefusal{Reason: uint8(why.reason), Voter: pairOf(why.voter), Text: why.text})
	var mac [auth.ProofSize]byte
	if h.proved {
		mac = h.secrets.ProvePeer(h.own, &h.transcript, byte(wire.PeerTypeRefuse), body)
	}
	return append(body, mac[:]...)
}

// refuse tells the other side why, as far as that is possible.
func (h *peerShake) refuse(why peerRefusal) { h.write(wire.PeerTypeRefuse, h.refusal(why)) }

func (h *peerShake) write(t wire.PeerType, body []byte) error {
	b, start := wire.BeginPeerFrame(nil, t, 0)
	b, _ = wire.FinishPeerFrame(append(b, body...), start)
	_, err := h.out.Write(b)
	return err
}

// peerKeysOf returns the keys of the two sides of a connection.
func peerKeysOf(role wire.PeerRole) (dialer, acceptor auth.PeerKey) {
	switch role {
	case wire.PeerRoleJoin:
		return auth.JoinDialerKey, auth.JoinAcceptorKey
	case wire.PeerRoleControl:
		return auth.ControlDialerKey, auth.ControlAcceptorKey
	}
	return auth.PeerDialerKey, auth.PeerAcceptorKey
}

func memberOf(p wire.PeerPair) raft.Member {
	return raft.Member{NodeID: raft.NodeID(p.NodeID), Incarnation: p.Incarnation}
}

func pairOf(m raft.Member) wire.PeerPair {
	return wire.PeerPair{NodeID: uint32(m.NodeID), Incarnation: m.Incarnation}
}
