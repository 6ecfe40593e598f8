package server

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// never is a deadline that does not come.
const never = int64(1<<63 - 1)

// engine owns the lock manager. Shards enter it with whole batches: everything that a loop has read is decided while the lock is
// held once, and the results leave as bytes in outboxes or as mail to other shards.
type engine struct {
	mu sync.Mutex

	// Guarded by mu.
	clock      *clock
	manager    *lock.Manager
	authority  authority
	leadership leadership
	sessions   []*conn // by lock.Session
	current    *shard  // the shard whose batch is being decided
	now        lock.Time
	waking     []*shard // shards that got mail in this batch
	nextChore  int64    // mono ns
	draining   bool
	drained    chan struct{} // closed once the server drains and no connected client holds a key; nil while it serves
	nextTick   int64         // mono ns at which a loop will come round for the manager's timers
	due        int64         // mono ns before which the manager has nothing to do of its own accord
	holdTick   int64         // mono ns before which no timer is judged: after a stall, what has arrived is read first

	request  wire.Request  // scratch of the request path
	owners   *rand.ChaCha8 // of v0 acquires
	legacy   legacyRoom
	counters counters

	// Immutable.
	timekeeper *shard     // the loop to wake when a stream sets a timer nearer than nextTick; nil where there are no loops
	peerReader peerReader // carries the connections of other nodes; nil: goroutines do
	welcomer   welcomer
	events     *events
	notifier   *notifier

	progress atomic.Int64           // mono ns of the last time that the engine was left
	unready  atomic.Pointer[string] // why acquires are refused; empty if they are not
}

const (
	// stallGap is how late, in ns, whoever keeps the time must come round for the process to count as having stalled.
	stallGap = 100 * int64(time.Millisecond)
	// stallGrace is how long after a stall no timer is judged, in ns, so that every loop and stream reads first.
	stallGrace = 50 * int64(time.Millisecond)
)

// choreInterval is how often tick does the server's periodic chores.
const choreInterval = 500 * time.Millisecond

// tickBudget is how many due timers one batch decides at most, so that a mass expiry does not keep clients waiting.
const tickBudget = 1024

// enter takes the engine for one batch of s.
func (e *engine) enter(s *shard, now lock.Time) {
	e.mu.Lock()
	e.current, e.now = s, now
}

// leave ends the batch: leases granted in it start now, and shards that got mail are woken.
// It returns when the next timer of the manager is due, and the time.
func (e *engine) leave() (deadline, now int64) {
	e.authority.decide(e.now)
	after := e.now
	if e.manager.Starting() {
		after = e.clock.now()
	}
	e.manager.EndBatch(after)
	if err := e.authority.vouch(e.now.Mono, after.Mono); err != nil {
		e.withhold(after)
	}
	if e.drained != nil && e.manager.HeldByOpenSessions() == 0 {
		close(e.drained)
		e.drained = nil
	}
	e.due = e.manager.NextDeadline()
	deadline = max(min(e.due, e.authority.deadline()), e.holdTick)
	if e.current.keepsTime {
		e.nextTick = deadline
	} else if deadline < e.nextTick && e.timekeeper != nil {
		e.nextTick = deadline
		e.summon(e.timekeeper)
	}
	e.progress.Store(after.Mono)
	e.current = nil
	var few [4]*shard
	woken := append(few[:0], e.waking...)
	e.waking = e.waking[:0]
	e.mu.Unlock()
	for _, s := range woken {
		s.wake()
	}
	e.authority.afterBatch()
	return deadline, after.Mono
}

// withhold keeps the grants of this batch from being sent: their leases could outlive what the state file says, and it cannot be
// written. Their connections are reset, which takes the grants back.
func (e *engine) withhold(now lock.Time) {
	for _, c := range e.current.dirty {
		if c.out != nil && len(c.out.undelivered()) > 0 {
			c.doomed = true
		}
	}
	for _, s := range e.waking {
		for i := range s.mail {
			if m := &s.mail[i]; m.kind == mailReply && m.reply.Op == wire.OpGranted {
				e.manager.TakeBack(now, m.reply.Ref, m.reply.Token)
				m.kind = mailEvict
			}
		}
	}
}

// batch enters the engine for f.
func (e *engine) batch(s *shard, f func(now lock.Time)) {
	now := e.clock.now()
	e.enter(s, now)
	f(now)
	e.leave()
}

