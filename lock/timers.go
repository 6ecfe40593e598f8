package lock

import "math/bits"

const (
	tickShift = 22 // a tick is 2^22 ns, 4.2 ms
	turnBits  = 16 // a turn of the wheel is 2^16 ticks, 274 s: longer than any lease
	turnLen   = 1 << turnBits
	turnMask  = turnLen - 1
)

// tickBefore returns the last tick that is not after ns, tickAfter the first that is not before ns.
func tickBefore(ns int64) uint64 { return uint64(ns) >> tickShift }
func tickAfter(ns int64) uint64  { return uint64(ns+1<<tickShift-1) >> tickShift }

// wheel is a timing wheel of one level (Varghese and Lauck 1987, scheme 4) whose timers are named by the ids of a slab. A
// timer due within a turn waits in the slot of its tick; a later one in the last slot of the turn, and is moved on when that
// comes up. Setting and clearing take constant time, and a bitmap finds the next slot that is not empty.
//
// Beside the slots there is the list of the late: timers that are due but could not be dealt with yet, first come, first served.
type wheel struct {
	nodes slab[links]
	slots *[turnLen]uint32                      // the first timer of each slot
	taken [turnLen / wordBits]uint64            // bit s: slot s is not empty
	words [turnLen / wordBits / wordBits]uint64 // bit w: taken[w] is not 0
	busy  int                                   // slots that are not empty
	now   uint64                                // slots of earlier ticks are empty

	late, lateLast uint32
}

const (
	frontOf     = 1 << 31 // + slot
	frontOfLate = frontOf + turnLen
)

func (w *wheel) init() { w.slots = new([turnLen]uint32) }

// linked reports whether the timer is in a slot or late.
func (w *wheel) linked(id uint32) bool { return w.nodes.at(id).prev != 0 }

// due returns the tick that the timer was set for last.
func (w *wheel) due(id uint32) uint64 {
	return w.now + uint64(int64(int32(w.nodes.at(id).due-uint32(w.now))))
}

// setDue says for which tick the timer would be set.
func (w *wheel) setDue(id uint32, due uint64) { w.nodes.at(id).due = uint32(due) }

// set puts a timer that is in no list into the slot of the tick due. now is the present tick.
func (w *wheel) set(id uint32, due, now uint64) {
	if w.busy == 0 && now > w.now {
		w.now = now
	}
	slot := uint32(min(max(due, w.now), w.now+turnMask)) & turnMask
	first := w.slots[slot]
	n := w.nodes.at(id)
	n.next, n.prev, n.due = first, frontOf+slot, uint32(due)
	w.slots[slot] = id
	if first != 0 {
		w.nodes.at(first).prev = id
		return
	}
	w.busy++
	w.taken[slot/wordBits] |= 1 << (slot % wordBits)
	w.words[slot/wordBits/wordBits] |= 1 << (slot / wordBits % wordBits)
}

// setLate puts a timer that is in no list at the end of the late.
func (w *wheel) setLate(id uint32) {
	n := w.nodes.at(id)
	n.next = 0
	if w.lateLast == 0 {
		w.late, n.prev = id, frontOfLate
	} else {
		w.nodes.at(w.lateLast).next, n.prev = id, w.lateLast
	}
	w.lateLast = id
}

// clear takes a timer out of the list that it is in, if any.
func (w *wheel) clear(id uint32) {
	n := w.nodes.at(id)
	prev, next := n.prev, n.next
	if prev == 0 {
		return
	}
	n.prev, n.next = 0, 0
	if next != 0 {
		w.nodes.at(next).prev = prev
	}
	if prev < frontOf {
		w.nodes.at(prev).next = next
		if id == w.lateLast {
			w.lateLast = prev
		}
		return
	}
	if prev == frontOfLate {
		if w.late = next; next == 0 {
			w.lateLast = 0
		}
		return
	}
	slot := prev - frontOf
	if w.slots[slot&turnMask] = next; next == 0 {
		w.busy--
		t := &w.taken[slot/wordBits%(turnLen/wordBits)]
		if *t &^= 1 << (slot % wordBits); *t == 0 {
			w.words[slot/wordBits/wordBits%uint32(len(w.words))] &^= 1 << (slot / wordBits % wordBits)
		}
	}
}

// noTick is a tick that never comes.
const noTick = 1<<64 - 1

// next returns the tick of the first slot that is not empty, noTick if all are. Nothing in a slot is due before it.
func (w *wheel) next() (tick uint64) {
	at := uint32(w.now) & turnMask
	i := at / wordBits
	if t := w.taken[i] >> (at % wordBits); t != 0 {
		return w.now + uint64(bits.TrailingZeros64(t))
	}
	if w.busy == 0 {
		return noTick
	}
	// On from the word behind, round the turn, back into the first word.
	i = (i + 1) % (turnLen / wordBits)
	j := i / wordBits
	t := w.words[j] >> (i % wordBits) << (i % wordBits)
	for t == 0 {
		j = (j + 1) % uint32(len(w.words))
		t = w.words[j]
	}
	i = j*wordBits + uint32(bits.TrailingZeros64(t))
	slot := i*wordBits + uint32(bits.TrailingZeros64(w.taken[i]))
	return w.now + uint64((slot-at)&turnMask)
}

// pop takes out and returns a timer that is due at tick or before, or 0. It looks at as many as budget has left.
func (w *wheel) pop(tick uint64, budget *int) uint32 {
	for *budget > 0 {
		first := w.next()
		if first > tick {
			w.now = max(w.now, tick)
			return 0
		}
		w.now = first
		id := w.slots[first&turnMask]
		w.clear(id)
		*budget--
		due := w.due(id)
		if due <= tick {
			return id
		}
		w.set(id, due, tick)
	}
	return 0
}
