package server

import (
	"net"
	"time"
)

// The options that the protocol asks of every socket.
const (
	keepAliveIdleSeconds     = 10
	keepAliveIntervalSeconds = 5
	keepAliveProbes          = 2
	userTimeoutMillis        = 20_000
)

// streamPort accepts connections that a goroutine serves: TLS, and systems without event loops.
type streamPort struct {
	listener *net.TCPListener
	engine   *engine
}

func (p *streamPort) accept() (*conn, error) {
	nc, err := p.listener.AcceptTCP()
	if err != nil {
		return nil, err
	}
	nc.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdleSeconds * time.Second, Interval: keepAliveIntervalSeconds * time.Second, Count: keepAliveProbes,
	})
	setUserTimeout(nc, userTimeoutMillis)
	return newStream(p.engine, nc).conn, nil
}

// turnAway closes at once: behind TLS the refusal could only be told after a handshake, which is what there is no room for.
func (p *streamPort) turnAway(c *conn, b []byte) {
	s := c.stream
	if s.tls == nil {
		s.tcp.SetWriteDeadline(deadlineIn(time.Millisecond))
		s.tcp.Write(b)
	}
	s.tcp.Close()
}

func (p *streamPort) close() { p.listener.Close() }
