//go:build !linux

package server

import (
	"net"
	"time"

	"ticketing.internal/lock"
)

// carrier is what carries a connection beside its protocol.
type carrier struct {
	stream *stream
}

// transport is what carries the clients' connections: a goroutine each. Another goroutine keeps the engine's time.
type transport struct {
	streams *streams
	quit    chan struct{}
	done    chan struct{}
}

// tickInterval is how often timers are judged on systems without event loops.
const tickInterval = 10 * time.Millisecond

func newTransport(e *engine, ss *streams, loops int) (*transport, error) {
	return &transport{streams: ss, quit: make(chan struct{}), done: make(chan struct{})}, nil
}

func (t *transport) port(l *net.TCPListener) (port, error) {
	return &streamPort{listener: l, engine: t.streams.engine}, nil
}

func (t *transport) adopt(c *conn) { t.streams.start(c) }

func (t *transport) run() { go t.keepTime() }

func (t *transport) stop() {
	t.streams.stop()
	close(t.quit)
	<-t.done
}

func (t *transport) close() {}

// keepTime judges timers at short intervals. After a gap they wait, so that what has arrived is read first.
func (t *transport) keepTime() {
	defer close(t.done)
	e := t.streams.engine
	s := &shard{wake: func() {}, keepsTime: true}
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	last := e.clock.mono()
	for {
		select {
		case <-t.quit:
			return
		case <-ticker.C:
		}
		now := e.clock.now()
		e.enter(s, now)
		if now.Mono-last > stallGap {
			e.holdTick = now.Mono + stallGrace
		}
		last = now.Mono
		e.collect(now, s, func(lock.Time, *mail) {})
		e.tick(now)
		e.leave()
	}
}
