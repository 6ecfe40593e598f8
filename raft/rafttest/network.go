package rafttest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ticketing.internal/raft"
)

// packet is one message on its way: a body of package raft, or something that drivers say to each other (say).
type packet struct {
	from, to *process
	kind     raft.MessageKind
	target   raft.Member // the pair that the sender meant
	body     []byte
	say      func(*process)
	toHost   *host // of say: whoever runs there on arrival
	sentAt   time.Duration
}

// network is the links between machines.
type network struct {
	s     *sim
	n     int
	links []link // from*n + to
	free  []*packet
	calm  bool // the second phase: nothing is lost, nothing late
}

// link is one direction between two machines.
type link struct {
	rng     *rand.Rand
	cuts    int // in force
	clogged time.Duration
	last    time.Duration // arrival of the packet before, for links that keep the order
}

func newNetwork(s *sim, hosts int) *network {
	w := &network{s: s, n: hosts, links: make([]link, hosts*hosts)}
	for from := range hosts {
		for to := range hosts {
			w.links[from*hosts+to].rng = stream(s.seed, fmt.Sprintf("link %d %d", from, to))
		}
	}
	return w
}

func (w *network) link(from, to *host) *link { return &w.links[from.index*w.n+to.index] }

func (w *network) isCut(from, to *host) bool { return w.link(from, to).cuts > 0 }

// send puts a message of node p onto its link.
func (w *network) send(p *process, m *raft.Message) {
	to := w.s.byIncarnation[m.To.Incarnation]
	if to == nil || to == p || p.dropsOwnTerm(m) {
		return
	}
	k := w.alloc()
	k.from, k.to, k.kind, k.target, k.sentAt = p, to, m.Kind, m.To, w.s.now
	k.body = raft.AppendMessage(k.body[:0], m)
	w.transmit(w.link(p.host, to.host), k)
}

// say lets f happen to whatever process runs at to when the message arrives, if it does.
func (w *network) say(from *process, to *host, f func(*process)) {
	k := w.alloc()
	k.from, k.toHost, k.say, k.sentAt = from, to, f, w.s.now
	w.transmit(w.link(from.host, to), k)
}

func (w *network) alloc() *packet {
	if last := len(w.free) - 1; last >= 0 {
		k := w.free[last]
		w.free = w.free[:last]
		return k
	}
	return new(packet)
}

func (w *network) release(k *packet) {
	*k = packet{body: k.body[:0]}
	w.free = append(w.free, k)
}

// transmit draws what the link does with k.
func (w *network) transmit(l *link, k *packet) {
	o, r := &w.s.opt, l.rng
	draw := r.Uint64() // one draw a packet: what happens to it shifts nothing else
	if l.cuts > 0 || !w.calm && int(draw%1000) < o.loss {
		w.s.cover[CoverLost]++
		w.release(k)
		return
	}
	delay := o.latency
	if w.calm {
		delay = min(delay, 5*time.Millisecond)
	} else if o.jitter > 0 {
		delay += time.Duration(draw>>10) % o.jitter
	}
	if !w.calm && int(draw>>40%1000) < o.tail {
		delay += time.Duration(draw>>20) % time.Second
	}
	at := max(w.s.now+delay, l.clogged)
	if o.fifo {
		at = max(at, l.last)
		l.last = at
	}
	if !w.calm && int(draw>>50%1000) < o.duplicate {
		twin := w.alloc()
		body := append(twin.body[:0], k.body...)
		*twin = *k
		twin.body = body
		w.s.cover[CoverDuplicated]++
		again := time.Duration(draw>>15) % (100 * time.Millisecond)
		if draw>>60 == 0 {
			again *= 80 // it comes in another reign
		}
		w.s.queue.push(event{at: at + o.latency + again, packet: twin})
	}
	w.s.queue.push(event{at: at, packet: k})
}

// arrive hands k to its receiver.
func (w *network) arrive(k *packet) {
	defer w.release(k)
	if k.sentAt >= k.from.unsent && k.from.unsent > 0 {
		return // it was still in the memory of a process that died
	}
	if k.say != nil {
		if to := k.toHost.running; to != nil && !to.paused() && !w.isCut(k.from.host, k.toHost) {
			k.say(to)
		}
		return
	}
	to := k.to
	switch {
	case !to.alive || w.isCut(k.from.host, to.host):
	case to.paused():
		to.keep(k)
	case to.admits(k.from, k.target):
		to.receive(k.from, k.kind, k.body)
	}
}

// cut puts a cut onto the links for which f holds, for span (0: until all is healed).
func (w *network) cut(span time.Duration, f func(from, to *host) bool) {
	var cut []*link
	for _, from := range w.s.hosts {
		for _, to := range w.s.hosts {
			if from != to && f(from, to) {
				l := w.link(from, to)
				l.cuts++
				cut = append(cut, l)
			}
		}
	}
	w.s.cover[CoverCut]++
	if span == 0 {
		return
	}
	epoch := w.s.healed
	w.s.after(span, func() {
		if epoch != w.s.healed {
			return // all cuts have ended meanwhile
		}
		for _, l := range cut {
			l.cuts--
		}
	})
}

// heal ends all cuts and clogs.
func (w *network) heal() {
	w.s.healed++
	for i := range w.links {
		w.links[i].cuts, w.links[i].clogged = 0, 0
	}
}

// clog lets packets to h wait until span has passed. They then arrive at once, in the reversed order of their links.
func (w *network) clog(h *host, span time.Duration) {
	for i, from := range w.s.hosts {
		l := w.link(from, h)
		l.clogged = max(l.clogged, w.s.now+span-time.Duration(i)*time.Microsecond)
	}
}
