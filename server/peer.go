package server

import (
	"net/netip"

	"ticketing.internal/lock"
	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// peerDriver decides what the transport between nodes only carries. Its methods are called from the goroutines of connections,
// several at a time, and never while the transport holds a lock of its own: they may take the engine's, and may call every
// method of peerTransport but close, under the engine's lock too.
//
// For one accepted connection of the role peer the order is: identity, identity, admit, at least once; if that lets it in,
// received any number of times; then ended, unless a newer connection of the same pair has replaced it, whose admit comes first and whose first
// received comes after the last of the old one. For one that was dialled: identity, identity, admit, connected, received.
type peerDriver interface {
	// identity returns what this node says of itself to other, which is zero while unknown. It is called before our Hello goes
	// out, for all but term, and once more after the other side's Hello has arrived, for term.
	identity(other raft.Member) peerIdentity
	// admit decides about a connection of the roles peer and join whose other side has proved the cluster secret; reason
	// RefuseNone lets it in. raft.CheckPeer is most of the answer.
	admit(in *peerIntroduction) peerRefusal
	// connected says that what is sent to in.Sender goes over a connection that is new.
	connected(in *peerIntroduction)
	// received takes all whole frames of one read, in order: of Raft, InitialConfig and Accepted. Frames of Raft come only from
	// connections on which both sides have named both pairs. Bodies are valid during the call. An error closes the
	// connection and is logged: return what does not decode, and nothing else.
	received(from *peerIntroduction, frames []wire.PeerFrame) error
	// take is received inside a batch of the engine, for a peerReader.
	take(now lock.Time, from *peerIntroduction, frames []wire.PeerFrame) error
	// ended says that an accepted connection that was let in is over and was not replaced: the hint of connection loss. It is
	// not called for what close ends.
	ended(from *peerIntroduction)
	// refused says that the other side refuses this process. It is called only when both sides have proved the cluster secret
	// and the refusal itself is proved by it. The transport has logged it and goes on trying.
	refused(by *peerIntroduction, why peerRefusal)
	// control takes a request on a connection of the roles join and control; the kind is allowed in the role. answer may be
	// called at most once, at any time, on any goroutine and under the engine's lock; it never blocks.
	control(from *peerIntroduction, request *wire.ControlRequest, answer func(*wire.ControlReply))
}

// peerReader carries connections of other nodes in place of their goroutines: an event loop, which hands what they say to the
// driver in the batches that it makes of what clients ask.
type peerReader interface {
	// takeOver takes the socket of c away from the runtime. Nothing arrives before run.
	takeOver(c *peerConn) (peerCarrier, error)
}

// peerCarrier is a connection that a peerReader carries. Only run waits; the others may be called by any goroutine at any time.
type peerCarrier interface {
	// run hands what arrives to the driver until the connection ends, then closes it. It returns why it ended: last is the
	// frame that did it, if it was one, and stays valid.
	run() (last *wire.PeerFrame, err error)
	// write sends what the kernel takes of b at once: n may be less than len(b).
	write(b []byte) (n int, err error)
	// awaitRoom has what waits written when the kernel takes more.
	awaitRoom()
	// closeWrite ends the sending direction.
	closeWrite()
	// hangUp makes run return.
	hangUp()
}

// peerIdentity is what a node says of itself in a handshake.
type peerIdentity struct {
	domain     raft.Domain
	self       raft.Member       // NodeID 0 while unknown; the incarnation is always set
	seat       raft.Seat         // 0 while unknown
	credential raft.CredentialID // of the bootstrap credential that it was given; zero: none
	clientAddr string            // as clients reach it
	term       uint64            // the present one
	// shown is the highest term that the other pair has shown in a Proof or a message; 0: none.
	shown uint64
}

// peerIntroduction is what a handshake has proved of the other side.
type peerIntroduction struct {
	raft.Introduction // Sender is the other side, also of a connection that this node has dialled

	role       wire.PeerRole
	own        raft.Member // this side, as its own Hello has said
	named      bool        // both sides have named both pairs, and none is unknown
	seat       raft.Seat   // as it says; 0: none yet
	credential raft.CredentialID
	clientAddr string
	dialled    string // the address that this node has dialled; "" if the connection was accepted
	remote     netip.AddrPort
}

// bound reports whether the connection may carry Raft.
func (in *peerIntroduction) bound() bool { return in.named }

// peerRefusal is why a connection is refused.
type peerRefusal struct {
	reason raft.Refusal
	voter  raft.Member // with RefuseRetired: the present voter of the retired one's seat; else zero
	text   string      // for people
}

// words is the reason, and the text if that says more.
func (p *peerRefusal) words() string {
	if p.text == "" || p.text == p.reason.Error() {
		return p.reason.Error()
	}
	return p.reason.Error() + ": " + p.text
}

// peerTarget is whom to be connected to.
type peerTarget struct {
	member raft.Member // zero: whoever answers at addr; such a connection carries no Raft
	addr   string      // host:port; the name is resolved at each dial
}
