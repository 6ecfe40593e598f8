package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"ticketing.internal/wire"
)

// Config says where the servers are and how to talk to them. New copies it.
type Config struct {
	// Addrs are the servers, host:port each; ":5225" is added where no port is given. At least one. Names are
	// resolved anew at each dial.
	Addrs []string
	// Token is the secret shared with the servers; it never crosses the wire.
	Token string
	// Name is shown to operators as the holder: at most 64 bytes of UTF-8 without control characters.
	// Default: program@host[pid].
	Name string
	// TLS, if set, is used for every connection; see tlsconf.NewClient for one made of PEM files. An empty
	// ServerName is replaced by the host dialled.
	TLS *tls.Config
	// Domain, if set, is the only domain accepted: 32 hexadecimal digits, as `ticketing status` prints it.
	Domain string
	// Dialer opens a connection. Default: a net.Dialer with TCP keep-alive.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger gets connections made and lost, refusals and warnings; no line a request. Default: silence.
	Logger *slog.Logger
	// Hooks are called as things happen, for metrics and traces.
	Hooks Hooks
}

// Hooks are functions that a Broker calls. Each may be nil. They are called from many goroutines and must not block.
type Hooks struct {
	Dial       func(addr string)                               // before a connection is opened
	Connect    func(addr string, took time.Duration)           // a node has proved itself
	Disconnect func(addr string, err error)                    // a connection that had been told by Connect ended
	Request    func(op wire.Op)                                // Acquire or Release was called
	Reply      func(op wire.Op, err error, took time.Duration) // and returned: err is what the caller gets
	Redirect   func(from, leader string, term uint64)          // a node named another leader; "" for unknown
}
