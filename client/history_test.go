package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// lockServer is a deliberately dumb lock server in memory, with a history of what it did. Its connections die at random
// bytes, its replies come late or not at all, and it says B and E when it likes.
type lockServer struct {
	w      *world
	random func(n int) int
	faults bool

	mu       sync.Mutex
	token    uint64
	held     map[string]*lockGrant
	queues   map[string][]*lockWaiter
	received map[string]int // whole acquires, by key
	granted  map[string][]uint64
	released map[uint64]int
	said     map[string][]wire.Op // replies to acquires, sent or not
}

type lockGrant struct {
	owner, token uint64
	end          *time.Timer
}

type lockWaiter struct {
	r       *remote
	q       wire.Request
	since   time.Duration
	timeout *time.Timer
}

func newLockServer(w *world, random func(int) int, faults bool) *lockServer {
	return &lockServer{
		w: w, random: random, faults: faults,
		held: map[string]*lockGrant{}, queues: map[string][]*lockWaiter{},
		received: map[string]int{}, granted: map[string][]uint64{}, released: map[uint64]int{}, said: map[string][]wire.Op{},
	}
}

// serve takes connections of h until the world ends.
func (s *lockServer) serve(h *host, ctx context.Context) {
	for {
		select {
		case r := <-h.conns:
			if s.faults {
				if s.random(3) == 0 {
					r.cutRequestsAfter(s.random(3000))
				}
				if s.random(3) == 0 {
					r.cutRepliesAfter(s.random(3000))
				}
			}
			s.w.calls.Go(func() { s.session(r) })
		case <-ctx.Done():
			return
		}
	}
}

func (s *lockServer) session(r *remote) {
	for {
		q, err := r.receive()
		if err != nil {
			break
		}
		s.mu.Lock()
		switch {
		case q.Op == wire.OpAcquire:
			s.acquire(r, q)
		case q.Token == 0:
			s.withdraw(r, q)
		default:
			s.release(r, q)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, queue := range s.queues {
		kept := queue[:0]
		for _, waiter := range queue {
			if waiter.r != r {
				kept = append(kept, waiter)
			} else {
				waiter.timeout.Stop()
			}
		}
		s.queues[key] = kept
	}
	r.conn.Close()
}

// reply sends after a while, or never.
func (s *lockServer) reply(r *remote, reply wire.Reply) {
	b := wire.AppendReply(nil, &reply)
	if !s.faults || s.random(4) > 0 {
		r.conn.Write(b)
		return
	}
	if s.random(20) == 0 {
		return
	}
	time.AfterFunc(time.Duration(s.random(3000))*time.Millisecond, func() { r.conn.Write(b) })
}

func (s *lockServer) say(r *remote, q wire.Request, reply wire.Reply) {
	reply.Owner = q.Owner
	s.said[string(q.Key)] = append(s.said[string(q.Key)], reply.Op)
	s.reply(r, reply)
}

func (s *lockServer) acquire(r *remote, q wire.Request) {
	key := string(q.Key)
	s.received[key]++
	if s.faults && s.random(20) == 0 {
		s.say(r, q, wire.Reply{Op: wire.OpBusy, Code: uint16(wire.BusyOverloaded)})
		return
	}
	if s.held[key] == nil && len(s.queues[key]) == 0 {
		s.grant(r, q, s.w.clock.Now())
		if s.faults && s.random(20) == 0 {
			s.say(r, q, wire.Reply{Op: wire.OpError, Code: uint16(wire.Indeterminate)})
		}
		return
	}
	if q.Wait == 0 {
		s.say(r, q, wire.Reply{Op: wire.OpTimeout})
		return
	}
	waiter := &lockWaiter{r: r, q: q, since: s.w.clock.Now()}
	waiter.timeout = time.AfterFunc(time.Duration(q.Wait)*time.Millisecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.leave(key, waiter) {
			s.say(r, q, wire.Reply{Op: wire.OpTimeout})
		}
	})
	s.queues[key] = append(s.queues[key], waiter)
}

func (s *lockServer) leave(key string, waiter *lockWaiter) bool {
	for i, other := range s.queues[key] {
		if other == waiter {
			s.queues[key] = append(s.queues[key][:i:i], s.queues[key][i+1:]...)
			return true
		}
	}
	return false
}

func (s *lockServer) grant(r *remote, q wire.Request, since time.Duration) {
	key := string(q.Key)
	s.token++
	g := &lockGrant{owner: q.Owner, token: s.token}
	g.end = time.AfterFunc(time.Duration(q.Lease)*time.Millisecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[key] == g {
			s.free(key)
		}
	})
	s.held[key] = g
	s.granted[key] = append(s.granted[key], g.token)
	s.say(r, q, wire.Reply{Op: wire.OpGranted, Token: g.token, Millis: uint32((s.w.clock.Now() - since) / time.Millisecond)})
}

