package server

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ticketing.internal/lock"
)

// carrier is what an event loop keeps of a connection beside its protocol.
type carrier struct {
	links    [linkSets]link
	partial  []byte // the beginning of a frame whose rest has not arrived
	fd       int
	interest uint32
	heard    int64   // mono ns of the last read
	paused   bool    // the peer does not take its replies: nothing is read until it does
	stream   *stream // nil on a connection of a loop
}

const (
	// idleChecks is how often within the idle time-out a connection is checked for silence: noting the time of each read and
	// checking now and then costs less than moving the connection within a list at each read.
	idleChecks = 16
	// turnConnections is how many connections are read before their replies are written. With more, the first of them would wait
	// for replies that it could already be working on.
	turnConnections = 8
	readSize        = 64 << 10 // bytes read from a connection at a time
	arenaSize       = 4 * readSize
	// stallReadLimit is how long after a stall a loop reads without judging its timers at most, in ns. Sockets hold no more than
	// can be read in that time.
	stallReadLimit = 300 * int64(time.Millisecond)
	// longestSleep bounds a wait, so that /livez can tell an idle loop from one that is stuck, and chores get done.
	longestSleep = 500 * int64(time.Millisecond)
)

// loop is an event loop: one goroutine that serves many plaintext connections, each batch run to completion
// (read, decide, write) without handing anything to another goroutine.
type loop struct {
	shard
	*poller
	engine    *engine
	admission *admission

	// Owned by the loop.
	conns     []*conn     // by descriptor
	peers     []*loopPeer // connections of other nodes
	heard     []*loopPeer // those of them that have sent something or ended in this turn
	arena     []byte
	batch     []input
	ended     []*conn // connections whose peer has finished or failed
	now       int64   // mono ns of the present turn
	leftAt    int64   // mono ns at which the engine was left last
	planned   int64   // mono ns by which the loop means to come round
	brisk     bool    // the last wait returned events
	stalled   bool    // the loop came round late: timers wait until what had arrived is read
	stallOver int64   // mono ns at which they wait no longer

	handshakes, denied, idle, lingering fifo  // of waitRead
	quiet, slow                         fifo  // of waitWrite
	due                                 int64 // mono ns before which none of them has anything to do
	idleTimeout                         int64 // ns after which a v1 connection has been silent for too long

	stopping atomic.Bool
	done     chan struct{}
}

// input is what one connection sent.
type input struct {
	c     *conn
	data  []byte
	ended bool // nothing follows
}

func newLoop(e *engine, a *admission, idleTimeout time.Duration) (*loop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{
		poller: p, engine: e, admission: a, arena: make([]byte, arenaSize), done: make(chan struct{}),
		handshakes:  fifo{kind: waitRead, limit: int64(handshakeLimit)},
		denied:      fifo{kind: waitRead, limit: int64(denialDelay)},
		idle:        fifo{kind: waitRead, limit: int64(idleTimeout) / idleChecks},
		lingering:   fifo{kind: waitRead, limit: int64(lingerLimit)},
		idleTimeout: int64(idleTimeout),
		quiet:       fifo{kind: waitWrite, limit: int64(legacyKeepAlive)},
		slow:        fifo{kind: waitWrite, limit: int64(slowReaderLimit)},
	}
	l.shard.wake, l.shard.keepsTime = p.wake, true
	return l, nil
}

// run serves until stop, then closes every connection that is left. The poller stays open until transport.close: connections of
// other nodes may still wake the loop, and that must not write to a descriptor that has been reused.
func (l *loop) run() {
	defer close(l.done)
	l.turnEnded(l.engine.clock.mono())
	deadline, more := int64(0), false
	for !l.stopping.Load() {
		events := l.next(deadline, more)
		idle := len(events) == 0
		l.brisk = !idle
		for {
			events = l.read(events)
			deadline, more = l.decide(idle)
			l.flush()
			if len(events) == 0 {
				break
			}
		}
	}
	l.closeAll()
}

// stop ends run and waits for it.
func (l *loop) stop() {
	l.stopping.Store(true)
	l.poller.wake()
	<-l.done
}

