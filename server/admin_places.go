package server

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// adminPlaces bounds the connections of the admin endpoint. When all places are taken, the connection that has been idle for longest is
// closed to make room, so that nobody can keep probes out by holding connections open. A new connection is turned away only while every
// other one is being answered.
type adminPlaces struct {
	net.Listener
	most int

	mu    sync.Mutex
	open  map[net.Conn]*adminPlace
	turns uint64 // counts what happened, to tell what was longest ago
}

// adminPlace is the state of one connection.
type adminPlace struct {
	since uint64 // turn at which it became idle
	busy  bool   // a whole request has arrived and is being answered
}

type adminPlaceKey struct{}

func newAdminPlaces(l net.Listener, most int) *adminPlaces {
	return &adminPlaces{Listener: l, most: most, open: map[net.Conn]*adminPlace{}}
}

// Accept is net.Listener.
func (p *adminPlaces) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if p.admit(c) {
			return c, nil
		}
		c.Close()
	}
}

func (p *adminPlaces) admit(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) >= p.most && !p.evict() {
		return false
	}
	p.turns++
	p.open[c] = &adminPlace{since: p.turns}
	return true
}

// evict closes the connection that has been idle for longest.
func (p *adminPlaces) evict() bool {
	var oldest net.Conn
	for c, place := range p.open {
		if !place.busy && (oldest == nil || place.since < p.open[oldest].since) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	delete(p.open, oldest)
	go oldest.Close() // closing TLS may take a while
	return true
}

// context is http.Server's ConnContext: it lets busy find the connection.
func (p *adminPlaces) context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, adminPlaceKey{}, c)
}

// busy notes that the request of ctx has arrived.
func (p *adminPlaces) busy(ctx context.Context) {
	c, _ := ctx.Value(adminPlaceKey{}).(net.Conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	if place := p.open[c]; place != nil {
		place.busy = true
	}
}

// changed is http.Server's ConnState.
func (p *adminPlaces) changed(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch place := p.open[c]; {
	case place == nil:
	case state == http.StateIdle:
		p.turns++
		*place = adminPlace{since: p.turns}
	case state == http.StateClosed:
		delete(p.open, c)
	}
}
