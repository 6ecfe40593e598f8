package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"ticketing.internal/auth"
	"ticketing.internal/wire"
)

var errServerProof = errors.New("the server does not know the token: its proof is wrong")

// shakeHands does the client's part of the v1 handshake on a plaintext connection. Nothing but the greeting and
// the welcome is read, so that the next byte is a reply's. It returns how many acquires may be in flight.
func shakeHands(conn io.ReadWriter, token, name []byte) (inFlight uint32, err error) {
	var greeting [wire.GreetingSize]byte
	line := greeting[:0]
	var nonce []byte
	for n := 0; n == 0; { // byte by byte to the end of the line, because a refusal is shorter than a greeting
		if len(line) == len(greeting) {
			return 0, withExit(exitUnreachable, errors.New("this is no ticketing server"))
		}
		if _, err = io.ReadFull(conn, greeting[len(line):len(line)+1]); err != nil {
			return 0, withExit(exitUnreachable, fmt.Errorf("reading the greeting: %w", err))
		}
		line = greeting[:len(line)+1]
		if nonce, n, err = wire.ParseGreeting(line); err != nil {
			return 0, withExit(exitUnreachable, fmt.Errorf("the server refuses the connection: %w", err))
		}
	}
	hello := wire.Hello{Name: name}
	rand.Read(hello.Nonce[:])
	hello.Proof = auth.ClientProof(token, nonce, hello.Nonce[:], nil, name)
	if _, err = conn.Write(wire.AppendHello(nil, &hello)); err != nil {
		return 0, withExit(exitUnreachable, fmt.Errorf("sending the hello: %w", err))
	}
	var answer [wire.WelcomeSize + wire.MaxText]byte
	// An E frame is shorter than a welcome, so the header is read first.
	if _, err = io.ReadFull(conn, answer[:wire.HeaderSize]); err != nil {
		return 0, withExit(exitUnreachable, fmt.Errorf("reading the welcome: %w", err))
	}
	if answer[0] == byte(wire.OpError) {
		code := wire.Failure(uint16(answer[2])<<8 | uint16(answer[3]))
		return 0, withExit(exitAuth, fmt.Errorf("the server refuses the handshake: %w", code))
	}
	size := wire.WelcomeSize + int(answer[2])<<8 + int(answer[3])
	if size > len(answer) {
		return 0, withExit(exitUnreachable, errors.New("the welcome is not of this protocol"))
	}
	if _, err = io.ReadFull(conn, answer[wire.HeaderSize:size]); err != nil {
		return 0, withExit(exitUnreachable, fmt.Errorf("reading the welcome: %w", err))
	}
	var welcome wire.Welcome
	if _, err = wire.DecodeWelcome(answer[:size], &welcome); err != nil {
		return 0, withExit(exitUnreachable, fmt.Errorf("the welcome is not of this protocol: %w", err))
	}
	if !auth.VerifyServer(welcome.Proof[:], token, hello.Nonce[:], nonce, nil) {
		return 0, withExit(exitAuth, errServerProof)
	}
	if welcome.Role != wire.RoleServing {
		return 0, withExit(exitUnreachable, fmt.Errorf("the server does not lead: the leader is %q", welcome.Leader))
	}
	return welcome.InFlight, nil
}