// next returns the events that are ready, waiting for some until deadline, or not at all if more is to be done at once. After a
// turn with events the next request is likely to follow soon, so the first wait is a brief one.
func (l *loop) next(deadline int64, more bool) []unix.EpollEvent {
	if more {
		return l.poll()
	}
	sleep := min(deadline, l.due, l.leftAt+longestSleep) - l.leftAt
	if sleep <= 0 {
		return l.poll()
	}
	l.planned = l.leftAt + sleep
	if l.brisk && sleep > briefMillis*int64(time.Millisecond) {
		if events := l.waitBriefly(); len(events) > 0 {
			return events
		}
	}
	return l.wait(int((sleep + int64(time.Millisecond) - 1) / int64(time.Millisecond)))
}

// turnEnded notes when the engine was left. The next wait, and stalls, are counted from then.
func (l *loop) turnEnded(now int64) {
	l.leftAt, l.planned = now, now
}

// noticeStall holds timers back when the loop was stopped or starved: what arrived meanwhile is read before leases, waits and
// silence are judged (docs/semantics.md, promise 12). They are judged again once nothing is left to read, or after stallReadLimit, for a busy
// loop may have something to read for ever. Called inside a batch; idle says that nothing was left to read.
func (l *loop) noticeStall(now int64, idle bool) {
	switch {
	case l.stalled:
		l.stalled = !idle && now < l.stallOver
	case now > l.planned+stallGap:
		l.stalled, l.stallOver = true, now+stallReadLimit
		l.engine.holdTick = max(l.engine.holdTick, now+stallGrace)
	}
}

// ownDeadline is when the first of the loop's own limits is over.
func (l *loop) ownDeadline() int64 {
	return min(l.handshakes.deadline(), l.denied.deadline(), l.idle.deadline(), l.lingering.deadline(),
		l.quiet.deadline(), l.slow.deadline())
}

// read reads from the next few ready connections into the arena, and returns the events that are left.
func (l *loop) read(events []unix.EpollEvent) (left []unix.EpollEvent) {
	l.batch = l.batch[:0]
	at := 0
	for i := range events {
		if arenaSize-at < readSize || len(l.batch) == turnConnections {
			return events[i:]
		}
		ev := &events[i]
		if int(ev.Fd) == l.event {
			l.drain()
			continue
		}
		c := l.connection(ev.Fd)
		if c == nil {
			l.servePeer(ev)
			continue
		}
		if ev.Events&unix.EPOLLOUT != 0 {
			l.dirty = append(l.dirty, c)
		}
		if ev.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
			continue
		}
		at += l.readFrom(c, at)
	}
	return nil
}

// connection returns the client's connection of a descriptor, nil if there is none.
func (l *loop) connection(fd int32) *conn {
	if int(fd) >= len(l.conns) {
		return nil
	}
	return l.conns[fd]
}

// readFrom reads once from c into the arena and returns how much of the arena it used.
func (l *loop) readFrom(c *conn, at int) (used int) {
	held := copy(l.arena[at:], c.partial)
	n, errno := readNow(c.fd, l.arena[at+held:at+readSize])
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0
	case errno != 0 || n == 0:
		c.doomed = c.doomed || errno != 0
		l.batch = append(l.batch, input{c: c, ended: true})
		return 0
	}
	l.batch = append(l.batch, input{c: c, data: l.arena[at : at+held+n]})
	// The next connection's input starts on a cache line of its own.
	return (held + n + 63) &^ 63
}

// decide enters the engine for everything that was read, for mail, and for timers. idle says that there was nothing to read.
func (l *loop) decide(idle bool) (deadline int64, more bool) {
	e := l.engine
	now := e.clock.now()
	l.now = now.Mono
	e.enter(&l.shard, now)
	l.noticeStall(now.Mono, idle)
	e.collect(now, &l.shard, l.take)
	for _, p := range l.heard {
		p.decide(now)
	}
	for i := range l.batch {
		l.consume(now, &l.batch[i])
	}
	if !l.stalled {
		l.judgeLimits(now)
		more = e.tick(now)
	}
	deadline, left := e.leave()
	l.turnEnded(left)
	l.finishPeers()
	return deadline, more
}

