package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	randv2 "math/rand/v2"
	"net"
	"sync"
	"time"
)

// Broker keeps the connections to the servers of one domain and takes locks over them. Make one with New and share
// it: it is safe for concurrent use by any number of goroutines.
type Broker struct {
	set *settings
	sys system

	calls   sync.Pool // of *call
	waiters sync.Pool // of *waiter
	watch   watch

	dialing context.Context // ends at Close
	stop    context.CancelFunc
	tasks   sync.WaitGroup // peers' and sessions' goroutines, and the keeper
	rearm   chan struct{}  // tells the keeper to set its timer anew; holds one value

	mu     sync.Mutex // guards what follows, and sessions, calls and releases; unlock with b.unlock
	ready  waiters    // to be woken when mu is free
	closed bool
	owner  uint64 // of the last acquire

	peers    []*peer
	sessions []*session // live, of one domain
	routes   []*session // of these, where acquires and releases go, in turn
	next     int        // in routes
	parked   []*call    // acquires for which no node serves yet, oldest first
	releases map[uint64]*release
	changed  chan struct{} // closed at a change that WaitReady looks at; nil while nobody looks

	domain     domain
	met        bool // a domain has been met: domain is set
	lastServed time.Duration
	unreleased unreleased
	leader     string // as the newest hint says; "" for unknown
	term       uint64 // of that hint
	hinted     time.Duration

	sweepAt time.Duration // when the keeper looks next
	stats   Stats         // its counters
}

// system is what a Broker takes from the system that it runs on. Tests replace it.
type system struct {
	clock       clock
	random      func() float64 // in [0, 1), for the jitter of redials
	nonces      io.Reader
	direct      func(net.Conn) directWrite // nil, or returning nil, where writes may block
	maxReleases int                        // releases under way at a time
	lends       bool                       // callers may read their replies themselves: see lend.go
}

func newSystem() system {
	return system{clock: newSystemClock(), random: randv2.Float64, nonces: rand.Reader, direct: newDirectWrite, maxReleases: 1 << 16, lends: true}
}

// New checks cfg and starts the connections in the background. It does not wait for the network: its errors are
// those of the configuration, all of them at once, and wrap ErrInvalid. Close ends what it starts.
func New(cfg Config) (*Broker, error) { return newBroker(cfg, newSystem()) }

func newBroker(cfg Config, sys system) (*Broker, error) {
	set, err := newSettings(cfg)
	if err != nil {
		return nil, err
	}
	b := &Broker{
		set: set, sys: sys,
		rearm:    make(chan struct{}, 1),
		releases: make(map[uint64]*release),
	}
	// Owners of different processes differ, so that people can tell them apart. They have no other meaning.
	var seed [8]byte
	if _, err := io.ReadFull(sys.nonces, seed[:]); err != nil {
		return nil, fmt.Errorf("draw the first owner: %w", err)
	}
	b.owner = binary.BigEndian.Uint64(seed[:])
	b.calls.New = func() any { return &call{waiter: newWaiter()} }
	b.waiters.New = func() any { w := newWaiter(); return &w }
	b.watch.clock = sys.clock
	b.dialing, b.stop = context.WithCancel(context.Background())

	b.mu.Lock()
	defer b.unlock()
	now := sys.clock.Now()
	b.sweepAt = now + sweepInterval
	b.tasks.Go(b.keep)
	for _, addr := range set.addrs {
		b.addPeer(addr, false)
	}
	if len(set.addrs) == 1 {
		b.addPeer(set.addrs[0], false)
	}
	return b, nil
}

// unlock ends a section that b.mu guards and wakes those whose answer it settled, each by a channel of its own.
func (b *Broker) unlock() {
	w := b.ready.take()
	b.mu.Unlock()
	for w != nil {
		next := w.next // once w is woken it belongs to somebody else
		w.next = nil
		w.wake <- struct{}{}
		w = next
	}
}

// Close ends the Broker: what is pending fails with ErrClosed (and ErrIndeterminate or ErrUnconfirmed where it was
// sent), and contexts of tickets end. No lock is released behind its holder's back. No goroutine is left when it
// returns. It is idempotent and returns nil.
func (b *Broker) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		b.stop()
		for _, s := range b.sessions {
			s.end(ErrClosed)
		}
		b.announce()
	}
	b.unlock()
	b.tasks.Wait()

	b.mu.Lock()
	for _, c := range b.parked {
		b.fail(c, resultClosed, nil)
	}
	b.parked = nil
	for _, r := range b.releases {
		b.settleRelease(r, fmt.Errorf("%w: %w", ErrUnconfirmed, ErrClosed))
	}
	b.unlock()
	b.watch.close()
	return nil
}

// announce wakes those who wait for a change of the connections. b.mu is held.
func (b *Broker) announce() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// WaitReady returns nil once a serving node is connected. It returns an error that wraps ErrAuth as soon as every
// address has refused the token or failed to prove itself, ErrClosed after Close, and at the end of ctx one that wraps
// ctx.Err() and says of each address what stands in the way.
func (b *Broker) WaitReady(ctx context.Context) error {
	began := b.sys.clock.Now()
	for {
		b.mu.Lock()
		obstacles := b.obstacles()
		ready, closed, hopeless := len(b.routes) > 0 && !b.twoDomains(), b.closed, b.refusedEverywhere()
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.unlock()
		switch {
		case closed:
			return fmt.Errorf("wait for a serving node: %w", ErrClosed)
		case ready:
			return nil
		case hopeless:
			return fmt.Errorf("wait for a serving node: %w", obstacles)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for a serving node: %w: %w", inWords(ctx.Err(), b.sys.clock.Now()-began), obstacles)
		}
	}
}

// Stats is a snapshot of a Broker. The second group counts from New on.
type Stats struct {
	Connections int    // with a node that has proved itself
	Serving     int    // of these, with a node that serves
	Domain      string // hexadecimal; "" before the first connection
	Leader      string // address that the newest hint names; "" for none
	Waiting     int    // acquires without an answer, also of callers that have gone
	Releases    int    // releases and compensations without an answer

	Acquires      uint64
	Granted       uint64
	TimedOut      uint64
	Busy          uint64
	Indeterminate uint64 // of which the caller was told so
	Lost          uint64 // of which nothing was heard any more: a grant was neither seen nor given back
	Compensated   uint64 // grants that reached nobody and were given back
	Released      uint64
	NotHeld       uint64
	Unconfirmed   uint64
	Dials         uint64
	DialFailures  uint64 // of the network, the handshake, and domains refused
	Redirects     uint64
	Unmatched     uint64 // replies that nobody waited for: late or repeated
}

// Stats returns what the Broker is doing and has done.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	defer b.unlock()
	s := b.stats
	s.Connections = len(b.sessions)
	s.Leader = b.leader
	s.Waiting = len(b.parked)
	s.Releases = len(b.releases)
	if b.met {
		s.Domain = b.domain.String()
	}
	for _, session := range b.sessions {
		s.Waiting += len(session.calls)
		if session.serving {
			s.Serving++
		}
	}
	return s
}
