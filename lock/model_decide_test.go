package lock

import (
	"fmt"
	"slices"

	"ticketing.internal/wire"
)

// decide ends the oldest undecided proposal.
func (m *model) decide(now Time, f fate, code wire.Busy) (res Result) {
	p := m.pending[0]
	m.pending = m.pending[1:]
	key := string(p.c.Key)
	k := m.key(key)
	if p.waiter != nil {
		res = m.decideGrant(now, p, k, f, code)
		m.settle(now, key)
		return res
	}
	if !p.unseen {
		k.end = false
	}
	found := k.holder != nil && k.holder.token == p.c.Token && (p.c.Kind == KindExpire || k.holder.owner == p.c.Owner)
	switch {
	case f == lost:
		m.busy(p.session, code, p.c.Owner)
	case f == unknown:
		m.reply(p.session, wire.OpError, uint16(wire.Indeterminate), p.c.Owner, 0, 0)
	default:
		res = m.endResult(k, p.c.Kind, found)
		op := wire.OpNotHeld
		if found {
			op = wire.OpReleased
		}
		m.reply(p.session, op, 0, p.c.Owner, p.c.Token, 0)
	}
	if !p.unseen {
		behind := k.behind
		k.behind = nil
		for _, b := range behind {
			switch {
			case f != applied:
				m.busy(b.session, code, b.owner)
			case found:
				m.reply(b.session, wire.OpNotHeld, 0, b.owner, b.token, 0)
			default:
				m.judge(now, b.session, key, b.owner, b.token)
			}
		}
	}
	m.settle(now, key)
	return res
}

func (m *model) endResult(k *modelKey, kind Kind, found bool) Result {
	outcome := [2]Outcome{NotFound, NotExpired}
	if found {
		m.end(k)
		outcome = [2]Outcome{Released, Expired}
	}
	return Result{Outcome: outcome[kind-KindRelease]}
}

func (m *model) decideGrant(now Time, p *modelProposal, k *modelKey, f fate, code wire.Busy) Result {
	w := p.waiter
	k.grant, w.proposed = false, false
	over := func(op wire.Op, code uint16) {
		m.forget(w)
		m.reply(w.session, op, code, w.owner, 0, 0)
		m.answerWithdrawals(w, op == wire.OpTimeout)
	}
	switch {
	case f == lost:
		over(wire.OpBusy, uint16(code))
	case f == unknown:
		over(wire.OpError, uint16(wire.Indeterminate))
	case k.holder == nil:
		m.grant(k, p.c, w.session)
		token := m.counter
		m.complete(now, w)
		return Result{Outcome: Granted, Token: token}
	default:
		switch {
		case w.session == 0:
			m.forget(w)
		case w.withdrawals > 0 || w.due <= tickBefore(now.Mono):
			over(wire.OpTimeout, 0)
		case !m.leading:
			over(wire.OpBusy, uint16(wire.BusyNotLeader))
		case m.refuse == wire.BusyShuttingDown:
			over(wire.OpBusy, uint16(wire.BusyShuttingDown))
		default:
			k.queue = slices.Insert(k.queue, 0, w)
		}
		return Result{Outcome: GrantRejected}
	}
	return Result{}
}

// apply applies a command of another leader.
func (m *model) apply(now Time, c Command) Result {
	k := m.key(string(c.Key))
	if c.Kind != KindGrant {
		found := k.holder != nil && k.holder.token == c.Token && (c.Kind == KindExpire || k.holder.owner == c.Owner)
		res := m.endResult(k, c.Kind, found)
		m.settle(now, string(c.Key))
		return res
	}
	if k.holder != nil {
		return Result{Outcome: GrantRejected}
	}
	m.grant(k, c, 0)
	return Result{Outcome: Granted, Token: m.counter}
}

func (m *model) endBatch(now Time) {
	for _, k := range m.keys {
		if h := k.holder; h != nil && h.fresh {
			h.fresh = false
			h.due, h.unarmed = tickAfter(now.Mono+int64(h.lease)*1_000_000), k.end
			if h.takenBack {
				m.postpone(k)
			}
		}
	}
}

// next returns the first tick at which a lease or a wait ends, and what of that: the keys and the waiters.
func (m *model) next() (tick uint64, leases []string, waits []*modelWaiter) {
	tick = 1<<64 - 1
	note := func(due uint64) bool {
		if due < tick {
			tick, leases, waits = due, nil, nil
		}
		return due == tick
	}
	for key, k := range m.keys {
		if k.holder != nil && !k.holder.fresh && !k.end && !k.postponed && note(k.holder.due) {
			leases = append(leases, key)
		}
	}
	for _, w := range m.waiters {
		if !w.proposed && note(w.due) {
			waits = append(waits, w)
		}
	}
	return tick, leases, waits
}

// chosen returns the one of keys that the manager has proposed something for next.
func (m *model) chosen(keys []string) string {
	m.t.Helper()
	if len(m.commands) == 0 {
		m.t.Fatalf("nothing is proposed for any of %q", keys)
	}
	key := string(m.commands[0].Key)
	if !slices.Contains(keys, key) {
		m.t.Fatalf("proposed %s, want one of %q", commandLine(&m.commands[0]), keys)
	}
	return key
}

func (m *model) postponed() (keys []string) {
	for key, k := range m.keys {
		if k.postponed {
			keys = append(keys, key)
		}
	}
	return keys
}

func (m *model) tick(now Time) {
	for keys := m.postponed(); len(keys) > 0 && m.mayOffer(now); keys = m.postponed() {
		key := m.chosen(keys)
		switch k := m.keys[key]; {
		case k.holder == nil:
			m.handOff(now, key)
		case k.holder.takenBack:
			m.proposeRelease(now, 0, key)
		default:
			m.proposeExpire(now, key)
		}
	}
	for {
		tick, leases, waits := m.next()
		switch {
		case tick > tickBefore(now.Mono):
			return
		case len(leases) > 0 && m.mayOffer(now):
			m.proposeExpire(now, m.chosen(leases))
		case len(leases) > 0:
			m.keys[leases[0]].postponed = true
		default:
			m.forget(waits[0])
			m.reply(waits[0].session, wire.OpTimeout, 0, waits[0].owner, 0, 0)
			m.settleQueue(now, waits[0].key)
		}
	}
}

// describe lists what is held, one line a key.
func (m *model) describe() (lines []string) {
	for key, k := range m.keys {
		if h := k.holder; h != nil {
			lines = append(lines, fmt.Sprintf("%s owner=%d token=%d at=%d session=%d due=%d waiters=%d",
				key, h.owner, h.token, h.at, h.session, h.due, len(k.queue)))
		}
	}
	slices.Sort(lines)
	return lines
}