func (s *lockServer) free(key string) {
	s.held[key].end.Stop()
	delete(s.held, key)
	if queue := s.queues[key]; len(queue) > 0 {
		s.queues[key] = queue[1:]
		queue[0].timeout.Stop()
		s.grant(queue[0].r, queue[0].q, queue[0].since)
	}
}

func (s *lockServer) withdraw(r *remote, q wire.Request) {
	for _, waiter := range s.queues[string(q.Key)] {
		if waiter.r == r && waiter.q.Owner == q.Owner {
			waiter.timeout.Stop()
			s.leave(string(q.Key), waiter)
			s.say(r, q, wire.Reply{Op: wire.OpTimeout})
			s.reply(r, wire.Reply{Op: wire.OpReleased, Owner: q.Owner})
			return
		}
	}
	s.reply(r, wire.Reply{Op: wire.OpNotHeld, Owner: q.Owner})
}

func (s *lockServer) release(r *remote, q wire.Request) {
	if s.faults && s.random(10) == 0 {
		s.reply(r, wire.Reply{Op: wire.OpBusy, Owner: q.Owner, Code: uint16(wire.BusyNoLeader)})
		return
	}
	op := wire.OpNotHeld
	if g := s.held[string(q.Key)]; g != nil && g.owner == q.Owner && g.token == q.Token {
		s.released[q.Token]++
		s.free(string(q.Key))
		op = wire.OpReleased
	}
	s.reply(r, wire.Reply{Op: op, Owner: q.Owner, Token: q.Token})
}

// seeds is how many schedules the tests below try; a failing one is tried again with TICKETING_TEST_SEED.
func seeds(t *testing.T, n uint64, test func(w *world, random func(int) int)) {
	first := uint64(0)
	if s := os.Getenv("TICKETING_TEST_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = seed, 1
	}
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		inWorld(t, func(w *world) {
			source := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			test(w, func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return source.IntN(n)
			})
		})
		if t.Failed() {
			t.Logf("TICKETING_TEST_SEED=%d", seed)
		}
	}
}

