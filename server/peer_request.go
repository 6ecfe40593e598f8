package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// errRequestSent says that a request had left when its connection ended: it may have taken effect.
var errRequestSent = errors.New("no answer came back")

// peerRequester sends requests to peer ports, each over a connection of its own.
type peerRequester struct {
	secrets  *auth.ClusterSecrets
	tls      *tlsconf.Reloader // nil on plaintext
	role     wire.PeerRole
	identity func(other raft.Member) peerIdentity
	limits   peerLimits
}

// ask sends request in the role join to the node at addr and returns its answer. The handshake may take as long as patience, or as
// any may. Refusals are errors: a *provedRefusal if the other side has proved the secret.
func (t *peerTransport) ask(ctx context.Context, addr string, request *wire.ControlRequest, patience time.Duration) (*wire.ControlReply, error) {
	r := peerRequester{secrets: t.secrets.Load(), tls: t.tls, role: wire.PeerRoleJoin, identity: t.driver.identity, limits: t.limits}
	r.limits.handshake = min(r.limits.handshake, patience)
	reply, err := r.ask(ctx, addr, request)
	if advice := r.advice(err); advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return reply, err
}

// advice is what to do about an error of asking a node whose own words do not say it, "" where there is nothing to add.
func (r *peerRequester) advice(err error) string {
	var unproved *unprovedRefusal
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, errRequestSent):
	case errors.As(err, &unproved) && unproved.reason == raft.RefuseSecret && r.tls != nil:
		return "compare TICKETING_CLUSTER_SECRET there and here, and let nothing between the two end TLS"
	case unproved != nil && unproved.reason == raft.RefuseSecret:
		return "compare TICKETING_CLUSTER_SECRET there and here"
	case errors.As(err, &record):
		return "its peer port is plaintext, and this node uses TLS there: " + tlsAdvice
	case isEnd(err):
		return "it hung up in the handshake: look at its log, and " + tlsAdvice
	}
	return ""
}

// provedRefusal is the refusal of a node that has proved the secret.
type provedRefusal struct{ peerRefusal }

func (p *provedRefusal) Error() string { return "refused: " + p.words() }

// ask sends one request and waits for its reply until ctx is over.
func (r *peerRequester) ask(ctx context.Context, addr string, request *wire.ControlRequest) (*wire.ControlReply, error) {
	shaking, cancel := context.WithTimeout(ctx, r.limits.handshake)
	defer cancel()
	tcp, host, err := dialPeer(shaking, &r.limits, addr, func([]netip.Addr) {})
	if err != nil {
		return nil, err
	}
	defer tcp.Close()
	defer context.AfterFunc(ctx, func() { tcp.Close() })()
	tunePeerSocket(tcp)
	tcp.SetDeadline(deadlineIn(r.limits.handshake))
	in := frameReader{source: tcp}
	shake := peerShake{out: tcp, in: &in, secrets: r.secrets, identity: r.identity}
	if r.tls != nil {
		session := tls.Client(tcp, r.tls.PeerClient(host))
		if err := session.HandshakeContext(shaking); err != nil {
			return nil, fmt.Errorf("TLS with %s: %w", addr, err)
		}
		in.source, shake.out = session, session
		if shake.transcript.Binding, err = tlsconf.Binding(session.ConnectionState()); err != nil {
			return nil, fmt.Errorf("TLS with %s: %w", addr, err)
		}
	}
	if err := shake.dial(r.role, raft.Member{}); err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		tcp.SetDeadline(deadline)
	} else {
		tcp.SetDeadline(deadlineIn(r.limits.idleRequests))
	}
	return r.exchange(&shake, &in, request)
}

func (r *peerRequester) exchange(shake *peerShake, in *frameReader, request *wire.ControlRequest) (*wire.ControlReply, error) {
	const id = 1 // of the only request on the connection
	b, start := wire.BeginPeerFrame(nil, wire.PeerTypeControl, id)
	b, ok := wire.FinishPeerFrame(wire.AppendControlRequest(b, request), start)
	if !ok {
		return nil, wire.PeerTooLong
	}
	if _, err := shake.out.Write(b); err != nil {
		return nil, fmt.Errorf("%w: %w", errRequestSent, err)
	}
	f, err := in.one(wire.MaxPeerBody)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed):
		return nil, fmt.Errorf("%w: the connection has ended", errRequestSent)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errRequestSent, err)
	case f.Type == wire.PeerTypeControlReply && f.RequestID == id:
		return wire.DecodeControlReply(f.Body)
	case f.Type != wire.PeerTypeRefuse:
		return nil, fmt.Errorf("%w: type %d", errPeerUnexpected, f.Type)
	}
	why, proved, err := shake.readRefusal(f.Body)
	switch {
	case err != nil:
		return nil, err
	case !proved:
		return nil, &unprovedRefusal{why.reason, why.text}
	}
	return nil, &provedRefusal{why}
}
