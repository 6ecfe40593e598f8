package main

import (
	"context"
	"errors"
	"flag"
	"sync/atomic"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// clientEnviron is what help says of the environment of commands that talk to the client port.
func clientEnviron() []string {
	return []string{
		"TICKETING_ADDRS addresses of the servers, with commas between them (--addr; default 127.0.0.1:5225)",
		"TICKETING_TOKEN the secret (or TICKETING_TOKEN_FILE)",
		"TICKETING_NAME how operators see this client (default program@host[pid])",
		"TICKETING_TLS_CA PEM file of the CAs that issued the servers' certificates; turns TLS on (--tls-ca)",
		"TICKETING_TLS_INSECURE yes: TLS without verifying the server's certificate (--tls-insecure)",
		"TICKETING_TLS_CLIENT_CERT PEM file of this client's certificate; with TICKETING_TLS_CLIENT_KEY",
	}
}

// clientExits are the exit codes of those commands.
func clientExits() []string {
	return []string{"64 usage", "69 no server reachable, or none that leads", "75 not granted: timed out, or the server is busy",
		"76 the outcome is unknown, or a release unconfirmed", "77 authentication or certificate", "78 configuration"}
}

// tlsFlags say how servers are checked.
type tlsFlags struct {
	ca       string
	insecure bool
}

func (f *tlsFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.ca, "tls-ca", "", "PEM `file` of the CAs to trust; turns TLS on")
	fs.BoolVar(&f.insecure, "tls-insecure", false, "TLS without verifying the server's certificate")
}

// options joins flags and environment.
func (f *tlsFlags) options(p *process) tlsconf.ClientOptions {
	o := tlsconf.ClientOptions{
		CA:       p.variable("TICKETING_TLS_CA"),
		Cert:     p.variable("TICKETING_TLS_CLIENT_CERT"),
		Key:      p.variable("TICKETING_TLS_CLIENT_KEY"),
		Insecure: f.insecure || p.variable("TICKETING_TLS_INSECURE") == "yes",
	}
	if f.ca != "" {
		o.CA = f.ca
	}
	return o
}

// clientFlags say where the servers are.
type clientFlags struct {
	tlsFlags
	addrs listFlag
}

func (f *clientFlags) register(fs *flag.FlagSet) {
	fs.Var(&f.addrs, "addr", "`HOST[:PORT]` of a server, 5225 by default; may be repeated")
	f.tlsFlags.register(fs)
}

// config joins flags and environment. The token comes from the environment only.
func (f *clientFlags) config(p *process) (client.Config, error) {
	config, err := client.FromEnv()
	if err != nil {
		return config, withExit(exitConfig, err)
	}
	if len(f.addrs) > 0 {
		config.Addrs = f.addrs
	}
	if f.ca != "" || f.insecure {
		if config.TLS, err = tlsconf.NewClient(f.options(p)); err != nil {
			return config, withExit(exitConfig, err)
		}
	}
	return config, nil
}

// connect returns a broker that is connected to a serving node. It waits for one as long as it would wait for the lock, but at
// least 1 s.
func (f *clientFlags) connect(ctx context.Context, p *process, wait time.Duration, hooks client.Hooks) (*client.Broker, error) {
	config, err := f.config(p)
	if err != nil {
		return nil, err
	}
	config.Hooks = hooks
	broker, err := client.New(config)
	if err != nil {
		return nil, withExit(exitConfig, err)
	}
	limited, cancel := context.WithTimeout(ctx, max(wait, time.Second))
	defer cancel()
	if err := broker.WaitReady(limited); err != nil {
		broker.Close()
		if errors.Is(err, client.ErrAuth) {
			return nil, err
		}
		return nil, withExit(exitUnreachable, err)
	}
	return broker, nil
}

// lockFlags are those of a command that acquires.
type lockFlags struct {
	clientFlags
	wait, lease time.Duration
}

func (f *lockFlags) register(fs *flag.FlagSet) {
	fs.DurationVar(&f.wait, "wait", 10*time.Second, "`duration` to wait for KEY, 0s to 1h; 0s: one attempt")
	fs.DurationVar(&f.lease, "lease", time.Minute, "`duration` of the lease, 1s to 250s")
	f.clientFlags.register(fs)
}

// check refuses what no server would accept, before connecting to one.
func (f *lockFlags) check(key string) error {
	switch {
	case !wire.ValidKey([]byte(key)):
		return usageError("KEY %q: %s", key, wire.InvalidKey.Error())
	case f.wait < 0 || f.wait > wire.MaxWaitMillis*time.Millisecond:
		return usageError("--wait %v: 0s to 1h is allowed", f.wait)
	case f.lease < wire.MinLeaseMillis*time.Millisecond || f.lease > wire.MaxLeaseMillis*time.Millisecond:
		return usageError("--lease %v: 1s to 250s is allowed", f.lease)
	}
	return nil
}

// acquire connects and acquires key. The caller closes the broker.
func (f *lockFlags) acquire(ctx context.Context, p *process, key string) (*client.Broker, *client.Ticket, error) {
	if err := f.check(key); err != nil {
		return nil, nil, err
	}
	begin := time.Now()
	var ended atomic.Bool
	broker, err := f.connect(ctx, p, f.wait, client.Hooks{Disconnect: func(string, error) { ended.Store(true) }})
	if err != nil {
		return nil, nil, err
	}
	wait := f.wait
	if wait > 0 {
		wait = max(0, wait-time.Since(begin))
	}
	ticket, err := broker.Acquire(ctx, key, wait, f.lease)
	if err == nil {
		return broker, ticket, nil
	}
	if ctx.Err() != nil && settled(broker) && !ended.Load() {
		err = withExit(exitNotGranted, errors.New("interrupted before the lock was granted"))
	}
	broker.Close()
	return nil, nil, err
}

// settled waits, for at most 2 s, until a cancelled acquire has left its queue or its grant has been given back. It reports
// whether the server has confirmed that; the answer means nothing if a connection ended meanwhile.
func settled(broker *client.Broker) bool {
	limit := time.NewTimer(2 * time.Second)
	defer limit.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if s := broker.Stats(); s.Waiting == 0 && s.Releases == 0 {
			return s.Unconfirmed == 0
		}
		select {
		case <-limit.C:
			return false
		case <-look.C:
		}
	}
}
