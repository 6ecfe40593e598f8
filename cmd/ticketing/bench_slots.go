package main

import (
	"encoding/binary"
	"fmt"
	"math"

	"ticketing.internal/wire"
)

// slot is one request in flight. It acquires its key and gives it back, in turn.
type slot struct {
	owner     uint64 // generation << 32 | index + 1, so that no reply of an earlier generation fits
	token     uint64 // of the grant that is being released
	sentAt    int64  // ns
	key       uint32
	releasing bool
}

// script is what slots do.
type script struct {
	hold  bool // grants are kept: each is followed by the acquire of another key
	sweep bool // each key once, then the slot is idle; else a slot keeps its key and goes on until the end
}

// tally counts replies.
type tally struct {
	granted, released, timedOut, notHeld uint64
	busy                                 [16]uint64 // by wire.Busy
	failed                               [16]uint64 // by wire.Failure
}

// requests returns how many requests did what they were to do.
func (t *tally) requests() uint64 { return t.granted + t.released }

// meter is what a loop measures. One goroutine uses it.
type meter struct {
	count    tally
	latency  histogram
	inFlight int  // requests that are not answered
	stopping bool // no new acquires
}

// load is what the connections of one loop share. One goroutine uses it.
type load struct {
	meter
	script    script
	acquireHi uint64 // first 8 bytes of an acquire: op, key length, wait
	releaseHi uint64
	leaseWord uint64 // last 8 bytes of an acquire's header
	keySize   int
	keys      []byte   // all keys, one behind the other
	lastToken []uint64 // per key; a grant that does not exceed it breaks the lock
	unordered bool     // the tokens mean nothing: an echo server sends them back
}

// newLoad prepares for keys 0..keyCount-1, which are made of the prefix and their number. prefix, of 4 bytes, keeps two runs apart.
func newLoad(s script, prefix string, keyCount, keySize int, waitMillis, leaseMillis uint32) *load {
	l := &load{
		script:    s,
		acquireHi: uint64(wire.OpAcquire)<<56 | uint64(keySize)<<48 | uint64(waitMillis),
		releaseHi: uint64(wire.OpRelease)<<56 | uint64(keySize)<<48,
		leaseWord: uint64(leaseMillis) << 32,
		keySize:   keySize,
		keys:      make([]byte, 0, keyCount*keySize),
		lastToken: make([]uint64, keyCount),
	}
	for i := range keyCount {
		l.keys = fmt.Appendf(l.keys, "%s%0*d", prefix, keySize-len(prefix), i)
	}
	return l
}

// loadConn is one connection's requests: no I/O, bytes in and bytes out.
type loadConn struct {
	load    *load
	slots   []slot
	out     []byte // to be written
	rest    []byte // the beginning of a reply whose end has not arrived
	nextKey uint32 // sweep: of the keys up to lastKey
	lastKey uint32
	grants  uint64
}

// newConn gives a connection inFlight slots whose keys are first, first+1 and so on, modulo the number of keys.
func (l *load) newConn(inFlight, first int) *loadConn {
	c := &loadConn{
		load:  l,
		slots: make([]slot, inFlight),
		out:   make([]byte, 0, inFlight*(wire.HeaderSize+l.keySize)),
		rest:  make([]byte, 0, wire.HeaderSize+math.MaxUint8),
	}
	for i := range c.slots {
		c.slots[i].owner = uint64(i) + 1
		c.slots[i].key = uint32((first + i) % len(l.lastToken))
	}
	return c
}

func (c *loadConn) output() *[]byte { return &c.out }

// start sends the first request of every slot.
func (c *loadConn) start(now int64) {
	for i := range c.slots {
		c.load.inFlight++
		c.next(&c.slots[i], now)
	}
}

// next sends the slot's next acquire, or leaves it idle.
func (c *loadConn) next(s *slot, now int64) {
	if c.load.script.sweep {
		if c.nextKey == c.lastKey {
			c.load.inFlight--
			return
		}
		s.key = c.nextKey
		c.nextKey++
	}
	if c.load.stopping {
		c.load.inFlight--
		return
	}
	s.owner += 1 << 32
	s.releasing = false
	c.send(s, c.load.acquireHi, c.load.leaseWord, now)
}

func (c *loadConn) send(s *slot, head, tail uint64, now int64) {
	size := c.load.keySize
	n := len(c.out)
	if n+wire.HeaderSize+size > cap(c.out) {
		c.out = append(c.out, make([]byte, wire.HeaderSize+size)...)
	}
	c.out = c.out[:n+wire.HeaderSize+size]
	frame := c.out[n:]
	binary.BigEndian.PutUint64(frame[0:8], head)
	binary.BigEndian.PutUint64(frame[8:16], s.owner)
	binary.BigEndian.PutUint64(frame[16:24], tail)
	copy(frame[wire.HeaderSize:], c.load.keys[int(s.key)*size:][:size])
	s.sentAt = now
}

