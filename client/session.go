package client

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"ticketing.internal/wire"
)

const (
	pingAfter   = 5 * time.Second  // of sending nothing, or of reading nothing
	deadAfter   = 15 * time.Second // of reading nothing
	afterStall  = time.Second      // how long a session has to show a sign of life after this process itself stood still
	stallNotice = time.Second      // how late the keeper must be for that to be assumed
)

// session is one live connection to a node that has proved itself. The peer's goroutine reads it, or a caller that has
// borrowed the reading. Whoever set writing writes it: a caller, or the session's own writer goroutine.
type session struct {
	b        *Broker
	peer     *peer
	raw      net.Conn
	conn     net.Conn
	in       *inbox // owned by whoever reads
	direct   directWrite
	sealed   bool // over TLS: after a failed write it is not known how much the socket was handed
	role     wire.Role
	inFlight int // acquires that the server allows
	opened   time.Duration
	wake     chan struct{} // makes the writer goroutine write; holds one value, sent by whoever set writing
	over     chan struct{} // closed when the session ends
	back     chan error    // returns the reading to the reader; holds one value; nil: it is never lent
	lent     *time.Timer   // the reader's, while it is lent

	writers sync.WaitGroup // writes under way and the writer goroutine; the session is cleared after them

	// guarded by b.mu
	reason    error // why it ends; nil while it lives
	serving   bool
	redirects []redirect // taken in the batch being read

	calls        map[uint64]*call // acquires without an answer, by owner
	releasing    int              // releases that this session carries
	acquireQueue []*call          // of calls: not encoded yet, oldest first
	releaseQueue []queuedRelease
	control      []byte // encoded withdrawals and pings

	writing    bool          // somebody owns out
	writeBegan time.Duration // of a write that may block; 0: none
	out        []byte        // encoded
	written    int           // of out
	encoded    uint64        // bytes of the stream that were encoded
	handed     uint64        // bytes of the stream that the socket may have been handed
	key        []byte        // of the frame being encoded

	reading reading
	loans   uint64

	wrote, read time.Duration // last time
	pinged      time.Duration
	reprieve    time.Duration // the time before which the session is not judged dead
}

// newSession makes the session of a greeted connection. b.mu is held.
func newSession(p *peer, g *greeted, now time.Duration) *session {
	s := &session{
		b: p.b, peer: p, raw: g.raw, conn: g.conn, in: g.in,
		sealed: g.raw != g.conn, role: g.role, inFlight: g.inFlight, opened: now,
		serving: g.role == roleServing,
		wake:    make(chan struct{}, 1),
		over:    make(chan struct{}),
		calls:   make(map[uint64]*call),
		wrote:   now, read: now, pinged: now,
	}
	if !s.sealed && p.b.sys.direct != nil {
		s.direct = p.b.sys.direct(g.conn)
	}
	if s.direct != nil && p.b.sys.lends {
		s.back = make(chan error, 1)
		s.lent = time.NewTimer(lendTime)
	}
	s.writers.Add(1) // the writer goroutine
	return s
}

// end makes the session end, for the first reason given. Reader and writer notice that the connection is closed. b.mu is held.
func (s *session) end(reason error) {
	if s.reason == nil {
		s.reason = reason
	}
	s.raw.Close()
}

// serve reads the session to its end, and returns why it ended.
func (s *session) serve() error {
	err := s.takeReplies() // what came right behind the welcome
	for err == nil {
		if err = s.in.fill(); err == nil {
			err = s.takeReplies()
		}
		if err == nil {
			err = s.lend()
		}
	}
	return s.clear(err)
}

// takeReplies settles what the whole frames in the inbox answer, under one hold of b.mu and with one reading of the clock.
func (s *session) takeReplies() error {
	b := s.b
	now := b.sys.clock.Now()
	var err error
	var r wire.Reply
	b.mu.Lock()
	s.read = now
	for err == nil {
		var n int
		if n, err = wire.DecodeReply(s.in.bytes(), &r); n == 0 {
			break
		}
		s.in.consume(n)
		err = s.take(&r, now)
	}
	redirects := s.redirects
	s.redirects = nil
	b.unlock()

	for _, m := range redirects {
		b.set.log.Info("the leader moved", "from", m.from, "leader", m.leader, "term", m.term)
		if h := b.set.hooks.Redirect; h != nil {
			h(m.from, m.leader, m.term)
		}
	}
	if err != nil {
		return fmt.Errorf("read a reply: %w", err)
	}
	return nil
}

// take handles one reply. An error ends the session: the stream cannot be trusted. b.mu is held.
func (s *session) take(r *wire.Reply, now time.Duration) error {
	switch r.Op {
	case wire.OpGranted, wire.OpTimeout:
		if c := s.calls[r.Owner]; c != nil && !c.queued {
			return s.answer(c, r, now)
		}
		s.b.stats.Unmatched++
	case wire.OpReleased, wire.OpNotHeld:
		if r.Token != 0 { // 0: a withdrawal, whose acquire is answered by itself
			s.b.releaseAnswered(r, now)
		}
	case wire.OpBusy, wire.OpError:
		if c := s.calls[r.Owner]; c != nil && !c.queued {
			return s.answer(c, r, now)
		}
		if r.Owner == 0 {
			return fmt.Errorf("the server says: %w (%q)", wire.Failure(r.Code), r.Text)
		}
		s.releaseRefused(r, now)
	case wire.OpMoved:
		leader := string(r.Text)
		if s.b.moved(s, leader, r.Token, now) {
			s.redirects = append(s.redirects, redirect{s.peer.addr, leader, r.Token})
		}
	case wire.OpPong:
	}
	return nil
}

// clear ends the session for good. Requests that were not handed to the socket go elsewhere; callers of those that were are
// told that the outcome is unknown.
func (s *session) clear(err error) error {
	b := s.b
	b.mu.Lock()
	s.end(err)
	b.sessions = slices.DeleteFunc(b.sessions, func(other *session) bool { return other == s })
	s.peer.session = nil
	s.peer.err = fmt.Errorf("connection to %s ended: %w", s.peer.addr, s.reason)
	b.reroute(b.sys.clock.Now())
	close(s.over)
	b.unlock()
	s.writers.Wait() // now s.handed is final

	b.mu.Lock()
	defer b.unlock()
	now := b.sys.clock.Now()
	var unsent []*call
	for _, c := range s.calls {
		switch sent := !c.queued && c.pos < s.handed; {
		case sent:
			b.stats.Lost++
			b.fail(c, resultIndeterminate, s.peer.err)
		case c.abandoned:
			b.recycle(c)
		default:
			unsent = append(unsent, c)
		}
	}
	s.calls = nil
	slices.SortFunc(unsent, func(a, b *call) int { return cmp.Compare(a.owner, b.owner) }) // as they were asked for
	for _, c := range unsent {
		b.place(c, now)
	}
	b.moveReleases(s, now)
	return s.reason
}
