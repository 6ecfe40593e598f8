package raft

// progressState says how a leader feeds a member.
type progressState uint8

const (
	stateProbe     progressState = iota // it is not known where the logs agree: one message at a time
	stateReplicate                      // entries are sent ahead of their acknowledgement, within the window
	stateSnapshot                       // the log does not reach back to what it needs
)

// progress is a leader's view of another member in this reign. It dies with the reign: what a member acknowledged
// before does not count.
type progress struct {
	member Member
	state  progressState
	match  uint64 // the last index known to be equal; never falls
	next   uint64 // the next index to send; above match

	heard   bool   // it has acknowledged something in this reign, and since its connection ended last
	ackedAt uint64 // tick of its last acknowledgement, or when the leader first knew of it

	probed       bool // stateProbe: a message is on its way
	unanswered   bool // stateProbe: an earlier one got no answer, so entries are left out
	heartbeatDue bool
	window       window

	// Catching up (dissertation, section 4.2.1): a round ends when match reaches what was committed as it began.
	roundGoal  uint64
	roundBegan uint64
	caughtUpAt uint64 // tick of the last round that took less than an election timeout; 0: none

	snapshots snapshotAttempts
}

// becomeProbe starts to look for the place where the logs agree.
func (p *progress) becomeProbe(next uint64) {
	p.state, p.next, p.probed, p.unanswered = stateProbe, max(next, p.match+1), false, false
	p.window.clear()
}

func (p *progress) becomeReplicate() {
	p.state, p.next, p.unanswered = stateReplicate, p.match+1, false
	p.window.clear()
}

// window bounds what is on its way to a member, in messages and in bytes.
type window struct {
	ring  []inflight // in order of sending
	first int
	count int
	bytes int
}

type inflight struct {
	last  uint64
	bytes int
}

func (w *window) full(maxMessages, maxBytes int) bool {
	return w.count >= maxMessages || w.bytes >= maxBytes
}

// add notes a message whose last entry is at index last.
func (w *window) add(last uint64, bytes int) {
	if w.count == len(w.ring) {
		ring := make([]inflight, max(8, 2*len(w.ring)))
		for i := range w.count {
			ring[i] = w.ring[(w.first+i)%len(w.ring)]
		}
		w.ring, w.first = ring, 0
	}
	w.ring[(w.first+w.count)%len(w.ring)] = inflight{last: last, bytes: bytes}
	w.count++
	w.bytes += bytes
}

// acknowledge frees the messages that end at or below match.
func (w *window) acknowledge(match uint64) {
	for w.count > 0 && w.ring[w.first].last <= match {
		w.bytes -= w.ring[w.first].bytes
		w.first = (w.first + 1) % len(w.ring)
		w.count--
	}
}

func (w *window) clear() { w.first, w.count, w.bytes = 0, 0, 0 }