// consume takes the whole replies at the start of in, sends what follows from them, and returns how many bytes
// they were. An error is a reply that breaks the protocol, or the lock.
func (c *loadConn) consume(in []byte, now int64) (used int, err error) {
	for len(in)-used >= wire.HeaderSize {
		h := in[used:]
		n := wire.HeaderSize + int(h[1])
		if n > len(h) {
			break
		}
		owner := binary.BigEndian.Uint64(h[8:16])
		i := uint(uint32(owner)) - 1
		if i >= uint(len(c.slots)) || c.slots[i].owner != owner {
			if err := c.unowned(h[:n]); err != nil {
				return used, err
			}
			used += n
			continue
		}
		s := &c.slots[i]
		token := binary.BigEndian.Uint64(h[16:24])
		switch op := wire.Op(h[0]); {
		case op == wire.OpGranted && !s.releasing:
			if token <= c.load.lastToken[s.key] && !c.load.unordered {
				return used, fmt.Errorf("a key was granted with token %d after token %d: the server broke the lock", token, c.load.lastToken[s.key])
			}
			c.load.lastToken[s.key] = token
			c.load.latency.record(now - s.sentAt)
			c.load.count.granted++
			c.grants++
			if c.load.script.hold {
				c.next(s, now)
				break
			}
			s.token = token
			s.releasing = true
			c.send(s, c.load.releaseHi, token, now)
		case op == wire.OpReleased && s.releasing && token == s.token:
			c.load.latency.record(now - s.sentAt)
			c.load.count.released++
			c.next(s, now)
		default:
			if err := c.refused(s, h[:n], now); err != nil {
				return used, err
			}
		}
		used += n
	}
	return used, nil
}

// unowned handles a reply that answers none of the requests in flight.
func (c *loadConn) unowned(frame []byte) error {
	var r wire.Reply
	if _, err := wire.DecodeReply(frame, &r); err != nil {
		return fmt.Errorf("a reply is not of this protocol: % x", frame)
	}
	switch {
	case r.Op == wire.OpMoved:
		return nil
	case r.Op == wire.OpError && r.Owner == 0:
		return fmt.Errorf("the server ends the connection: %w (%q)", wire.Failure(r.Code), r.Text)
	}
	return fmt.Errorf("reply %v to owner %#x, which is not in flight", r.Op, r.Owner)
}

// refused handles a reply by which a request did not do what it was to do: it is counted, and the slot goes on.
func (c *loadConn) refused(s *slot, frame []byte, now int64) error {
	var r wire.Reply
	if _, err := wire.DecodeReply(frame, &r); err != nil {
		return fmt.Errorf("a reply is not of this protocol: % x", frame)
	}
	count := &c.load.count
	switch {
	case r.Op == wire.OpTimeout && !s.releasing:
		count.timedOut++
	case r.Op == wire.OpNotHeld && s.releasing:
		count.notHeld++
	case r.Op == wire.OpBusy:
		count.busy[min(int(r.Code), len(count.busy)-1)]++
	case r.Op == wire.OpError:
		count.failed[min(int(r.Code), len(count.failed)-1)]++
	default:
		return fmt.Errorf("reply %v with token %d does not answer the request (releasing: %v, token %d)", r.Op, r.Token, s.releasing, s.token)
	}
	if s.releasing && r.Op != wire.OpNotHeld && !c.load.stopping {
		c.send(s, c.load.releaseHi, s.token, now)
		return nil
	}
	c.next(s, now)
	return nil
}

// receive appends what was read to the rest of the last read and consumes it. in may be reused afterwards.
func (c *loadConn) receive(in []byte, now int64) error {
	if len(c.rest) > 0 {
		// At most one reply is completed by way of rest; the others are consumed where they are.
		missing := c.missing()
		take := min(missing, len(in))
		c.rest = append(c.rest, in[:take]...)
		in = in[take:]
		if take < missing {
			return nil
		}
		if c.missing() > 0 { // the header is whole now and says that text follows
			return c.receive(in, now)
		}
		if _, err := c.consume(c.rest, now); err != nil {
			return err
		}
		c.rest = c.rest[:0]
	}
	used, err := c.consume(in, now)
	c.rest = append(c.rest, in[used:]...)
	return err
}

// missing returns how many bytes rest lacks to the end of its header, or, with a whole header, of its reply.
func (c *loadConn) missing() int {
	if len(c.rest) < wire.HeaderSize {
		return wire.HeaderSize - len(c.rest)
	}
	return wire.HeaderSize + int(c.rest[1]) - len(c.rest)
}
