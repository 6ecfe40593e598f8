package server

import (
	"crypto/rand"
	"sync/atomic"

	"ticketing.internal/auth"
	"ticketing.internal/wire"
)

// handshake is the part of a connection that is dropped once the client has proved the token.
type handshake struct {
	nonce   [auth.EncodedNonceSize]byte
	binding []byte // of TLS; empty on plaintext
	// bindable is false on a TLS session that has no exporter: such a session may speak v0 only.
	bindable bool
	denial   wire.Protocol // stateDenied: the protocol of the answer
}

// welcomer is what a handshake needs to know of the server.
type welcomer struct {
	tokens atomic.Pointer[auth.Tokens] // replaced on SIGHUP
	legacy bool
	// clientAddr is where clients are told to find this node.
	clientAddr string
	domain     [16]byte
	inFlight   uint32 // acquires that a connection may have in flight
}

// greet gives c a fresh nonce and queues the greeting. Called by the owner of c.
func (c *conn) greet(binding []byte, bindable bool) {
	var raw [auth.NonceSize]byte
	rand.Read(raw[:])
	h := &handshake{binding: binding, bindable: bindable}
	auth.EncodeNonce(h.nonce[:0], &raw)
	c.handshake = h
	o := c.box()
	o.bytes = wire.AppendGreeting(o.bytes, h.nonce[:])
}

// hello judges the first bytes that a client sends. It returns how many of them it used: 0 when more must arrive first.
// Afterwards c.state says what became of the connection. Called inside a batch.
func (e *engine) hello(c *conn, data []byte) (used int) {
	if len(data) == 0 {
		return 0
	}
	switch wire.Version(data[0]) {
	case wire.V1:
		return e.helloV1(c, data)
	case wire.V0:
		return e.helloV0(c, data)
	}
	e.events.stranger(c.remote, data)
	c.refuse(wire.UnsupportedVersion)
	return len(data)
}

func (e *engine) helloV1(c *conn, data []byte) (used int) {
	h := c.handshake
	if !h.bindable {
		c.refuse(wire.UnsupportedVersion)
		return len(data)
	}
	var hello wire.Hello
	n, err := wire.DecodeHello(data, &hello)
	if err != nil {
		e.events.malformed(c.remote)
		c.refuse(wire.Malformed)
		return len(data)
	}
	if n == 0 {
		return 0
	}
	token, ok := e.welcomer.tokens.Load().MatchClient(hello.Proof[:], h.nonce[:], hello.Nonce[:], h.binding, hello.Name)
	if !ok {
		e.deny(c, wire.V1)
		return len(data)
	}
	role := wire.RoleServing
	if !e.leadership.serving {
		role = wire.RoleNotLeader
	}
	o := c.box()
	o.bytes = wire.AppendWelcome(o.bytes, &wire.Welcome{
		Role:     role,
		Leader:   []byte(e.leadership.leader),
		InFlight: e.welcomer.inFlight,
		Domain:   e.welcomer.domain,
		Proof:    auth.ServerProof(token, hello.Nonce[:], h.nonce[:], h.binding),
	})
	e.open(c, string(hello.Name))
	c.handshake = nil
	return n
}

func (e *engine) helloV0(c *conn, data []byte) (used int) {
	if !e.welcomer.legacy {
		o := c.box()
		o.bytes = wire.AppendLegacyError(o.bytes, wire.LegacyNotActive)
		c.state = stateClosing
		return len(data)
	}
	digest, n, err := wire.ParseLegacyDigest(data)
	if err != nil {
		e.events.stranger(c.remote, data)
		e.deny(c, wire.V0)
		return len(data)
	}
	if n == 0 {
		return 0
	}
	if !e.welcomer.tokens.Load().MatchLegacy(digest, c.handshake.nonce[:]) {
		e.deny(c, wire.V0)
		return len(data)
	}
	c.legacy = newLegacySession(&e.legacy)
	e.open(c, "")
	c.handshake = nil
	return n
}

// deny notes that the client does not know the token. To make guessing slow, the connection's owner holds the answer back for
// denialDelay and then calls tellDenied.
func (e *engine) deny(c *conn, p wire.Protocol) {
	c.handshake.denial = p
	c.state = stateDenied
	e.counters.authFailures++
	e.events.authFailed(c.remote)
}

// tellDenied queues the answer to a wrong proof.
func (c *conn) tellDenied() {
	if c.handshake.denial == wire.V0 {
		o := c.box()
		o.bytes = wire.AppendLegacyError(o.bytes, wire.AuthFailed.String())
		c.state = stateClosing
		return
	}
	c.refuse(wire.AuthFailed)
}

// refuse queues an E reply that answers no request, the last that the connection sends.
func (c *conn) refuse(f wire.Failure) {
	c.fail(f, 0)
	c.state = stateClosing
}
