package client

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"ticketing.internal/auth"
	"ticketing.internal/wire"
)

// remote is the server's end of a connection.
type remote struct {
	*testing.T
	conn *memoryConn
	near *memoryConn
	in   *inbox
	host *host

	requests chan wire.Request // see pongs
}

func (r *remote) shakeHands(h *host) error { return welcome(r.conn, r.in, h, nil) }

func (r *remote) readHello() (wire.Hello, error) { return readHello(r.in) }

// welcome does the server's part of a handshake. An error says that the client has gone, or was turned away.
func welcome(conn net.Conn, in *inbox, h *host, binding []byte) error {
	nonce := auth.EncodeNonce(nil, &[auth.NonceSize]byte{7})
	if _, err := conn.Write(wire.AppendGreeting(nil, nonce)); err != nil {
		return err
	}
	hello, err := readHello(in)
	if err != nil {
		return err
	}
	if _, ok := auth.NewTokens([]byte(testToken)).MatchClient(hello.Proof[:], nonce, hello.Nonce[:], binding, hello.Name); !ok {
		conn.Write(wire.AppendReply(nil, &wire.Reply{Op: wire.OpError, Code: uint16(wire.AuthFailed)}))
		return errors.New("the client's proof is wrong")
	}
	w := wire.Welcome{Role: h.role, InFlight: h.limit, Domain: h.domain, Leader: []byte(h.leader)}
	w.Proof = auth.ServerProof([]byte(h.token), hello.Nonce[:], nonce, binding)
	_, err = conn.Write(wire.AppendWelcome(nil, &w))
	return err
}

func readHello(in *inbox) (hello wire.Hello, err error) {
	for {
		n, err := wire.DecodeHello(in.bytes(), &hello)
		if err != nil {
			return hello, err
		}
		if n > 0 {
			hello.Name = bytes.Clone(hello.Name)
			in.consume(n)
			return hello, nil
		}
		if err := in.fill(); err != nil {
			return hello, err
		}
	}
}

// next returns the next request.
func (r *remote) next() (wire.Request, error) {
	for {
		var q wire.Request
		n, err := wire.DecodeRequest(r.in.bytes(), &q)
		if n > 0 {
			q.Key = bytes.Clone(q.Key)
			r.in.consume(n)
		}
		if n > 0 || err != nil {
			return q, err
		}
		if err := r.in.fill(); err != nil {
			return q, err
		}
	}
}

// buffered is next for what has arrived already.
func (r *remote) buffered() (wire.Request, bool) {
	synctest.Wait()
	r.conn.in.mu.Lock()
	there := len(r.in.bytes()) + len(r.conn.in.buf)
	r.conn.in.mu.Unlock()
	if there == 0 {
		return wire.Request{}, false
	}
	q, err := r.next()
	return q, err == nil
}

// receive returns the next request but for pings, which it answers.
func (r *remote) receive() (wire.Request, error) {
	for {
		q, err := r.next()
		if err != nil || q.Op != wire.OpPing {
			return q, err
		}
		r.conn.Write(wire.AppendReply(nil, &wire.Reply{Op: wire.OpPong, Owner: q.Owner}))
	}
}

// request returns the next request, which must come.
func (r *remote) request(op wire.Op, key string) wire.Request {
	r.Helper()
	q, err := r.receive()
	if err != nil {
		r.Fatalf("want %v of %q: %v", op, key, err)
	}
	if q.Op != op || string(q.Key) != key {
		r.Fatalf("%v of %q came, want %v of %q", q.Op, q.Key, op, key)
	}
	return q
}

func (r *remote) acquire(key string) wire.Request {
	r.Helper()
	return r.request(wire.OpAcquire, key)
}

// release returns the next release, which must name token.
func (r *remote) release(key string, token uint64) wire.Request {
	r.Helper()
	q := r.request(wire.OpRelease, key)
	if q.Token != token {
		r.Fatalf("release of %q names token %d, want %d", key, q.Token, token)
	}
	return q
}

// silent checks that nothing but pings has come.
func (r *remote) silent() {
	r.Helper()
	synctest.Wait()
	r.conn.in.mu.Lock()
	b := append(bytes.Clone(r.in.bytes()), r.conn.in.buf...)
	r.conn.in.mu.Unlock()
	for len(b) > 0 {
		var q wire.Request
		n, err := wire.DecodeRequest(b, &q)
		if err != nil || n == 0 || q.Op != wire.OpPing {
			r.Fatalf("want nothing; %v of %q with token %d came (%v)", q.Op, q.Key, q.Token, err)
		}
		b = b[n:]
	}
}

func (r *remote) send(replies ...wire.Reply) {
	var b []byte
	for i := range replies {
		b = wire.AppendReply(b, &replies[i])
	}
	r.write(b)
}

func (r *remote) write(b []byte) {
	r.conn.Write(b) // a client that has gone is what some tests are about
	synctest.Wait()
}

func (r *remote) grant(q wire.Request, token uint64) {
	r.send(wire.Reply{Op: wire.OpGranted, Owner: q.Owner, Token: token})
}

func (r *remote) released(q wire.Request) {
	r.send(wire.Reply{Op: wire.OpReleased, Owner: q.Owner, Token: q.Token})
}

func (r *remote) notHeld(q wire.Request) {
	r.send(wire.Reply{Op: wire.OpNotHeld, Owner: q.Owner, Token: q.Token})
}

func (r *remote) busy(q wire.Request, code wire.Busy, millis uint32) {
	r.send(wire.Reply{Op: wire.OpBusy, Owner: q.Owner, Code: uint16(code), Millis: millis})
}

func (r *remote) failure(q wire.Request, code wire.Failure) {
	r.send(wire.Reply{Op: wire.OpError, Owner: q.Owner, Code: uint16(code), Text: []byte("as scripted")})
}

func (r *remote) moved(leader string, term uint64) {
	r.send(wire.Reply{Op: wire.OpMoved, Token: term, Text: []byte(leader)})
}

// hangUp ends the connection from the server's side.
func (r *remote) hangUp() {
	r.conn.Close()
	synctest.Wait()
}

// cutRequestsAfter ends the connection when the client has sent n more bytes.
func (r *remote) cutRequestsAfter(n int) { r.conn.in.set(func() { r.conn.in.left = n }) }

// cutRepliesAfter ends the connection when the server has sent n more bytes.
func (r *remote) cutRepliesAfter(n int) { r.conn.out.set(func() { r.conn.out.left = n }) }

// choke has the connection take no more than n bytes that are not read.
func (r *remote) choke(n int) { r.conn.in.set(func() { r.conn.in.room = n }) }

// ended reports whether the client has ended the connection.
func (r *remote) ended() bool {
	synctest.Wait()
	r.conn.in.mu.Lock()
	defer r.conn.in.mu.Unlock()
	return r.conn.in.closed
}

// pongs answers pings and keeps the other requests for seen, until the connection ends.
func (r *remote) pongs() {
	for {
		q, err := r.receive()
		if err != nil {
			return
		}
		r.requests <- q
	}
}

// seen returns the next request that pongs kept.
func (r *remote) seen(op wire.Op) wire.Request {
	r.Helper()
	synctest.Wait()
	select {
	case q := <-r.requests:
		if q.Op != op {
			r.Fatalf("%v came, want %v", q.Op, op)
		}
		return q
	default:
		r.Fatalf("nothing came, want %v", op)
	}
	return wire.Request{}
}

func (r *remote) nothingSeen() {
	r.Helper()
	synctest.Wait()
	if n := len(r.requests); n != 0 {
		r.Errorf("%d requests came that nobody expected: first %+v", n, <-r.requests)
	}
}
