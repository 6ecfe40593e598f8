package server

import (
	"net"
	"runtime"
	"sync/atomic"
)

// transport is what carries the clients' connections: event loops for plaintext, streams for TLS. The loops keep the time
// of the engine in both cases.
type transport struct {
	loops   []*loop
	streams *streams
	next    atomic.Uint32 // the loop that the next connection goes to
}

func newTransport(e *engine, ss *streams, loops int) (*transport, error) {
	t := &transport{streams: ss}
	for range loops {
		l, err := newLoop(e, ss.admission, ss.idle)
		if err != nil {
			return nil, err
		}
		t.loops = append(t.loops, l)
	}
	// A loop that waits briefly, or has just begun to wait, keeps its processor: everything else needs another to run on.
	if runtime.GOMAXPROCS(0) <= loops {
		runtime.GOMAXPROCS(loops + 1)
	}
	e.timekeeper, e.peerReader = &t.loops[0].shard, t.loops[0]
	return t, nil
}

// port turns a listening socket into what the acceptor needs.
func (t *transport) port(l *net.TCPListener) (port, error) {
	if t.streams.tls != nil {
		return &streamPort{listener: l, engine: t.streams.engine}, nil
	}
	return newRawPort(l)
}

// adopt serves a connection that was admitted.
func (t *transport) adopt(c *conn) {
	if c.stream != nil {
		t.streams.start(c)
		return
	}
	l := t.loops[int(t.next.Add(1))%len(t.loops)]
	c.shard = &l.shard
	l.engine.send(mail{to: c, kind: mailAdopt})
}

func (t *transport) run() {
	for _, l := range t.loops {
		go l.run()
	}
}

func (t *transport) stop() {
	t.streams.stop()
	for _, l := range t.loops {
		l.stop()
	}
}

// close gives back what the loops wait with. They have ended, or were never run, and nobody wakes them any more.
func (t *transport) close() {
	for _, l := range t.loops {
		l.poller.close()
	}
}
