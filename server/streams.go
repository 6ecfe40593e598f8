package server

import (
	"crypto/tls"
	"sync"
	"time"
)

// streams is the set of connections that goroutines serve.
type streams struct {
	engine    *engine
	admission *admission
	tls       *tls.Config // nil: plaintext
	idle      time.Duration

	mu      sync.Mutex
	open    map[*stream]struct{} // guarded by mu
	running sync.WaitGroup
}

// start serves c, which was accepted by a streamPort and admitted.
func (ss *streams) start(c *conn) {
	s := c.stream
	s.admission, s.idle = ss.admission, ss.idle
	if ss.tls != nil {
		s.tls = tls.Server(s.tcp, ss.tls)
	}
	ss.mu.Lock()
	ss.open[s] = struct{}{}
	ss.mu.Unlock()
	ss.running.Add(1)
	go func() {
		defer ss.running.Done()
		s.serve()
		ss.mu.Lock()
		delete(ss.open, s)
		ss.mu.Unlock()
	}()
}

// stop ends every connection, letting what is decided leave, and waits for them.
func (ss *streams) stop() {
	ss.mu.Lock()
	for s := range ss.open {
		ss.engine.send(mail{to: s.conn, kind: mailClose})
	}
	ss.mu.Unlock()
	ss.running.Wait()
}
