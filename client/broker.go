package client

import (
	"context"
	"time"
)

// Broker keeps the connections to the servers of one domain and takes locks over them. Make one with New and share
// it: it is safe for concurrent use by any number of goroutines.
type Broker struct{}

// New checks cfg and starts the connections in the background. It does not wait for the network: its errors are
// those of the configuration, all of them at once, and wrap ErrInvalid. Close ends what it starts.
func New(cfg Config) (*Broker, error) { return nil, ErrInvalid }

// FromEnv returns a Config from TICKETING_ADDRS, TICKETING_TOKEN or TICKETING_TOKEN_FILE, TICKETING_NAME, and
// TICKETING_TLS_CA, TICKETING_TLS_INSECURE, TICKETING_TLS_CLIENT_CERT, TICKETING_TLS_CLIENT_KEY (any of them turns
// TLS on). Errors name the variable, never a secret, and wrap ErrInvalid.
func FromEnv() (Config, error) { return Config{}, ErrInvalid }

// WaitReady returns nil once a serving node is connected. It returns an error that wraps ErrAuth as soon as every
// address has refused the token or failed its own proof, ErrClosed after Close, and at the end of ctx one that wraps
// ctx.Err() and says of each address what stood in the way.
func (b *Broker) WaitReady(ctx context.Context) error { return ErrClosed }

// Acquire asks for key and returns the Ticket of its grant.
//
// It waits at most wait (0 to 1 h, 0: one immediate attempt) in the key's queue. The lease (1 s to 250 s) counts from
// the grant; there is no renewal.
func (b *Broker) Acquire(ctx context.Context, key string, wait, lease time.Duration) (*Ticket, error) {
	return nil, ErrClosed
}

// TryAcquire is Acquire with wait 0: it never queues.
func (b *Broker) TryAcquire(ctx context.Context, key string, lease time.Duration) (*Ticket, error) {
	return nil, ErrClosed
}

// Do acquires key, calls work while holding it, and releases it. The context that work gets ends with ctx, and with
// the lease.
func (b *Broker) Do(ctx context.Context, key string, wait, lease time.Duration, work func(ctx context.Context, t *Ticket) error) error {
	return ErrClosed
}

// Release gives back a grant that is known by its key, owner and token alone, such as one of another process.
// Its errors are those of Ticket.Release.
func (b *Broker) Release(ctx context.Context, key string, owner, token uint64) error { return ErrClosed }

// Stats returns a snapshot of what the Broker is doing and has done.
func (b *Broker) Stats() Stats { return Stats{} }

// Close ends the Broker: what is pending fails with ErrClosed (and ErrIndeterminate where it was sent), contexts of
// tickets end. No lock is released behind the holder's back. No goroutine is left when it returns. Close is
// idempotent and returns nil.
func (b *Broker) Close() error { return nil }

// Stats is a snapshot. The second group counts from New on.
type Stats struct {
	Connections int    // that are up, with a node that has proved itself
	Serving     int    // of these, with a node that serves
	Domain      string // hexadecimal; "" before the first connection
	Leader      string // address of the leader, where one is known
	Waiting     int    // acquires without an answer, abandoned ones included
	Releases    int    // releases and compensations without an answer

	Acquires      uint64
	Granted       uint64
	TimedOut      uint64
	Busy          uint64
	Indeterminate uint64
	Compensated   uint64 // grants that reached nobody and were given back
	Released      uint64
	Unconfirmed   uint64
	Dials         uint64
	DialFailures  uint64
	Redirects     uint64
	Unmatched     uint64 // replies that no request was waiting for
}
