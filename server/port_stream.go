package server

import (
	"net"
	"time"
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

// turnAway closes at once under TLS: the refusal could only be sent after a TLS handshake, and for that there is no room.
func (p *streamPort) turnAway(c *conn, b []byte) {
	s := c.stream
	if s.tls == nil {
		s.tcp.SetWriteDeadline(deadlineIn(time.Millisecond))
		s.tcp.Write(b)
	}
	s.tcp.Close()
}

func (p *streamPort) close() { p.listener.Close() }
