package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ticketing.internal/wire"
)

// auditor acquires and releases locks that nobody else asks for, frame by frame. So it knows of each reply whether it is true: a T or
// B for a key that was granted, an R without effect, an N for a lock that is held, each shows at the latest in the reply to what it
// asks next.
type auditor struct {
	*history
	name     string
	patience time.Duration // for one reply
	first    uint64        // owners are counted from here
	owner    uint64        // the last
	ledgers  [4]ledger
}

// ledger is what an auditor knows of one of its keys.
type ledger struct {
	key   string
	owner uint64                        // of grant
	grant *event                        // nil: the key is free
	doubt bool                          // a release of grant was sent, and nobody knows what became of it
	spent struct{ owner, token uint64 } // what was given back before; token 0: nothing
}

// auditLease outlasts every test, so that nothing but a release ends a grant.
const auditLease = 200 * time.Second

func newAuditor(h *history, name string, patience time.Duration) *auditor {
	a := &auditor{history: h, name: name, patience: patience, first: rand.Uint64() >> 1}
	a.owner = a.first
	for i := range a.ledgers {
		a.fresh(&a.ledgers[i])
	}
	return a
}

// fresh turns to a key that nobody has asked for. That of before may be held for as long as its lease lasts.
func (a *auditor) fresh(l *ledger) {
	if l.grant != nil {
		a.add(*l.grant)
	}
	a.owner++
	*l = ledger{key: fmt.Sprintf("audit-%d", a.owner)}
}

// move is what an auditor does with a key.
type move byte

const (
	moveAcquire move = iota
	moveRelease
	moveReleaseAgain   // what was given back before
	moveReleaseForeign // a token that no grant has
	moveSecond         // another acquire, without a wait, of what is held
	moveHandOver       // another acquire, which waits, and a release
	moveWithdraw       // another acquire, which waits, and its withdrawal
)

// choose picks what to do next with a key.
func (l *ledger) choose(random *rand.Rand) move {
	switch n := random.IntN(10); {
	case l.grant == nil && l.spent.token != 0 && n < 2:
		return moveReleaseAgain
	case l.grant == nil:
		return moveAcquire
	case n < 1:
		return moveReleaseForeign
	case n < 2:
		return moveSecond
	case n < 3:
		return moveWithdraw
	case n < 5:
		return moveHandOver
	}
	return moveRelease
}

func (a *auditor) acquire(l *ledger, wait time.Duration) *asked {
	a.owner++
	return &asked{request: wire.Request{
		Op: wire.OpAcquire, Owner: a.owner, Key: []byte(l.key), Wait: uint32(wait.Milliseconds()), Lease: uint32(auditLease.Milliseconds()),
	}}
}

func release(l *ledger, owner, token uint64) *asked {
	return &asked{request: wire.Request{Op: wire.OpRelease, Owner: owner, Token: token, Key: []byte(l.key)}}
}

// requests are those of a move, in the order in which they are sent.
func (a *auditor) requests(l *ledger, m move) []*asked {
	switch m {
	case moveRelease:
		return []*asked{release(l, l.owner, l.grant.token)}
	case moveReleaseAgain:
		return []*asked{release(l, l.spent.owner, l.spent.token)}
	case moveReleaseForeign:
		return []*asked{release(l, l.owner, l.grant.token+1<<20*(l.owner%2)-1)}
	case moveHandOver:
		return []*asked{a.acquire(l, time.Second), release(l, l.owner, l.grant.token)}
	case moveWithdraw:
		second := a.acquire(l, time.Minute)
		return []*asked{second, release(l, second.request.Owner, 0)}
	}
	return []*asked{a.acquire(l, 0)}
}

// judge compares the replies to a move with what must be.
func (a *auditor) judge(l *ledger, m move, list []*asked) {
	first, last := list[0], list[len(list)-1]
	for _, q := range list {
		if r := &q.reply; q.answered && r.Op == wire.OpError && r.Code != uint16(wire.Indeterminate) {
			a.report("%s: %v %d (%s) answers a request that is well-formed", l.key, r.Op, r.Code, r.Text)
		}
	}
	switch m {
	case moveRelease:
		a.judgeRelease(l, first)
	case moveReleaseAgain, moveReleaseForeign:
		if first.word() == wire.OpReleased {
			a.report("%s: the release of token %d, which is not that of the holder, is confirmed", l.key, first.request.Token)
		}
	case moveHandOver:
		before := l.grant
		a.judgeRelease(l, last)
		if released := l.grant != before; released || l.doubt {
			a.judgeAcquire(l, first)
		} else {
			a.judgeSecond(l, first)
		}
	case moveWithdraw:
		if withdrawn := last.word() == wire.OpReleased; withdrawn && first.word() != wire.OpTimeout {
			a.report("%s: a withdrawal is confirmed, and its acquire is answered %v", l.key, first.word())
		}
		a.judgeSecond(l, first)
	default:
		if l.grant == nil {
			if first.word() == wire.OpTimeout {
				a.report("%s: is free, and T says that it is held", l.key)
			}
			a.judgeAcquire(l, first)
		} else {
			a.judgeSecond(l, first)
		}
	}
}

