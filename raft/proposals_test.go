package raft

import (
	"math/rand/v2"
	"testing"
)

func TestProposalsOfALeaderThatWasReplaced(t *testing.T) {
	c := newTestCluster(t, 3)
	l := c.procs[0]
	c.elect(l)
	c.tick(15)
	c.propose(l, "kept")
	c.deliver()
	c.drop = isolate(l.self)
	c.propose(l, "lost", "lost too")
	c.until(200, "another leader", func() bool { return c.leader() != nil && c.leader() != l })
	c.propose(c.leader(), "other")
	c.tick(5)
	if l.lost != 0 {
		t.Fatal("lost before it could be known")
	}
	c.drop = nil
	c.until(200, "settled", func() bool { return l.proposals.undecided() == 0 })
	if l.own != 1 || l.lost != 2 || l.unknown != 0 || !c.converged() {
		t.Errorf("own %d, lost %d, unknown %d", l.own, l.lost, l.unknown)
	}
}

func TestProposalsThatASnapshotCoversAreUnknown(t *testing.T) {
	c := newTestCluster(t, 3, small)
	l := c.procs[0]
	c.elect(l)
	c.tick(15)
	c.drop = isolate(l.self)
	c.propose(l, "a", "b")
	c.until(200, "another leader", func() bool { return c.leader() != nil && c.leader() != l && c.leader().serving() })
	fill(c, c.leader(), 300)
	c.drop = nil
	c.until(300, "settled", func() bool { return l.proposals.undecided() == 0 })
	if l.unknown != 2 || l.lost != 0 || l.own != 0 {
		t.Errorf("own %d, lost %d, unknown %d", l.own, l.lost, l.unknown)
	}
}

// TestSettleAgainstTruth makes random reigns and commits, and compares with what is true of each proposal. A leader
// takes proposals only when its Noop is applied, so that those of its earlier reigns are settled by then.
func TestSettleAgainstTruth(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var p proposals
		var truth []bool // of each proposal in order: will it take effect
		commit, settled := uint64(0), 0
		for term := uint64(3); term < 3*8; term += 3 {
			commit++ // the Noop
			first := commit + 1
			var at []uint64 // index of each proposal; 0: it was held and never appended
			for index := first; len(at) < 6; index += 1 + rng.Uint64N(2) {
				p.add(term, index)
				at = append(at, index)
			}
			for range rng.IntN(3) {
				p.hold([]byte("x"))
				at = append(at, 0)
			}
			p.kill()
			kept := first + rng.Uint64N(14) // from here on another leader's entries are committed
			for _, index := range at {
				truth = append(truth, index != 0 && index < kept)
			}
			for commit < first+14 {
				commit++
				by := term
				if commit >= kept {
					by = term + 1
				}
				lost, own := p.settle(commit, by)
				settled = checkSettled(t, seed, truth, settled, lost, false)
				if own {
					settled = checkSettled(t, seed, truth, settled, 1, true)
				}
			}
			settled = checkSettled(t, seed, truth, settled, p.settleDead(), false)
			if p.undecided() != 0 || settled != len(truth) {
				t.Fatalf("seed %d: %d undecided, %d of %d settled", seed, p.undecided(), settled, len(truth))
			}
		}
	}
}

// checkSettled takes the next count proposals off, all of which must have that effect.
func checkSettled(t *testing.T, seed uint64, truth []bool, settled, count int, want bool) int {
	t.Helper()
	for range count {
		if truth[settled] != want {
			t.Fatalf("seed %d: proposal %d settled as %v", seed, settled, want)
		}
		settled++
	}
	return settled
}