// tick judges the timers that are due, and does the server's chores. It reports whether more timers are due than one batch should
// decide.
func (e *engine) tick(now lock.Time) (more bool) {
	if now.Mono >= e.nextChore {
		e.nextChore = now.Mono + int64(choreInterval)
		e.clock.refresh()
		e.events.flush(now.Mono)
		e.notifier.alive(now.Mono)
		e.noteReadiness(now.Mono)
	}
	if now.Mono < e.holdTick || now.Mono < e.due {
		return false
	}
	return e.manager.Tick(now, tickBudget)
}

// noteReadiness publishes whether acquires are served, for readers that do not take the engine's lock. It logs when that changes, and
// when an election has become the lack of a leader.
func (e *engine) noteReadiness(now int64) {
	why := e.authority.unready(now)
	if e.draining {
		why = "shutting down"
	}
	last := e.unready.Load()
	if last != nil && *last == why {
		return
	}
	e.unready.Store(&why)
	if last != nil && ((why == "") != (*last == "") || why == leaderlessText) {
		e.events.readiness(why)
	}
}

// open makes a session of c, which has just proved the token.
func (e *engine) open(c *conn, name string) {
	c.session = e.manager.OpenSession(lock.Client{Name: name, Addr: c.remote.String()})
	for int(c.session) >= len(e.sessions) {
		e.sessions = append(e.sessions, nil)
	}
	e.sessions[c.session] = c
	c.state = stateOpen
}

// closeSession ends c's session, if it has one: its waiters leave their queues.
func (e *engine) closeSession(now lock.Time, c *conn) {
	if c.session == 0 {
		return
	}
	if c.legacy != nil {
		c.legacy.end()
	}
	e.sessions[c.session] = nil
	e.manager.CloseSession(now, c.session)
	c.session = 0
}

// takeBack releases every grant whose reply to c was not sent completely. It reports whether there was one: then the connection
// must be reset.
func (e *engine) takeBack(now lock.Time, c *conn) bool {
	if c.out == nil {
		return false
	}
	grants := c.out.undelivered()
	for _, g := range grants {
		e.manager.TakeBack(now, g.ref, g.token)
	}
	return len(grants) > 0
}

// Reply implements lock.Sink: the manager has decided something for a session.
func (e *engine) Reply(s lock.Session, r *lock.Reply) {
	c := e.sessions[s]
	if c.shard == e.current {
		c.answer(e, r)
		return
	}
	m := mail{to: c, reply: *r}
	m.reply.Key = nil
	e.post(m)
}

// ForeignRelease implements lock.Sink: a key was given back from another host than it was granted to.
func (e *engine) ForeignRelease(s lock.Session, key []byte, owner, token uint64, grantedTo lock.Client) {
	e.events.foreignRelease(key, owner, token, grantedTo, e.sessions[s].remote)
}

// post puts m into the mail of its connection's shard, which is woken when the batch ends.
func (e *engine) post(m mail) {
	m.to.shard.mail = append(m.to.shard.mail, m)
	e.summon(m.to.shard)
}

// summon wakes s when the batch ends.
func (e *engine) summon(s *shard) {
	if !s.waking {
		s.waking = true
		e.waking = append(e.waking, s)
	}
}

// send posts m from outside of a batch.
func (e *engine) send(m mail) { e.sendTo(m.to.shard, m) }

func (e *engine) sendTo(s *shard, m mail) {
	e.mu.Lock()
	s.mail = append(s.mail, m)
	wake := !s.waking
	s.waking = true
	e.mu.Unlock()
	if wake {
		s.wake()
	}
}

// collect works off the mail of s in order: it carries out what needs only the engine, and hands the rest to take. Called inside a
// batch of s.
func (e *engine) collect(now lock.Time, s *shard, take func(lock.Time, *mail)) {
	for i := 0; i < len(s.mail); i++ { // a message can bring about another one
		m := s.mail[i]
		if m.kind == mailReply && m.to.state != stateOpen {
			// The connection ended while its reply was under way. A grant among such replies reached nobody.
			if m.reply.Op == wire.OpGranted {
				e.manager.TakeBack(now, m.reply.Ref, m.reply.Token)
			}
			continue
		}
		switch m.kind {
		case mailMoved:
			m.to.moved(e)
		case mailTakeBack:
			e.manager.TakeBack(now, m.reply.Ref, m.reply.Token)
		case mailCall:
			m.call()
		default:
			take(now, &m)
		}
	}
	clear(s.mail)
	s.mail = s.mail[:0]
	s.waking = false
}
