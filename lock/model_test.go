package lock

import (
	"slices"
	"testing"

	"ticketing.internal/wire"
)

// model is the same manager once more, out of maps and slices, without an index, a list or a timer: what it wants to know it
// looks for. Where the rules leave the order open (keys whose leases end in one tick) it follows the manager, whose
// proposals it is given; all else it decides by itself.
type model struct {
	t        testing.TB
	limits   Limits
	keys     map[string]*modelKey
	sessions map[Session]bool // true: open; false: ended, but its number is taken
	waiters  []*modelWaiter   // all that are unanswered
	pending  []*modelProposal
	counter  uint64
	leading  bool
	refuse   wire.Busy
	retryAt  int64

	commands []Command // of the manager in this step, to be matched
	answers  []Verdict
	code     wire.Busy // of refusals
	replies  []string
}

type modelKey struct {
	holder    *modelHolder
	queue     []*modelWaiter
	grant     bool          // a Grant is undecided
	end       bool          // a Release or an Expire of the holder is undecided
	behind    []modelBehind // releases that wait for it
	postponed bool          // to be tried again
}

type modelHolder struct {
	owner, token uint64
	lease        uint32
	at           int64
	session      Session
	fresh        bool
	due          uint64 // tick
	unarmed      bool   // its end was proposed since the lease started
	takenBack    bool
}

type modelWaiter struct {
	session     Session // 0: gone
	owner       uint64
	key         string
	lease       uint32
	readAt      int64
	due         uint64 // tick
	proposed    bool
	millis      int64
	withdrawals int
}

type modelProposal struct {
	c       Command
	waiter  *modelWaiter
	session Session
	unseen  bool
}

type modelBehind struct {
	session      Session
	owner, token uint64
}

func newModel(t testing.TB, limits Limits) *model {
	return &model{
		t: t, limits: limits, keys: map[string]*modelKey{}, sessions: map[Session]bool{}, counter: tokenBase, leading: true,
	}
}

func (m *model) key(key string) *modelKey {
	if m.keys[key] == nil {
		m.keys[key] = &modelKey{}
	}
	return m.keys[key]
}

func (m *model) reply(s Session, op wire.Op, code uint16, owner, token uint64, millis int64) {
	if m.sessions[s] {
		m.replies = append(m.replies, replyLine(s, &Reply{Op: op, Code: code, Owner: owner, Token: token, Millis: uint32(millis)}))
	}
}

func (m *model) busy(s Session, code wire.Busy, owner uint64) {
	m.reply(s, wire.OpBusy, uint16(code), owner, 0, 0)
}

// propose matches the manager's next proposal and returns the verdict that it got.
func (m *model) propose(c Command) Verdict {
	m.t.Helper()
	if len(m.commands) == 0 {
		m.t.Fatalf("nothing proposed, want %s", commandLine(&c))
	}
	got := m.commands[0]
	if !sameCommand(&got, &c) || got.Paced != c.Paced {
		m.t.Fatalf("proposed %+v, want %+v", got, c)
	}
	v := m.answers[0]
	m.commands, m.answers = m.commands[1:], m.answers[1:]
	return v
}

func (m *model) mayOffer(now Time) bool { return m.leading && now.Mono >= m.retryAt }

func (m *model) find(s Session, owner uint64) *modelWaiter {
	for _, w := range m.waiters {
		if w.session == s && w.owner == owner {
			return w
		}
	}
	return nil
}

func (m *model) inFlight(s Session) (n int) {
	for _, w := range m.waiters {
		if w.session == s {
			n++
		}
	}
	return n
}

func (m *model) forget(w *modelWaiter) {
	m.waiters = slices.DeleteFunc(m.waiters, func(x *modelWaiter) bool { return x == w })
	if k := m.keys[w.key]; k != nil {
		k.queue = slices.DeleteFunc(k.queue, func(x *modelWaiter) bool { return x == w })
	}
}

func (m *model) refusal() wire.Busy {
	if !m.leading && m.refuse == 0 {
		return wire.BusyNotLeader
	}
	return m.refuse
}