// judgeAcquire takes the reply to the acquire of a key that may be free.
func (a *auditor) judgeAcquire(l *ledger, q *asked) {
	switch q.word() {
	case wire.OpGranted:
		if l.grant != nil { // and in doubt
			a.giveBack(l)
		}
		waited := time.Duration(q.reply.Millis) * time.Millisecond
		l.owner, l.grant = q.request.Owner, &event{
			key: l.key, by: a.name, token: q.reply.Token, asked: q.sent, granted: q.received, deadline: q.sent + waited + auditLease,
		}
	case wordUnknown:
		a.addUnknown(q.sent)
		a.fresh(l)
	}
}

// judgeSecond takes the reply to an acquire of a key that is held.
func (a *auditor) judgeSecond(l *ledger, q *asked) {
	if q.word() == wire.OpGranted && !l.doubt {
		a.report("%s: is held with token %d, and granted again with token %d", l.key, l.grant.token, q.reply.Token)
	}
	a.judgeAcquire(l, q)
}

// judgeRelease takes the reply to the release of what is held.
func (a *auditor) judgeRelease(l *ledger, q *asked) {
	if q.word() == wire.OpBusy {
		return // it had no effect
	}
	if l.grant.releasing == 0 {
		l.grant.releasing = q.sent
	}
	switch q.word() {
	case wire.OpNotHeld:
		if !l.doubt {
			a.report("%s: token %d is held, and N denies it", l.key, l.grant.token)
		}
		a.giveBack(l)
	case wire.OpReleased:
		a.giveBack(l)
	case wordUnknown:
		l.doubt = true
	}
}

func (a *auditor) giveBack(l *ledger) {
	a.add(*l.grant)
	l.spent.owner, l.spent.token = l.owner, l.grant.token
	l.grant, l.doubt = nil, false
}

// work asks one node after the other until the load ends: the next when one cannot be reached or does not serve.
func (a *auditor) work(l *chaosLoad, random *rand.Rand) {
	var conn *frameConn
	for i := 0; !l.quit.Load(); {
		if conn == nil {
			var err error
			if conn, err = dialFrames(l.place, l.addrs[i%len(l.addrs)], a.now); err != nil {
				i++
				pause(10 * time.Millisecond)
				continue
			}
		}
		elsewhere, err := a.round(conn, func(l *ledger) move { return l.choose(random) })
		if err != nil || elsewhere && len(l.addrs) > 1 {
			conn.Close()
			conn = nil
			i++
		}
		pause(time.Duration(1+random.IntN(3)) * time.Millisecond)
	}
	if conn != nil {
		conn.Close()
	}
}

// round makes a move with each key. It reports whether the node sends its clients elsewhere. After an error the connection is of
// no use.
func (a *auditor) round(conn *frameConn, choose func(*ledger) move) (elsewhere bool, err error) {
	var moves [len(a.ledgers)]move
	var lists [len(a.ledgers)][]*asked
	var all []*asked
	for i := range a.ledgers {
		moves[i] = choose(&a.ledgers[i])
		lists[i] = a.requests(&a.ledgers[i], moves[i])
		all = append(all, lists[i]...)
	}
	err = conn.exchange(all, a.patience)
	if errors.Is(err, errStray) {
		a.report("%v", err)
	}
	for i := range a.ledgers {
		a.judge(&a.ledgers[i], moves[i], lists[i])
	}
	for _, q := range all {
		a.count(fmt.Sprintf("%q answers %q", q.word(), q.request.Op))
		elsewhere = elsewhere || q.word() == wire.OpBusy
	}
	return elsewhere, err
}

// close verifies with a leader that serves that all is as the auditor believes, and gives everything back.
func (a *auditor) close(conn *frameConn) error {
	look := func(*ledger) move { return moveAcquire }
	if _, err := a.round(conn, look); err != nil {
		return err
	}
	_, err := a.round(conn, func(l *ledger) move {
		if l.grant == nil {
			return moveAcquire
		}
		return moveRelease
	})
	return err
}

// settle ends the books: what is held stays so.
func (a *auditor) settle() {
	for i := range a.ledgers {
		a.fresh(&a.ledgers[i])
	}
}
