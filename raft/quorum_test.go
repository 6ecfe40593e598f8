package raft

import (
	"math/rand/v2"
	"testing"
)

// plainQuorum tries every value: the largest that more than half of each half has.
func plainQuorum(c Configuration, value map[Member]uint64) uint64 {
	has := func(half []Member, v uint64) bool {
		count := 0
		for _, m := range half {
			if value[m] >= v {
				count++
			}
		}
		return 2*count > len(half)
	}
	best := uint64(0)
	for _, v := range value {
		if v > best && has(c.Voters, v) && (!c.Joint() || has(c.Next, v)) {
			best = v
		}
	}
	return best
}

func TestQuorumAgainstPlainQuorum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	n := new(Node)
	for range 50_000 {
		size := 3 + 2*rng.IntN(2)
		var c Configuration
		for i := range size {
			c.Voters = append(c.Voters, testMember(i+1))
		}
		if rng.IntN(2) == 0 {
			c.Next = replaced(c.Voters, testMember(1+rng.IntN(size)), testMember(9))
		}
		value := make(map[Member]uint64)
		for _, half := range [][]Member{c.Voters, c.Next} {
			for _, m := range half {
				value[m] = rng.Uint64N(6)
			}
		}
		got := n.quorum(c, func(m Member) uint64 { return value[m] })
		if want := plainQuorum(c, value); got != want {
			t.Fatalf("quorum of %v with %v is %d, not %d", c, value, want, got)
		}
	}
}

func TestConfigurationValid(t *testing.T) {
	members := func(ids ...int) []Member {
		var m []Member
		for _, id := range ids {
			m = append(m, testMember(id))
		}
		return m
	}
	other := Member{NodeID: 3, Incarnation: Incarnation{9, 9}}
	for _, test := range []struct {
		name string
		conf Configuration
		want bool
	}{
		{"three", Configuration{Voters: members(1, 2, 3)}, true},
		{"five", Configuration{Voters: members(1, 2, 3, 4, 5)}, true},
		{"none", Configuration{}, false},
		{"one", Configuration{Voters: members(1)}, false},
		{"two", Configuration{Voters: members(1, 2)}, false},
		{"four", Configuration{Voters: members(1, 2, 3, 4)}, false},
		{"not sorted", Configuration{Voters: members(2, 1, 3)}, false},
		{"a NodeId twice", Configuration{Voters: []Member{testMember(1), testMember(3), other}}, false},
		{"joint, one replaced", Configuration{Voters: members(1, 2, 3), Next: members(1, 3, 4)}, true},
		{"joint, two replaced", Configuration{Voters: members(1, 2, 3), Next: members(1, 4, 5)}, false},
		{"joint, nobody replaced", Configuration{Voters: members(1, 2, 3), Next: members(1, 2, 3)}, false},
		{"joint, another size", Configuration{Voters: members(1, 2, 3), Next: members(1, 2, 3, 4, 5)}, false},
	} {
		if got := test.conf.valid(); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