// consume decides one connection's input.
func (l *loop) consume(now lock.Time, in *input) {
	c, e := in.c, l.engine
	if c.state == stateClosed {
		return
	}
	before := c.state
	c.heard = now.Mono
	rest := e.consume(now, c, in.data)
	if len(rest) > 0 || len(c.partial) > 0 {
		c.partial = append(c.partial[:0], rest...)
	}
	if in.ended {
		e.closeSession(now, c)
		l.ended = append(l.ended, c)
		return
	}
	l.watch(c, before)
}

// watch moves c to the time limit of its state.
func (l *loop) watch(c *conn, before connState) {
	if c.state == before {
		return
	}
	switch {
	case c.state == stateDenied:
		l.arm(&l.denied, c)
		l.setInterest(c, 0)
	case c.state == stateOpen && c.legacy == nil:
		l.arm(&l.idle, c)
	case c.state == stateOpen:
		c.leave(waitRead)
		l.arm(&l.quiet, c)
	}
	if before == stateHandshake && c.state == stateOpen {
		c.partial = nil
		l.admission.proved(c)
	}
}

// arm puts c under the time limit of f, from now on.
func (l *loop) arm(f *fifo, c *conn) {
	f.push(c, l.now)
	l.due = min(l.due, l.now+f.limit)
}

// judgeLimits deals with the connections whose time limit is over.
func (l *loop) judgeLimits(now lock.Time) {
	if now.Mono < l.due {
		return
	}
	for c := l.idle.due(now.Mono); c != nil; c = l.idle.due(now.Mono) {
		if now.Mono-c.heard < l.idleTimeout {
			l.idle.push(c, now.Mono)
			continue
		}
		l.giveUp(now, &l.idle, c)
	}
	for _, f := range []*fifo{&l.handshakes, &l.lingering, &l.slow} {
		for c := f.due(now.Mono); c != nil; c = f.due(now.Mono) {
			l.giveUp(now, f, c)
		}
	}
	for c := l.denied.due(now.Mono); c != nil; c = l.denied.due(now.Mono) {
		l.denied.remove(c)
		c.tellDenied()
	}
	for c := l.quiet.due(now.Mono); c != nil; c = l.quiet.due(now.Mono) {
		o := c.box()
		o.bytes = append(o.bytes, '\n')
		l.quiet.push(c, now.Mono)
	}
	l.due = l.ownDeadline()
}

// giveUp ends c, whose time limit in f is over.
func (l *loop) giveUp(now lock.Time, f *fifo, c *conn) {
	if f == &l.slow {
		l.engine.counters.slowReadersClosed++
		l.engine.events.slowReader(c.remote)
		c.doomed = true
	}
	f.remove(c)
	l.engine.closeSession(now, c)
	l.ended = append(l.ended, c)
}

// take carries out one message of the loop's mail.
func (l *loop) take(now lock.Time, m *mail) {
	c := m.to
	switch m.kind {
	case mailReply:
		c.answer(l.engine, &m.reply)
	case mailAdopt:
		l.adopt(c)
	case mailEvict, mailEvictUnproved, mailClose:
		c.doomed = c.doomed || m.kind == mailEvict || m.kind == mailEvictUnproved && c.unproved()
		if c.state != stateClosed && (m.kind != mailEvictUnproved || c.doomed) {
			l.engine.closeSession(now, c)
			l.ended = append(l.ended, c)
		}
	}
}

// adopt takes a connection that was just accepted, and greets it.
func (l *loop) adopt(c *conn) {
	for c.fd >= len(l.conns) {
		l.conns = append(l.conns, make([]*conn, max(64, len(l.conns)))...)
	}
	c.interest = unix.EPOLLIN
	if err := l.add(c.fd, c.interest); err != nil {
		unix.Close(c.fd)
		c.state = stateClosed
		l.admission.remove(c)
		return
	}
	l.conns[c.fd] = c
	l.arm(&l.handshakes, c)
	c.greet(nil, true)
}

// setInterest changes what c's descriptor is watched for.
func (l *loop) setInterest(c *conn, interest uint32) {
	if c.interest != interest {
		c.interest = interest
		l.set(c.fd, interest)
	}
}
