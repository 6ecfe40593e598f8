package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ticketing.internal/raft"
)

// storm does to a cluster what a seed says: one to three faults at a time, of which never so many take processes away that the domain
// would be over. After each round the cluster must be whole again by itself.
type storm struct {
	*chaosCluster
	random *rand.Rand
	// calm holds by seat the end of the last round in which its process ended: who restarts again at once has to wait to be admitted
	// (raft.Registry, Paces).
	calm map[int]time.Time
	// taken are the seats whose process ended in this round.
	taken map[int]bool
	// spare holds by seat the client address that its next node has, so that clients know all there will ever be.
	spare map[int]string
	rules []rule   // of the faults of the network that are at work
	after []func() // what has to come true once all faults have ended
}

// fault begins something, and returns what ends it.
type fault struct {
	name  string
	begin func(*storm) (end func())
}

// takes are the faults after which a process is not what it was.
var takes = []fault{
	{"kill", func(s *storm) func() { return s.kill(s.victim()) }},
	{"kill the leader", func(s *storm) func() { return s.kill(s.leading(s.victim())) }},
	{"stop", (*storm).stop},
	{"replace the dead", func(s *storm) func() { return s.replace(s.victim(), true) }},
	{"replace the living", func(s *storm) func() { return s.replace(s.leading(s.victim()), false) }},
	{"kill the learner", (*storm).killLearner},
}

// simpleTakes is how many of takes, from the first, need nothing of the cluster, so that they may come second.
const simpleTakes = 3

// troubles are the faults that pass.
var troubles = []fault{
	{"freeze", func(s *storm) func() { return s.freeze(s.any()) }},
	{"freeze the leader", func(s *storm) func() { return s.freeze(s.leading(s.any())) }},
	{"transfer", (*storm).transfer},
	{"prepare in vain", (*storm).prepareInVain},
	{"cut off", func(s *storm) func() { return s.cut(s.any(), true, true) }},
	{"cut the leader off", func(s *storm) func() { return s.cut(s.leading(s.any()), true, true) }},
	{"mute", func(s *storm) func() { return s.cut(s.leading(s.any()), true, false) }},
	{"deafen", func(s *storm) func() { return s.cut(s.leading(s.any()), false, true) }},
	{"lose", (*storm).lose},
	{"delay", (*storm).delay},
}

// any is some node.
func (s *storm) any() *chaosNode { return s.nodes[s.random.IntN(len(s.nodes))] }

// leading is the leader if there is one, for half of the calls, else n.
func (s *storm) leading(n *chaosNode) *chaosNode {
	for _, o := range s.nodes {
		if v, ok := s.view(o); ok && v.Role == "leader" && s.mayLose(o) && s.random.IntN(2) == 0 {
			return o
		}
	}
	return n
}

// restartPace is how long after its last restart a seat is admitted at once, as if it were the first one.
const restartPace = 21 * time.Second

func (s *storm) mayLose(n *chaosNode) bool {
	return !s.taken[n.seat] && time.Since(s.calm[n.seat]) > restartPace
}

// victim is the node that was left in peace for longest, and was not taken in this round.
func (s *storm) victim() *chaosNode {
	oldest := s.any()
	for _, n := range s.nodes {
		if s.taken[oldest.seat] || !s.taken[n.seat] && s.calm[n.seat].Before(s.calm[oldest.seat]) {
			oldest = n
		}
	}
	return oldest
}

func (s *storm) restart(n *chaosNode) {
	n.environ = nil
	s.start(n)
}

func (s *storm) kill(n *chaosNode) (end func()) {
	if !s.mayLose(n) {
		return func() {}
	}
	s.taken[n.seat] = true
	s.chaosCluster.kill(n)
	return func() { s.restart(n) }
}

// stop is a reboot that asks nobody.
func (s *storm) stop() (end func()) {
	n := s.leading(s.victim())
	if !s.mayLose(n) {
		return func() {}
	}
	s.taken[n.seat] = true
	n.process.signal(syscall.SIGTERM)
	return func() {
		n.process.Process.Signal(syscall.SIGCONT) // it may have been frozen
		n.process.wait().expect(s.t, exitOK)
		s.restart(n)
	}
}

// replace puts another machine in the place of a node, which ends when it learns so.
func (s *storm) replace(old *chaosNode, dead bool) (end func()) {
	s.taken[old.seat] = true
	if dead {
		s.chaosCluster.kill(old)
	}
	next := newChaosNode(s.t, old.seat)
	next.client, s.spare[old.seat] = s.spare[old.seat], old.client
	s.gates.build(next)
	eventually(s.t, "a leader that prepares the replacement", func() bool {
		code := s.prepare(next)
		if code == exitIndeterminate {
			s.abort() // if it was prepared, nobody has its credential
		}
		return code == exitOK
	})
	s.start(next)
	s.nodes[old.seat-1] = next
	if !dead {
		s.after = append(s.after, func() { old.process.wait().expect(s.t, exitConfig) })
	}
	return func() {}
}

// killLearner replaces a node by one that dies on the way.
func (s *storm) killLearner() (end func()) {
	seat := s.victim().seat
	s.replace(s.nodes[seat-1], true)
	pause(time.Duration(s.random.IntN(300)) * time.Millisecond)
	next := s.nodes[seat-1]
	s.chaosCluster.kill(next)
	return func() { s.start(next) } // with its credential, used or not
}

func (s *storm) freeze(n *chaosNode) (end func()) {
	p := n.process
	select {
	case <-p.ended:
		return func() {}
	default:
	}
	p.Process.Signal(syscall.SIGSTOP)
	return func() { p.Process.Signal(syscall.SIGCONT) }
}

