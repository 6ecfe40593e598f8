package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// handshakeTime is what dialling, TLS and the handshake may take together. The server gives as much from its accept.
const handshakeTime = 5 * time.Second

// greeted is a connection whose server has proved that it knows the token.
type greeted struct {
	raw      net.Conn // what is closed: closing TLS could block behind a write
	conn     net.Conn
	in       *inbox // what came behind the welcome is in it
	role     wire.Role
	inFlight int
	domain   domain
	leader   string
}

// connect dials addr and shakes hands. The error says what to do about it.
func (b *Broker) connect(ctx context.Context, addr string) (*greeted, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	raw, err := b.set.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w (is the address right, and a server running there?)", addr, err)
	}
	// A conn has no context: its reads and writes end when it is closed.
	unwatch := context.AfterFunc(ctx, func() { raw.Close() })
	g, err := b.shakeHands(ctx, raw, addr)
	if !unwatch() && err == nil {
		err = ctx.Err()
	}
	switch {
	case err == nil || ctx.Err() == nil:
	case errors.Is(err, context.DeadlineExceeded): // as TLS says it
		err = inWords(err, handshakeTime)
	default:
		err = fmt.Errorf("%w: %w", inWords(ctx.Err(), handshakeTime), err)
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return g, nil
}

func (b *Broker) shakeHands(ctx context.Context, raw net.Conn, addr string) (*greeted, error) {
	conn, binding := raw, []byte(nil)
	if b.set.tls != nil {
		var err error
		if conn, binding, err = startTLS(ctx, raw, b.set.tls, addr); err != nil {
			return nil, err
		}
	}
	in := newInbox(conn)
	nonce, err := readGreeting(in, b.set.tls != nil)
	if err != nil {
		return nil, err
	}

	hello := wire.Hello{Name: b.set.name}
	if _, err := io.ReadFull(b.sys.nonces, hello.Nonce[:]); err != nil {
		return nil, fmt.Errorf("draw a nonce: %w", err)
	}
	hello.Proof = auth.ClientProof(b.set.token, nonce[:], hello.Nonce[:], binding, b.set.name)
	if _, err := conn.Write(wire.AppendHello(nil, &hello)); err != nil {
		return nil, fmt.Errorf("send the hello: %w", err)
	}
	welcome, err := readWelcome(in)
	if err != nil {
		return nil, err
	}
	if !auth.VerifyServer(welcome.Proof[:], b.set.token, hello.Nonce[:], nonce[:], binding) {
		return nil, fmt.Errorf("%w: the server does not know the token; nothing was asked of it", ErrAuth)
	}
	return &greeted{
		raw: raw, conn: conn, in: in,
		role: welcome.Role, inFlight: int(welcome.InFlight), domain: welcome.Domain, leader: string(welcome.Leader),
	}, nil
}

// startTLS also returns what binds the proofs to this session.
func startTLS(ctx context.Context, raw net.Conn, config *tls.Config, addr string) (net.Conn, []byte, error) {
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		var plaintext tls.RecordHeaderError
		if errors.As(err, &plaintext) {
			return nil, nil, fmt.Errorf("the server answers in plaintext (%q): leave TLS out, or use the port that speaks it: %w", plaintext.RecordHeader[:], err)
		}
		return nil, nil, tlsError(err)
	}
	binding, err := tlsconf.Binding(conn.ConnectionState())
	if err != nil {
		return nil, nil, err
	}
	return conn, binding, nil
}

// tlsError makes a refusal of either side's certificate an ErrAuth.
func tlsError(err error) error {
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	if errors.As(err, &certificate) || errors.As(err, &alert) || tlsconf.IsAlert(err) {
		return fmt.Errorf("%w: TLS: %w", ErrAuth, err)
	}
	return fmt.Errorf("TLS: %w", err)
}

func readGreeting(in *inbox, overTLS bool) (nonce [auth.EncodedNonceSize]byte, err error) {
	for {
		text, n, err := wire.ParseGreeting(in.bytes())
		switch {
		case err == wire.Malformed:
			return nonce, fmt.Errorf("this is no Ticketing server: it says %q", in.bytes()[:min(len(in.bytes()), 40)])
		case err != nil:
			return nonce, fmt.Errorf("refused: %w", err)
		case n > 0:
			nonce = [auth.EncodedNonceSize]byte(text)
			in.consume(n)
			return nonce, nil
		}
		if err := in.fill(); err != nil {
			if tlsconf.IsAlert(err) {
				return nonce, tlsError(err)
			}
			hint := "if the server speaks TLS, set TLS"
			if overTLS {
				hint = "the server may want a client certificate"
			}
			return nonce, fmt.Errorf("no greeting (%s; if it is not the client port of a Ticketing server, correct the address): %w", hint, err)
		}
	}
}

func readWelcome(in *inbox) (w wire.Welcome, err error) {
	for {
		b := in.bytes()
		if len(b) > 0 && b[0] == byte(wire.OpError) {
			var refusal wire.Reply
			n, err := wire.DecodeReply(b, &refusal)
			if err != nil {
				return w, fmt.Errorf("read the welcome: %w", err)
			}
			if n > 0 {
				return w, refused(&refusal)
			}
		} else {
			n, err := wire.DecodeWelcome(b, &w)
			if err != nil {
				return w, fmt.Errorf("read the welcome: %w", err)
			}
			if n > 0 {
				in.consume(n)
				return w, nil
			}
		}
		if err := in.fill(); err != nil {
			return w, fmt.Errorf("the server ended the handshake: %w", err)
		}
	}
}

// refused is the error of an E that stands in the welcome's place.
func refused(e *wire.Reply) error {
	code := wire.Failure(e.Code)
	if code == wire.AuthFailed {
		return fmt.Errorf("%w: the server refused the token: %w", ErrAuth, code)
	}
	return fmt.Errorf("refused: %w (%q)", code, e.Text)
}