func (m *model) acquire(now Time, s Session, r *wire.Request) {
	if m.find(s, r.Owner) != nil {
		m.reply(s, wire.OpError, uint16(wire.InvalidOwner), r.Owner, 0, 0)
		return
	}
	if f, ok := wire.CheckAcquire(r); !ok {
		m.reply(s, wire.OpError, uint16(f), r.Owner, 0, 0)
		return
	}
	if code := m.refusal(); code != 0 {
		m.busy(s, code, r.Owner)
		return
	}
	if m.inFlight(s) >= m.limits.InFlight {
		m.busy(s, wire.BusyTooManyInFlight, r.Owner)
		return
	}
	w := &modelWaiter{session: s, owner: r.Owner, key: string(r.Key), lease: r.Lease, readAt: now.Mono, due: tickBefore(now.Mono)}
	if r.Wait > 0 {
		w.due = tickAfter(now.Mono + int64(r.Wait)*1_000_000)
	}
	k := m.key(w.key)
	if k.holder == nil && !k.grant && len(k.queue) == 0 {
		occupied, queued := 0, 0
		for _, o := range m.keys {
			if o.holder != nil || o.grant {
				occupied++
			}
			queued += len(o.queue)
		}
		if occupied >= m.limits.Keys {
			m.busy(s, wire.BusyTooManyKeys, r.Owner)
			return
		}
		c := Command{Kind: KindGrant, Key: r.Key, Owner: r.Owner, LeaseMillis: r.Lease, GrantedAt: now.Wall}
		switch m.propose(c) {
		case ApplyNow:
			m.grant(k, c, s)
			m.reply(s, wire.OpGranted, 0, r.Owner, m.counter, 0)
		case Pending:
			m.waiters = append(m.waiters, w)
			m.pendGrant(now, k, w, c)
		default:
			m.busy(s, m.code, r.Owner)
		}
		return
	}
	if r.Wait == 0 {
		m.reply(s, wire.OpTimeout, 0, r.Owner, 0, 0)
		return
	}
	queued := 0
	for _, o := range m.keys {
		queued += len(o.queue)
	}
	if queued >= m.limits.Waiters || len(k.queue) >= m.limits.WaitersPerKey {
		m.busy(s, wire.BusyTooManyWaiters, r.Owner)
		return
	}
	m.waiters = append(m.waiters, w)
	k.queue = append(k.queue, w)
	if k.end {
		m.handOff(now, w.key)
	}
}

func (m *model) grant(k *modelKey, c Command, s Session) {
	m.counter++
	k.holder = &modelHolder{
		owner: c.Owner, token: m.counter, lease: c.LeaseMillis, at: c.GrantedAt, session: s, fresh: true,
	}
	k.postponed = false
}

func (m *model) pendGrant(now Time, k *modelKey, w *modelWaiter, c Command) {
	w.proposed = true
	w.millis = max(now.Mono-w.readAt, 0) / 1_000_000
	k.grant, k.postponed = true, false
	m.pending = append(m.pending, &modelProposal{c: c, waiter: w})
}

func (m *model) handOff(now Time, key string) {
	k := m.keys[key]
	if k.grant || len(k.queue) == 0 {
		return
	}
	if !m.mayOffer(now) {
		m.postpone(k)
		return
	}
	w := k.queue[0]
	c := Command{Kind: KindGrant, Key: []byte(key), Owner: w.owner, LeaseMillis: w.lease, GrantedAt: now.Wall, Paced: true}
	switch m.propose(c) {
	case ApplyNow:
		k.queue = k.queue[1:]
		w.millis = max(now.Mono-w.readAt, 0) / 1_000_000
		m.grant(k, c, w.session)
		m.complete(now, w)
	case Pending:
		k.queue = k.queue[1:]
		m.pendGrant(now, k, w, c)
	default:
		m.retryAt = now.Mono + retryPause
		m.postpone(k)
	}
}

func (m *model) postpone(k *modelKey) {
	if !k.end && (k.holder == nil || !k.holder.fresh) {
		k.postponed = true
	}
}

func (m *model) complete(now Time, w *modelWaiter) {
	k := m.keys[w.key]
	m.forget(w)
	if w.session == 0 {
		m.takeBack(now, w.key, k.holder.token)
		return
	}
	m.reply(w.session, wire.OpGranted, 0, w.owner, k.holder.token, w.millis)
	m.answerWithdrawals(w, false)
}

func (m *model) answerWithdrawals(w *modelWaiter, left bool) {
	for i := range w.withdrawals {
		op := wire.OpNotHeld
		if left && i == 0 {
			op = wire.OpReleased
		}
		m.reply(w.session, op, 0, w.owner, 0, 0)
	}
}

func (m *model) release(now Time, s Session, r *wire.Request) {
	w := m.find(s, r.Owner)
	if r.Token == 0 {
		switch {
		case w == nil || w.key != string(r.Key):
			m.reply(s, wire.OpNotHeld, 0, r.Owner, 0, 0)
		case w.proposed:
			w.withdrawals++
		default:
			m.forget(w)
			m.reply(s, wire.OpTimeout, 0, r.Owner, 0, 0)
			m.reply(s, wire.OpReleased, 0, r.Owner, 0, 0)
			m.settleQueue(now, w.key)
		}
		return
	}
	if w != nil {
		m.reply(s, wire.OpError, uint16(wire.InvalidOwner), r.Owner, 0, 0)
		return
	}
	if f, ok := wire.CheckRelease(r); !ok {
		m.reply(s, wire.OpError, uint16(f), r.Owner, 0, 0)
		return
	}
	if !m.leading {
		m.busy(s, wire.BusyNotLeader, r.Owner)
		return
	}
	m.judge(now, s, string(r.Key), r.Owner, r.Token)
}

