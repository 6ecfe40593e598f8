package raft

import "slices"

// proposals follows this node's undecided proposals in the order of proposing, so that each is settled exactly once. A
// leader takes none before its Noop is applied, and by then those of its earlier reigns are decided.
// Entries of one term are the proposals of one reign, and runs of neighbouring indexes keep the list short.
type proposals struct {
	runs []proposalRun
	held heldProposals
}

// proposalRun is a run of proposals: at the indexes first..last of one term, or dead: never appended.
type proposalRun struct {
	term        uint64
	first, last uint64
	dead        bool
}

func (r proposalRun) count() int { return int(r.last - r.first + 1) }

// heldProposals wait while leadership is being transferred, or for Advance.
type heldProposals struct {
	data []byte
	ends []int
}

// add notes the proposal that was appended at index.
func (p *proposals) add(term, index uint64) {
	if k := len(p.runs); k > 0 {
		if r := &p.runs[k-1]; !r.dead && r.term == term && r.last+1 == index {
			r.last = index
			return
		}
	}
	p.runs = append(p.runs, proposalRun{term: term, first: index, last: index})
}

// hold keeps a copy of data until it may be appended.
func (p *proposals) hold(data []byte) {
	p.held.data = append(p.held.data, data...)
	p.held.ends = append(p.held.ends, len(p.held.data))
}

// release hands the held proposals out in order and forgets them.
func (p *proposals) release(propose func(data []byte)) {
	from := 0
	for _, end := range p.held.ends {
		propose(p.held.data[from:end])
		from = end
	}
	p.held.data, p.held.ends = p.held.data[:0], p.held.ends[:0]
}

// kill notes that the held proposals will never be appended. Older ones may be undecided still, and come first.
func (p *proposals) kill() {
	if count := len(p.held.ends); count > 0 {
		p.runs = append(p.runs, proposalRun{first: 1, last: uint64(count), dead: true})
		p.held.data, p.held.ends = p.held.data[:0], p.held.ends[:0]
	}
}

// settle says what the entry committed at (index, term) decides: how many of the oldest proposals are lost, and
// whether the next one is this entry.
func (p *proposals) settle(index, term uint64) (lost int, own bool) {
	lost = p.settleDead()
	for len(p.runs) > 0 && p.runs[0].first <= index {
		r := &p.runs[0]
		if r.term == term && r.first == index {
			if r.first++; r.first > r.last {
				p.pop()
			}
			return lost, true
		}
		// Another leader's entry is committed where this reign's first undecided proposal was, so that no later
		// one of the reign can be (log matching).
		for reign := r.term; len(p.runs) > 0 && !p.runs[0].dead && p.runs[0].term == reign; {
			lost += p.runs[0].count()
			p.pop()
		}
		lost += p.settleDead()
	}
	return lost, false
}

// settleDead takes the dead ones off the head.
func (p *proposals) settleDead() int {
	lost := 0
	for len(p.runs) > 0 && p.runs[0].dead {
		lost += p.runs[0].count()
		p.pop()
	}
	return lost
}

// covered removes the proposals that a snapshot at index covers, and returns how many: their fate is unknown. Dead ones before
// them are counted as unknown too, so that proposals are settled in order.
func (p *proposals) covered(index uint64) int {
	isCovered := func(r proposalRun) bool { return !r.dead && r.first <= index }
	unknown := 0
	for slices.ContainsFunc(p.runs, isCovered) {
		r := &p.runs[0]
		if !r.dead && r.last > index {
			unknown += int(index - r.first + 1)
			r.first = index + 1
			break
		}
		unknown += r.count()
		p.pop()
	}
	return unknown
}

// deadHead reports whether the oldest proposal is known to be lost.
func (p *proposals) deadHead() bool { return len(p.runs) > 0 && p.runs[0].dead }

func (p *proposals) pop() {
	copy(p.runs, p.runs[1:])
	p.runs = p.runs[:len(p.runs)-1]
}

// undecided counts them all.
func (p *proposals) undecided() int {
	count := len(p.held.ends)
	for _, r := range p.runs {
		count += r.count()
	}
	return count
}
