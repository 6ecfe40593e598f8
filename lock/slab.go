package lock

import "math/bits"

// Whatever there may be a million of lives in a slab: places of one type, in chunks of chunkLen, named by ids. Growing never
// copies, a place that is freed is used again, and links are ids, so that the garbage collector has nothing to follow.
const (
	chunkBits = 10
	chunkLen  = 1 << chunkBits
	chunkMask = chunkLen - 1
	wordBits  = 64
)

// slab is the places themselves. Several slabs may go by the ids of one allocator.
type slab[T any] struct {
	chunks []*[chunkLen]T
}

// at returns the place of id, whose chunk must be there.
func (s *slab[T]) at(id uint32) *T {
	return &s.chunks[id>>chunkBits][id&chunkMask]
}

// add makes room for chunk c, zeroed.
func (s *slab[T]) add(c int) { s.set(c, new([chunkLen]T)) }

// set makes chunk c that of another slab, whose places are then the same, or no chunk at all.
func (s *slab[T]) set(c int, chunk *[chunkLen]T) {
	for len(s.chunks) <= c {
		s.chunks = append(s.chunks, nil)
	}
	s.chunks[c] = chunk
}

// links are an id's links in an index and in a wheel, side by side so that both are in one cache line.
type links struct {
	hash, chain uint32 // index: the next in the bucket

	// wheel
	next, prev uint32 // prev is 0 in no list, and frontOf a slot or frontOfLate if the timer is the first
	due        uint32 // a tick, modulo 2^32; kept while the timer is in no list
}

// addLinks makes room for chunk c in an index and a wheel.
func addLinks(x *index, w *wheel, c int) {
	x.nodes.add(c)
	w.nodes.set(c, x.nodes.chunks[c])
}

func dropLinks(x *index, w *wheel, c int) {
	x.nodes.drop(c)
	w.nodes.drop(c)
}

// drop gives chunk c back to the runtime.
func (s *slab[T]) drop(c int) { s.set(c, nil) }

// ids hands out the numbers from 1, always from the first chunk with room: what is in use stays packed in few chunks, and
// the others can be given back after a peak.
type ids struct {
	chunks []idChunk
	room   []uint64 // bit c: chunk c is present and has a free id
	first  int      // no chunk before this one has room
	empty  int      // chunks that are present with no id in use
	used   int      // ids handed out
}

type idChunk struct {
	words   uint16 // bit w: free[w] is not 0
	used    uint16
	present bool
	free    [chunkLen / wordBits]uint64 // bit set: free
}

const (
	noChunk   = -1
	keepEmpty = 8 // empty chunks that an allocator keeps, for what comes and goes
)

// alloc returns a free id. grown says that its chunk was absent: the slabs must add it.
func (a *ids) alloc() (id uint32, grown bool) {
	if a.first >= len(a.chunks) || a.chunks[a.first].words == 0 {
		grown = a.findRoom()
	}
	c := a.first
	ch := &a.chunks[c]
	if ch.used == 0 {
		a.empty--
	}
	ch.used++
	a.used++
	w := bits.TrailingZeros16(ch.words) & (len(ch.free) - 1)
	b := bits.TrailingZeros64(ch.free[w])
	if ch.free[w] &= ch.free[w] - 1; ch.free[w] == 0 {
		if ch.words &^= 1 << w; ch.words == 0 {
			a.room[c/wordBits] &^= 1 << (c % wordBits)
		}
	}
	return uint32(c<<chunkBits | w*wordBits | b), grown
}

// findRoom makes the first chunk with room the first. It reports whether that had to be an absent one.
func (a *ids) findRoom() (grown bool) {
	for w := a.first / wordBits; w < len(a.room); w++ {
		if a.room[w] != 0 {
			a.first = w*wordBits + bits.TrailingZeros64(a.room[w])
			return false
		}
	}
	for a.first = 0; a.first < len(a.chunks) && a.chunks[a.first].present; {
		a.first++
	}
	if a.first == len(a.chunks) {
		a.chunks = append(a.chunks, idChunk{})
	}
	if a.first/wordBits == len(a.room) {
		a.room = append(a.room, 0)
	}
	ch := &a.chunks[a.first]
	for w := range ch.free {
		ch.free[w] = ^uint64(0)
	}
	if a.first == 0 {
		ch.free[0] &^= 1 // 0 is no id
	}
	ch.words, ch.present = ^uint16(0), true
	a.room[a.first/wordBits] |= 1 << (a.first % wordBits)
	a.empty++
	return true
}

// free takes id back.
func (a *ids) free(id uint32) {
	c, i := int(id>>chunkBits), id&chunkMask
	ch := &a.chunks[c]
	if ch.words == 0 {
		a.room[c/wordBits] |= 1 << (c % wordBits)
	}
	ch.free[i/wordBits] |= 1 << (i % wordBits)
	ch.words |= 1 << (i / wordBits)
	a.first = min(a.first, c)
	a.used--
	if ch.used--; ch.used == 0 {
		a.empty++
	}
}

// trim makes the last empty chunk absent and returns it, for the slabs to drop. It returns noChunk if no more than
// keepEmpty chunks are empty.
func (a *ids) trim() (drop int) {
	if a.empty <= keepEmpty {
		return noChunk
	}
	for drop = len(a.chunks) - 1; !a.chunks[drop].present || a.chunks[drop].used > 0; drop-- {
	}
	a.chunks[drop] = idChunk{}
	a.room[drop/wordBits] &^= 1 << (drop % wordBits)
	a.empty--
	return drop
}

// inUse reports whether id is handed out. It may be any number.
func (a *ids) inUse(id uint32) bool {
	c, i := int(id>>chunkBits), id&chunkMask
	return id != 0 && c < len(a.chunks) && a.chunks[c].present && a.chunks[c].free[i/wordBits]&(1<<(i%wordBits)) == 0
}

// next returns the lowest id in use that is larger than id, or 0.
func (a *ids) next(id uint32) uint32 {
	id++
	for c := int(id >> chunkBits); c < len(a.chunks); c++ {
		ch := &a.chunks[c]
		if ch.used > 0 {
			i := id & chunkMask
			mask := ^uint64(0) << (i % wordBits)
			for w := i / wordBits; w < chunkLen/wordBits; w++ {
				taken := ^ch.free[w] & mask
				if c == 0 && w == 0 {
					taken &^= 1
				}
				if taken != 0 {
					return uint32(c<<chunkBits) | w*wordBits | uint32(bits.TrailingZeros64(taken))
				}
				mask = ^uint64(0)
			}
		}
		id = uint32(c+1) << chunkBits
	}
	return 0
}