func (h *modelHolder) is(owner, token uint64) bool {
	return h != nil && h.owner == owner && h.token == token
}

func (m *model) judge(now Time, s Session, key string, owner, token uint64) {
	k := m.key(key)
	switch {
	case k.holder.is(owner, token) && k.end:
		behind := 0
		for _, o := range m.keys {
			behind += len(o.behind)
		}
		if behind >= m.limits.Waiters {
			m.busy(s, wire.BusyOverloaded, owner)
			return
		}
		k.behind = append(k.behind, modelBehind{s, owner, token})
	case k.holder.is(owner, token):
		m.proposeRelease(now, s, key)
	case token > m.counter:
		c := Command{Kind: KindRelease, Key: []byte(key), Owner: owner, Token: token}
		switch m.propose(c) {
		case ApplyNow:
			m.reply(s, wire.OpNotHeld, 0, owner, token, 0)
		case Pending:
			m.pending = append(m.pending, &modelProposal{c: c, session: s, unseen: true})
		default:
			m.busy(s, m.code, owner)
		}
	default:
		m.reply(s, wire.OpNotHeld, 0, owner, token, 0)
	}
}

func (m *model) proposeRelease(now Time, s Session, key string) {
	k := m.keys[key]
	h := k.holder
	c := Command{Kind: KindRelease, Key: []byte(key), Owner: h.owner, Token: h.token, Paced: s == 0}
	switch m.propose(c) {
	case ApplyNow:
		m.end(k)
		m.reply(s, wire.OpReleased, 0, h.owner, h.token, 0)
		m.settle(now, key)
	case Pending:
		m.pendEnd(now, key, &modelProposal{c: c, session: s})
	default:
		if s == 0 {
			m.retryAt = now.Mono + retryPause
			m.postpone(k)
			return
		}
		m.busy(s, m.code, h.owner)
	}
}

func (m *model) proposeExpire(now Time, key string) {
	k := m.keys[key]
	c := Command{Kind: KindExpire, Key: []byte(key), Token: k.holder.token, Paced: true}
	switch m.propose(c) {
	case ApplyNow:
		m.end(k)
		m.settle(now, key)
	case Pending:
		m.pendEnd(now, key, &modelProposal{c: c})
	default:
		m.retryAt = now.Mono + retryPause
		m.postpone(k)
	}
}

func (m *model) pendEnd(now Time, key string, p *modelProposal) {
	k := m.keys[key]
	k.end, k.postponed, k.holder.unarmed = true, false, true
	m.pending = append(m.pending, p)
	m.handOff(now, key)
}

func (m *model) end(k *modelKey) { k.holder, k.postponed = nil, false }

// settle is what follows a decision about a key.
func (m *model) settle(now Time, key string) {
	k := m.keys[key]
	if h := k.holder; h != nil {
		switch {
		case h.takenBack:
			m.postpone(k)
		case h.unarmed && !k.end && !h.fresh:
			h.due, h.unarmed = max(h.due, tickBefore(now.Mono)), false
		}
		return
	}
	if m.leading {
		m.handOff(now, key)
	}
	if k.holder == nil && len(k.queue) == 0 {
		k.postponed = false
	}
}

func (m *model) settleQueue(now Time, key string) {
	if len(m.keys[key].queue) == 0 {
		m.settle(now, key)
	}
}

func (m *model) takeBack(now Time, key string, token uint64) {
	k := m.keys[key]
	if k == nil || k.holder == nil || k.holder.token != token {
		return
	}
	k.holder.takenBack = true
	switch {
	case k.end:
	case m.mayOffer(now):
		m.proposeRelease(now, 0, key)
	default:
		m.postpone(k)
	}
}

func (m *model) close(now Time, s Session) {
	for _, w := range slices.Clone(m.waiters) {
		switch {
		case w.session != s:
		case w.proposed:
			w.session, w.withdrawals = 0, 0
		default:
			m.forget(w)
			m.settleQueue(now, w.key)
		}
	}
	m.sessions[s] = false
}

func (m *model) refuseQueued(now Time, code wire.Busy) {
	for _, w := range slices.Clone(m.waiters) {
		if !w.proposed {
			m.forget(w)
			m.busy(w.session, code, w.owner)
			m.settleQueue(now, w.key)
		}
	}
}

func (m *model) stepDown(now Time) {
	m.leading = false
	m.refuseQueued(now, wire.BusyNotLeader)
	for _, k := range m.keys {
		for _, b := range k.behind {
			m.busy(b.session, wire.BusyNotLeader, b.owner)
		}
		k.behind = nil
	}
}
