package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func inDomain(d domain) func(*host) { return func(h *host) { h.domain = d } }

// A restarted standalone server is another domain. With nothing unreleased it is taken at once.
func TestNewDomainWithoutTickets(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		ticket := w.ticket(r, "k", 1)
		release := w.release(w.Context(), ticket)
		r.released(r.release("k", 1))
		release.succeeds()
		w.change(r.host, func() { r.host.domain = domainTwo })
		r.hangUp()
		began := w.clock.Now()
		r = w.next(r.host)
		if took := w.clock.Now() - began; took != minBackoff {
			w.Errorf("taken after %v", took)
		}
		w.ticket(r, "k", 2)
		if got := b.Stats().Domain; got != domainTwo.String() {
			w.Errorf("domain %s", got)
		}
	})
}

// With a ticket before its deadline the new domain is refused until then: two holders otherwise.
func TestNewDomainWaitsForTickets(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		w.ticket(r, "k", 1)
		began := w.clock.Now()
		w.change(r.host, func() { r.host.domain = domainTwo })
		r.hangUp()
		o := w.acquire(w.Context(), "other").fails(ErrBusy, wire.BusyNoLeader)
		if !strings.Contains(o.err.Error(), domainTwo.String()) {
			w.Errorf("%v does not name the domain", o.err)
		}
		for b.Stats().Connections == 0 {
			w.pass(100 * time.Millisecond)
		}
		took := w.clock.Now() - began
		if took < atDeadline || took > atDeadline+time.Second+maxBackoff {
			w.Errorf("taken after %v, the deadline was at %v", took, atDeadline)
		}
	})
}

// Who has called Release is in no critical section any more: the old domain is over, and N says so.
func TestReleaseInNewDomain(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.one()
		ticket := w.ticket(r, "k", 1)
		w.change(r.host, func() { r.host.domain = domainTwo })
		release := w.release(w.Context(), ticket)
		r.release("k", 1) // sent, and never answered
		r.hangUp()
		r = w.next(r.host)
		r.notHeld(r.release("k", 1))
		release.fails(ErrNotHeld) // the new domain knows nothing of what the old one did
	})
}

// A stranger is refused while the domain has a connection, also one that does not serve.
func TestStranger(t *testing.T) {
	inWorld(t, func(w *world) {
		ha := w.host("a:1")
		b := w.open("a:1", "x:1")
		ra := w.next(ha)
		hx := w.host("x:1", inDomain(domainTwo), follower(""))
		rx := w.next(hx)
		if !rx.ended() {
			w.Error("a stranger's connection is up")
		}
		if s := b.Stats(); s.Connections != 1 || s.Domain != domainOne.String() || s.DialFailures == 0 {
			w.Errorf("stats %+v", s)
		}
		w.ticket(ra, "k", 1) // a stranger that does not serve disturbs nobody
	})
}

// Two domains that serve at once: nobody can say which is right.
func TestTwoDomainsServe(t *testing.T) {
	inWorld(t, func(w *world) {
		ha := w.host("a:1")
		b := w.open("a:1", "x:1")
		ra := w.next(ha)
		ticket := w.ticket(ra, "k", 1)
		hx := w.host("x:1", inDomain(domainTwo))
		w.next(hx)
		o := w.acquire(w.Context(), "other").fails(ErrBusy)
		if !errors.Is(o.err, errTwoDomains) || o.took != 0 {
			w.Errorf("got %v after %v", o.err, o.took)
		}
		ra.silent()
		ready := w.start(func() (*Ticket, error) { return nil, b.WaitReady(w.Context()) })
		ready.pending()
		// Releases pass.
		release := w.release(w.Context(), ticket)
		ra.released(ra.release("k", 1))
		release.succeeds()
		// Once the stranger is gone, or serves no more, all is well.
		w.change(hx, func() { hx.role = wire.RoleNotLeader })
		ready.succeeds()
		w.ticket(ra, "other", 2)
	})
}

func TestTwoDomainsEndWhenTheStrangerIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		ha := w.host("a:1")
		b := w.open("a:1", "x:1")
		ra := w.next(ha)
		hx := w.host("x:1", inDomain(domainTwo))
		w.next(hx)
		w.acquire(w.Context(), "k").fails(ErrBusy)
		w.change(hx, func() { hx.refuse = errors.New("down") })
		ready := w.start(func() (*Ticket, error) { return nil, b.WaitReady(w.Context()) })
		ready.succeeds()
		w.ticket(ra, "k", 1)
	})
}

// A domain whose nodes are up and have not served for 250 s gives way.
func TestQuietDomainGivesWay(t *testing.T) {
	inWorld(t, func(w *world) {
		ha := w.host("a:1")
		b := w.open("a:1", "x:1")
		ra := w.next(ha)
		w.calls.Go(ra.pongs)
		w.pass(time.Second)
		ra.moved("", 1)
		began := w.clock.Now()
		hx := w.host("x:1", inDomain(domainTwo))
		for b.Stats().Domain == domainOne.String() {
			w.pass(100 * time.Millisecond)
		}
		took := w.clock.Now() - began
		if took < domainQuiet || took > domainQuiet+maxBackoff {
			w.Errorf("gave way after %v", took)
		}
		if !ra.ended() {
			w.Error("the connection to the old domain is up")
		}
		for range len(hx.conns) - 1 {
			<-hx.conns
		}
		w.ticket(w.next(hx), "k", 1)
	})
}

// Terms of the old domain mean nothing in the new one.
func TestTermsBelongToADomain(t *testing.T) {
	inWorld(t, func(w *world) {
		b, r := w.one()
		r.moved("a:1", 1000)
		w.change(r.host, func() { r.host.domain = domainTwo })
		r.hangUp()
		r = w.next(r.host)
		if s := b.Stats(); s.Leader != "" {
			w.Errorf("the old leader is still known: %+v", s)
		}
		r.moved("b:1", 3)
		if s := b.Stats(); s.Leader != "b:1" {
			w.Errorf("a term of the new domain was ignored: %+v", s)
		}
	})
}

func TestPinnedDomain(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.host("a:1", inDomain(domainTwo))
		b := w.openWith(Config{Addrs: []string{"a:1", "down:1"}, Domain: domainOne.String()}, nil)
		w.next(h)
		o := w.acquire(w.Context(), "k").fails(ErrBusy)
		if !strings.Contains(o.err.Error(), "Config.Domain") {
			w.Errorf("got %v", o.err)
		}
		w.change(h, func() { h.domain = domainOne })
		for b.Stats().Serving == 0 {
			w.pass(100 * time.Millisecond)
		}
	})
}

func TestUnreleased(t *testing.T) {
	var u unreleased
	for _, now := range []time.Duration{time.Hour, 3 * time.Hour} {
		if u.any(now) {
			t.Error("an empty one has some")
		}
		u.add(now + 10*time.Second)
		u.add(now + 10*time.Second + time.Millisecond)
		u.add(now + 250*time.Second)
		u.remove(now + 250*time.Second)
		u.remove(now + 10*time.Second)
		if !u.any(now+10*time.Second) || u.any(now+11*time.Second) {
			t.Error("one of three is left, until its second is over")
		}
		u.add(now + 266*time.Second) // the slot of the one that is over
		u.remove(now + 10*time.Second + time.Millisecond)
		if !u.any(now + 266*time.Second) {
			t.Error("a removal of what is over took another away")
		}
		u.remove(now + 266*time.Second)
		if u.any(now) {
			t.Error("some are left")
		}
	}
}