func (s *storm) transfer() (end func()) {
	s.control("transfer")
	return func() {}
}

// prepare asks once for the replacement of a seat. It returns the command's exit code.
func (s *storm) prepare(next *chaosNode) int {
	o := s.control("replace", "--seat", fmt.Sprint(next.seat), "--peer-addr", next.peer)
	if o.code == exitOK {
		s.mayJoin(next, o.stdout)
	}
	return o.code
}

// abort gives up a replacement for which nobody will come, if there is one.
func (s *storm) abort() {
	eventually(s.t, "the end of a replacement for which nobody comes", func() bool {
		v, ok := s.view(s.leader())
		if ok && v.Replacement != nil && v.Replacement.Phase == "prepared" {
			s.control("abort")
			return false
		}
		return ok
	})
}

// prepareInVain prepares a replacement that is given up.
func (s *storm) prepareInVain() (end func()) {
	n := s.any()
	if s.taken[n.seat] {
		return func() {}
	}
	if code := s.prepare(newChaosNode(s.t, n.seat)); code == exitOK || code == exitIndeterminate {
		s.after = append(s.after, s.abort)
	}
	return func() {}
}

// impose lets a rule work beside others until it is lifted.
func (s *storm) impose(r rule) (lift func()) {
	s.gates.mu.Lock()
	defer s.gates.mu.Unlock()
	at := len(s.rules)
	s.rules = append(s.rules, r)
	return func() {
		s.gates.mu.Lock()
		defer s.gates.mu.Unlock()
		s.rules[at] = nil
	}
}

// pass is the rule of the gates.
func (s *storm) pass(l *letter) bool {
	for _, r := range s.rules {
		if r != nil && !r(l) {
			return false
		}
	}
	return true
}

// cut loses what a node sends, what it is sent, or both.
func (s *storm) cut(n *chaosNode, out, in bool) (end func()) {
	v, _ := s.view(n)
	id := raft.NodeID(v.NodeID)
	return s.impose(func(l *letter) bool { return !(out && l.from == id || in && l.to == id) })
}

// lose loses some of all letters.
func (s *storm) lose() (end func()) {
	random, percent := rand.New(rand.NewPCG(s.random.Uint64(), 2)), 5+s.random.IntN(50)
	return s.impose(func(*letter) bool { return random.IntN(100) >= percent })
}

// delay makes all letters late, each by another time.
func (s *storm) delay() (end func()) {
	random, most := rand.New(rand.NewPCG(s.random.Uint64(), 3)), 1+s.random.IntN(60)
	return s.impose(func(l *letter) bool {
		l.delay = time.Duration(random.IntN(most)) * time.Millisecond
		return true
	})
}

// round begins faults, ends them in any order, and waits until the cluster is whole.
func (s *storm) round() {
	var begun []fault
	if s.mayLose(s.victim()) && s.random.IntN(3) > 0 {
		begun = append(begun, takes[s.random.IntN(len(takes))])
	}
	switch n := s.random.IntN(4); {
	case n == 0 && len(begun) == 1 && len(s.nodes) == 5:
		begun = append(begun, takes[s.random.IntN(simpleTakes)])
	case n < 3 || len(begun) == 0:
		begun = append(begun, troubles[s.random.IntN(len(troubles))])
	}
	if s.random.IntN(3) == 0 {
		begun = append(begun, troubles[s.random.IntN(len(troubles))])
	}
	var names []string
	var ends []func()
	for _, f := range begun {
		names = append(names, f.name)
		ends = append(ends, f.begin(s))
		pause(time.Duration(s.random.IntN(500)) * time.Millisecond)
	}
	pause(time.Duration(s.random.IntN(2500)) * time.Millisecond)
	s.random.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
	for _, end := range ends {
		end()
		pause(time.Duration(s.random.IntN(500)) * time.Millisecond)
	}
	healed := s.history.now()
	for _, wait := range s.after {
		wait()
	}
	s.after = nil
	s.gates.mu.Lock()
	s.rules = nil
	s.gates.mu.Unlock()
	s.awaitReady(s.nodes...)
	whole := s.history.now()
	for seat := range s.taken {
		s.calm[seat] = time.Now()
	}
	clear(s.taken)
	s.loads[0].progress() // that of the clients that know all nodes
	s.t.Logf("%v: %s; whole after %v", healed.Round(time.Millisecond), strings.Join(names, ", "), (whole - healed).Round(time.Millisecond))
}

// What nobody has thought of: faults of all kinds, drawn from a seed, for CHAOS_TIME (20s). CHAOS_SEED repeats what is done, though not
// what comes of it.
func TestChaosRandom(t *testing.T) {
	requireChaos(t)
	lasts, err := time.ParseDuration(os.Getenv("CHAOS_TIME"))
	if err != nil {
		lasts = 20 * time.Second
	}
	seed, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			t.Logf("CHAOS_SEED=%d", seed)
			s := &storm{
				chaosCluster: startGatedCluster(t, n), random: rand.New(rand.NewPCG(seed, uint64(n))),
				calm: map[int]time.Time{}, taken: map[int]bool{}, spare: map[int]string{},
			}
			s.gates.set(s.pass)
			known := s.clientAddrs()
			for _, node := range s.nodes {
				s.spare[node.seat] = localAddr(t)
				known = append(known, s.spare[node.seat])
			}
			s.loadAs("all", nil, 8, 3*time.Second, known...)
			for _, node := range s.nodes {
				s.loyalLoad(node)
			}
			for s.history.now() < lasts {
				s.round()
			}
			s.finish()
		})
	}
}
