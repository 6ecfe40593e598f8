package server

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// The log lines of the transport between nodes, at a bounded rate like all that others can cause.

// peerAttrs tell which connection a line is about.
func peerAttrs(in *peerIntroduction, more ...slog.Attr) []slog.Attr {
	attrs := []slog.Attr{from(in.remote)}
	if in.dialled != "" {
		attrs = []slog.Attr{slog.String("peer", in.dialled)}
	}
	if !in.Sender.IsZero() {
		attrs = append(attrs, slog.String("member", in.Sender.String()))
	}
	return append(attrs, more...)
}

func refusalAttrs(why *peerRefusal) []slog.Attr {
	attrs := []slog.Attr{slog.String("why", why.reason.Error())}
	if why.text != "" && why.text != why.reason.Error() {
		attrs = append(attrs, slog.String("says", shorten(why.text)))
	}
	if !why.voter.IsZero() {
		attrs = append(attrs, slog.String("voter", why.voter.String()))
	}
	return attrs
}

// shorten bounds what another side has put into a log line; slog escapes it.
func shorten(text string) string { return text[:min(len(text), wire.MaxText)] }

func (v *events) peerUnreachable(addr string, err error) {
	v.write(slog.LevelWarn, "another node cannot be reached: trying again", slog.String("peer", addr), slog.String("why", err.Error()))
}

// peerReachable: a node that could not be reached lets this one in again.
func (v *events) peerReachable(in *peerIntroduction) {
	v.write(slog.LevelInfo, "another node can be reached again", peerAttrs(in)...)
}

// tlsAdvice is what to do where one side of a connection between nodes uses TLS and the other does not.
const tlsAdvice = "set TICKETING_PEER_TLS_* on all nodes or on none"

// refusalLevel is how much a refusal is worth. Between a restart of a node and its admission others look for its predecessor at
// its address: that is in order.
func refusalLevel(why *peerRefusal) slog.Level {
	if why.reason == raft.RefuseReceiver {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// peerRefused: this node does not let the other in.
func (v *events) peerRefused(in *peerIntroduction, why *peerRefusal) {
	v.write(refusalLevel(why), "another node was refused", peerAttrs(in, refusalAttrs(why)...)...)
}

// peerRefusedUs: the other side, which has proved the secret, does not let this node in.
func (v *events) peerRefusedUs(in *peerIntroduction, why *peerRefusal) {
	v.write(refusalLevel(why), "another node refuses this one", peerAttrs(in, refusalAttrs(why)...)...)
}

func (v *events) peerPlacesTaken(in *peerIntroduction) {
	v.write(slog.LevelWarn, "a connection to the peer port was closed: too many are in their handshake", from(in.remote))
}

// peerHandshakeFailed: a connection ended before both sides had proved the secret.
func (v *events) peerHandshakeFailed(c *peerConn, err error) {
	var refused *unprovedRefusal
	var record tls.RecordHeaderError
	switch in := c.intro(); {
	case c.t.over():
	case errors.Is(err, errPeerSecret) && c.tls != nil:
		v.write(slog.LevelWarn, "a connection between nodes failed: the other side does not know this cluster secret (TICKETING_CLUSTER_SECRET), or something between the two ends TLS",
			peerAttrs(in)...)
	case errors.Is(err, errPeerSecret):
		v.write(slog.LevelWarn, "a connection between nodes failed: the other side does not know this cluster secret (TICKETING_CLUSTER_SECRET)", peerAttrs(in)...)
	case errors.As(err, &refused):
		why := peerRefusal{reason: refused.reason, text: refused.text}
		v.write(slog.LevelWarn, "a connection between nodes was refused without proof, which this node does not rely on: trying again",
			peerAttrs(in, refusalAttrs(&why)...)...)
	case errors.As(err, &record) && in.dialled != "":
		v.write(slog.LevelWarn, "another node's peer port is plaintext, and this node uses TLS there: "+tlsAdvice, peerAttrs(in)...)
	case errors.As(err, &record):
		v.write(slog.LevelWarn, "plaintext on the peer port, which is TLS: "+tlsAdvice, peerAttrs(in)...)
	case c.looksLikeTLS():
		v.write(slog.LevelWarn, "TLS on the peer port, which is plaintext: "+tlsAdvice, peerAttrs(in)...)
	case errors.Is(err, errPeerSelf):
		v.write(slog.LevelWarn, "this node has reached itself at a peer's address: look at TICKETING_PEERS and the credential", peerAttrs(in)...)
	case isStrangersFault(err):
		v.write(slog.LevelWarn, "a connection to the peer port does not speak its protocol: closed", peerAttrs(in, slog.String("why", err.Error()))...)
	case isEnd(err):
		v.write(slog.LevelInfo, "a connection between nodes ended during its handshake", peerAttrs(in)...)
	default:
		v.write(slog.LevelWarn, "a handshake between nodes failed", peerAttrs(in, slog.String("why", err.Error()))...)
	}
}

// peerEnded: a connection that was in use is over.
func (v *events) peerEnded(c *peerConn, err error) {
	switch in := c.intro(); {
	case err == nil || c.ending.Load() || c.wasRefused: // there was a line
	case isStrangersFault(err) || errors.Is(err, raft.ErrMalformed):
		v.write(slog.LevelError, "another node sent what does not check: its connection is closed", peerAttrs(in, slog.String("why", err.Error()))...)
	case in.role != wire.PeerRolePeer:
	case isEnd(err):
		v.write(slog.LevelInfo, "a connection between nodes ended", peerAttrs(in)...)
	default:
		v.write(slog.LevelWarn, "a connection between nodes failed", peerAttrs(in, slog.String("why", err.Error()))...)
	}
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET)
}

// looksLikeTLS reports whether what has arrived begins like a TLS record of a handshake.
func (c *peerConn) looksLikeTLS() bool {
	return c.tls == nil && c.in.end > 1 && c.in.buf[0] == 0x16 && c.in.buf[1] == 0x03
}