// Whatever goes wrong on the way, what the caller is told is what the server did. Each acquire has a key of its own,
// by which the two histories are compared.
func TestOutcomesAgreeWithTheServer(t *testing.T) {
	seeds(t, 60, func(w *world, random func(int) int) {
		hosts := []*host{w.host("a:1"), w.host("b:1")}
		b := w.openWith(Config{Addrs: []string{"a:1", "b:1"}}, func(s *system) { s.lends = random(2) == 0 })
		s := newLockServer(w, random, true)
		over, stop := context.WithCancel(w.Context())
		for _, h := range hosts {
			w.calls.Go(func() { s.serve(h, over) })
		}
		type told struct {
			key     string
			ticket  *Ticket
			err     error
			release error
		}
		outcomes := make(chan told, 1000)
		var workers sync.WaitGroup
		for i := range 20 {
			workers.Go(func() {
				for j := range 10 {
					key := fmt.Sprintf("key-%d-%d", i, j)
					ctx, cancel := context.WithTimeout(w.Context(), time.Duration(1+random(8000))*time.Millisecond)
					o := told{key: key}
					o.ticket, o.err = b.Acquire(ctx, key, time.Duration(random(3))*time.Second, time.Duration(1+random(5))*time.Second)
					cancel()
					if o.ticket != nil {
						<-time.After(time.Duration(random(1500)) * time.Millisecond)
						o.release = o.ticket.Release(w.Context())
					}
					outcomes <- o
				}
			})
		}
		workers.Wait()
		w.pass(20 * time.Second) // compensations too
		stats := b.Stats()
		stop()
		b.Close()
		close(outcomes)

		s.mu.Lock()
		defer s.mu.Unlock()
		for o := range outcomes {
			said := string(bytes.ToUpper(fmt.Append(nil, s.said[o.key])))
			tell := func(what string) {
				w.Errorf("%s: %s; the caller got %v, %v, the server received %d, granted %v, said %s",
					o.key, what, o.ticket, o.err, s.received[o.key], s.granted[o.key], said)
			}
			if s.received[o.key] > 1 {
				tell("sent twice")
			}
			granted := len(s.granted[o.key]) > 0
			switch {
			case o.ticket != nil && o.err != nil, o.ticket == nil && o.err == nil:
				tell("both or neither")
			case o.ticket != nil:
				if !granted || s.granted[o.key][0] != o.ticket.Token() {
					tell("a ticket without its grant")
				}
				if o.release == nil && s.released[o.ticket.Token()] != 1 {
					tell("released, it is said")
				}
			case errors.Is(o.err, ErrIndeterminate): // whatever the server did
			case errors.Is(o.err, ErrTimeout), errors.Is(o.err, ErrBusy), errors.Is(o.err, context.DeadlineExceeded):
				if granted {
					tell("a definite no, and yet granted")
				}
				if !errors.Is(o.err, ErrTimeout) && !errors.Is(o.err, wire.BusyOverloaded) && s.received[o.key] != 0 {
					tell("not sent, it is said")
				}
			default:
				tell("an outcome of no kind")
			}
		}
		for token, n := range s.released {
			if n != 1 {
				w.Errorf("token %d was released %d times", token, n)
			}
		}
		if stats.Releases != 0 {
			w.Errorf("releases are left: %+v", stats)
		}
	})
}

// Two callers are never in the critical section of one key, from the return of Acquire to the end of the Context.
func TestMutualExclusion(t *testing.T) {
	seeds(t, 40, func(w *world, random func(int) int) {
		h := w.host("a:1")
		b := w.openWith(Config{Addrs: []string{"a:1"}}, func(s *system) { s.lends = random(2) == 0 })
		s := newLockServer(w, random, true)
		over, stop := context.WithCancel(w.Context())
		w.calls.Go(func() { s.serve(h, over) })
		var mu sync.Mutex
		inside := map[string]int{}
		last := map[string]uint64{}
		entered := 0
		var workers sync.WaitGroup
		for range 12 {
			workers.Go(func() {
				for range 10 {
					key := fmt.Sprint("key-", random(2))
					ticket, err := b.Acquire(w.Context(), key, 4*time.Second, time.Duration(1000+random(1000))*time.Millisecond)
					if err != nil {
						continue
					}
					mu.Lock()
					inside[key]++
					entered++
					if inside[key] != 1 || ticket.Token() <= last[key] {
						w.Errorf("%d are in the section of %s; token %d came after %d", inside[key], key, ticket.Token(), last[key])
					}
					last[key] = ticket.Token()
					mu.Unlock()
					select {
					case <-time.After(time.Duration(random(1500)) * time.Millisecond):
					case <-ticket.Context().Done():
					}
					mu.Lock()
					inside[key]--
					mu.Unlock()
					if random(5) > 0 {
						ticket.Release(w.Context())
					}
				}
			})
		}
		workers.Wait()
		stop()
		if entered < 20 {
			w.Errorf("only %d entered", entered)
		}
	})
}
