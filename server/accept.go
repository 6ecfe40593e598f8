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
	turnAway(c *conn, b []byte) // tries once to send b, then closes c
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

// waitForRoom returns when a handshake slot is free. While none is, it evicts a handshake that has taken too long.
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

// pause waits for acceptRetryDelay, or less if early is signalled. It reports false when the acceptor was stopped.
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

// survive reports whether accepting goes on after err, which it does until the acceptor is stopped. An error that may last,
// such as running out of descriptors, is waited out; meanwhile connections queue in the kernel.
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

// remoteOf returns the address of a connection's other end. An IPv4 address is returned as such, even from a dual-stack socket.
func remoteOf(addr net.Addr) netip.AddrPort {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
