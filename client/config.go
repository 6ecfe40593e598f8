package client

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ticketing.internal/wire"
)

// Config says where the servers are and how to talk to them. New copies it.
type Config struct {
	// Addrs are the servers, host:port each; :5225 is added where no port is given. At least one. Names are resolved
	// anew at each dial.
	Addrs []string
	// Token is the secret shared with the servers. It never crosses the wire.
	Token string
	// Name is shown to operators as the holder: at most 64 bytes of UTF-8 without control characters.
	// Default: program@host[pid].
	Name string
	// TLS, if set, is used for every connection; tlsconf.NewClient makes one from PEM files. An empty ServerName is
	// replaced by the host that is dialled.
	TLS *tls.Config
	// Domain, if set, is the only domain accepted: 32 hexadecimal digits, as `ticketing status` prints it.
	Domain string
	// Dialer opens a connection, and gives up when ctx ends. Default: a net.Dialer with TCP keep-alive.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger gets connections made and lost, refusals and warnings; no line a request. Default: silence.
	Logger *slog.Logger
	// Hooks are called as things happen, for metrics and traces.
	Hooks Hooks
}

// Hooks are functions that a Broker calls. Each may be nil. They are called from many goroutines and must not block.
type Hooks struct {
	Dial       func(addr string)                               // a connection is about to be opened
	Connect    func(addr string, took time.Duration)           // its node has proved itself
	Disconnect func(addr string, err error)                    // a connection reported by Connect has ended
	Request    func(op wire.Op)                                // Acquire or Release was called
	Reply      func(op wire.Op, err error, took time.Duration) // it returns; err is what the caller gets
	Redirect   func(from, leader string, term uint64)          // a node named another leader; "" when it knows none
}

// settings are a Config that was checked and completed. Immutable after newSettings.
type settings struct {
	addrs  []string // distinct
	token  []byte
	name   []byte
	tls    *tls.Config
	domain *domain // nil: the first one met
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	log    *slog.Logger
	hooks  Hooks
}

// domain is one life of a server or a cluster, within which tokens and terms are comparable.
type domain [16]byte

func (d domain) String() string { return hex.EncodeToString(d[:]) }

const defaultPort = "5225"

// newSettings returns every problem of cfg at once.
func newSettings(cfg Config) (*settings, error) {
	s := &settings{
		token: []byte(cfg.Token),
		name:  []byte(cfg.Name),
		tls:   cfg.TLS.Clone(),
		dial:  cfg.Dialer,
		log:   cfg.Logger,
		hooks: cfg.Hooks,
	}
	var problems []error
	invalid := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("client configuration: %w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if len(cfg.Addrs) == 0 {
		invalid("no address; give at least one host:port in Addrs")
	}
	for _, a := range cfg.Addrs {
		addr, err := address(a)
		if err != nil {
			invalid("address %q: %v", a, err)
		} else if !slices.Contains(s.addrs, addr) {
			s.addrs = append(s.addrs, addr)
		}
	}
	if cfg.Name == "" {
		s.name = defaultName()
	}
	if !wire.ValidName(s.name) {
		invalid("name %q: at most %d bytes of UTF-8 without control characters are allowed", s.name, wire.MaxName)
	}
	if cfg.Domain != "" {
		s.domain = new(domain)
		if n, err := hex.Decode(s.domain[:], []byte(cfg.Domain[:min(len(cfg.Domain), 32)])); err != nil || n != 16 || len(cfg.Domain) != 32 {
			invalid("domain %q: want 32 hexadecimal digits", cfg.Domain)
		}
	}
	if s.dial == nil {
		s.dial = defaultDialer().DialContext
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, errors.Join(problems...)
}

// address returns a as host:port with a port.
func address(a string) (string, error) {
	bare := a
	if strings.HasPrefix(a, "[") && strings.HasSuffix(a, "]") {
		bare = a[1 : len(a)-1]
	}
	if _, err := netip.ParseAddr(bare); err == nil { // no port: the colons of IPv6 are its own
		a = net.JoinHostPort(bare, defaultPort)
	} else if !strings.Contains(a, ":") {
		a += ":" + defaultPort
	}
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return "", errors.New("want host:port, with an IPv6 address in brackets")
	}
	if host == "" {
		return "", errors.New("the host is missing")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q: want 1 to 65535", port)
	}
	for _, c := range host {
		if c <= ' ' || c == 0x7f || c == '/' {
			return "", fmt.Errorf("host %q: no name has a %q", host, c)
		}
	}
	return net.JoinHostPort(host, port), nil
}

// defaultName is program@host[pid], cut to what fits, without what a name may not hold.
func defaultName() []byte {
	program := "client"
	if len(os.Args) > 0 && os.Args[0] != "" {
		program = filepath.Base(os.Args[0])
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	pid := "[" + strconv.Itoa(os.Getpid()) + "]"
	name := program + "@" + host
	name = strings.ToValidUTF8(name[:min(len(name), wire.MaxName-len(pid))], "") + pid
	if !wire.ValidName([]byte(name)) {
		return []byte("client" + pid)
	}
	return []byte(name)
}

func defaultDialer() *net.Dialer {
	return &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 2,
	}}
}
