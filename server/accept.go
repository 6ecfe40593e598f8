package server

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"ticketing.internal/wire"
)

// acceptor takes connections from one listening port, at most as fast as handshakes finish.
type acceptor struct {
	engine    *engine
	admission *admission
	port      port
	start     func(*conn) // serves a connection that was admitted
	quit      chan struct{}
	done      chan struct{}
}

// port is a listening socket.
type port interface {
	accept() (*conn, error)     // waits for a connection
	turnAway(c *conn, b []byte) // sends b at most once, and closes
	close()                     // ends a waiting accept
}

func newAcceptor(a acceptor) *acceptor {
	a.quit, a.done = make(chan struct{}), make(chan struct{})
	return &a
}

// run accepts until stop.
func (a *acceptor) run() {
	defer close(a.done)
	for a.waitForRoom() {
		c, err := a.port.accept()
		if err != nil {
			if !a.survive(err) {
				return
			}
			continue
		}
		if !a.admission.admit(c, a.engine.clock.mono()) {
			a.engine.events.tooManyConnections(c.remote)
			a.port.turnAway(c, wire.AppendLegacyError(nil, wire.TooManyConnections.String()))
			continue
		}
		a.start(c)
	}
}

// stop ends run and waits for it.
func (a *acceptor) stop() {
	close(a.quit)
	a.port.close()
	<-a.done
}

// waitForRoom returns when a handshake slot is free, making one free if a handshake has been at it for too long.
// It reports false when the acceptor was stopped.
func (a *acceptor) waitForRoom() bool {
	for {
		victim, full := a.admission.full(a.engine.clock.mono())
		if !full {
			break
		}
		if victim != nil {
			a.engine.send(mail{to: victim, kind: mailEvictUnproved})
		}
		if !a.pause(a.admission.room) {
			return false
		}
	}
	select {
	case <-a.quit:
		return false
	default:
		return true
	}
}

// pause waits for early or for a short time. It reports false when the acceptor was stopped.
func (a *acceptor) pause(early <-chan struct{}) bool {
	timer := time.NewTimer(acceptRetryDelay)
	defer timer.Stop()
	select {
	case <-a.quit:
		return false
	case <-early:
	case <-timer.C:
	}
	return true
}

// survive deals with an error of accept. An error that does not pass by at once, such as a lack of descriptors, is waited
// out; connections stay in the kernel's queue meanwhile. It reports false when the acceptor was stopped.
func (a *acceptor) survive(err error) bool {
	select {
	case <-a.quit:
		return false
	default:
	}
	if errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.EINTR) {
		return true
	}
	a.engine.events.acceptFailed(err)
	return a.pause(nil)
}

// remoteOf returns the address of a connection's other end, IPv4 as IPv4 also on a dual-stack socket.
func remoteOf(addr net.Addr) netip.AddrPort {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
