package raft

import "slices"

// entryOverhead is what an entry is charged beside its data. Its real cost is a record of 8 bytes and its share of a
// segment's slack.
const entryOverhead = 16

// log keeps the entries after base in segments: the data of neighbouring entries lies together, terms are stored as
// runs, and a segment that is dropped is used again, so that appending allocates nothing in steady state.
type log struct {
	base     uint64 // index of the entry before the first; everything up to it is applied
	baseTerm uint64
	last     uint64 // index of the last entry, base if there is none
	segments []*segment
	free     []*segment
	runs     []termRun // ascending; the first covers base+1
	bytes    int       // memory of the segments in use
	size     int       // data bytes of a new segment
}

type segment struct {
	first   uint64 // index of the first entry
	start   uint64 // logical position of its first byte, counted over the log's life
	records []record
	data    []byte
}

type record struct {
	end  uint32 // of the entry's data in the segment
	kind EntryKind
}

const recordBytes = 8

type termRun struct {
	first uint64
	term  uint64
}

// Sizes of a segment: small enough to drop the log piece by piece, large enough that a new one is rarely needed.
const (
	minSegmentBytes = 4 << 10
	maxSegmentBytes = 64 << 10
	maxFreeSegments = 4
)

func newLog(logBytes int) log {
	return log{size: min(max(logBytes/16, minSegmentBytes), maxSegmentBytes)}
}

func (s *segment) last() uint64 { return s.first + uint64(len(s.records)) - 1 }

func (s *segment) memory() int { return cap(s.data) + cap(s.records)*recordBytes }

// entryData returns the data of the i-th entry of the segment.
func (s *segment) entryData(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = s.records[i-1].end
	}
	end := s.records[i].end
	return s.data[from:end:end]
}

// position returns the logical position behind the i-th entry, its overhead included.
func (s *segment) position(i int) uint64 {
	return s.start + uint64(s.records[i].end) + uint64(i+1)*entryOverhead
}

// append adds an entry with a copy of data and returns its index.
func (l *log) append(term uint64, kind EntryKind, data []byte) uint64 {
	s := l.room(len(data))
	s.data = append(s.data, data...)
	s.records = append(s.records, record{end: uint32(len(s.data)), kind: kind})
	l.last++
	if l.lastTerm() != term || len(l.runs) == 0 {
		l.runs = append(l.runs, termRun{first: l.last, term: term})
	}
	return l.last
}

// lastTerm returns the term of the last entry, which is the newest run's; in append, that of the entry before the new one.
func (l *log) lastTerm() uint64 {
	if len(l.runs) == 0 {
		return l.baseTerm
	}
	return l.runs[len(l.runs)-1].term
}

// room returns a segment with space for n bytes and one record.
func (l *log) room(n int) *segment {
	if len(l.segments) > 0 {
		s := l.segments[len(l.segments)-1]
		if len(s.data)+n <= cap(s.data) && len(s.records) < cap(s.records) {
			return s
		}
	}
	var s *segment
	if n <= l.size && len(l.free) > 0 {
		s = l.free[len(l.free)-1]
		l.free = l.free[:len(l.free)-1]
	} else {
		s = &segment{data: make([]byte, 0, max(n, l.size)), records: make([]record, 0, l.size/entryOverhead)}
	}
	s.first, s.start = l.last+1, l.position(l.last)
	l.segments = append(l.segments, s)
	l.bytes += s.memory()
	return s
}

// recycle keeps a segment of the usual size for later.
func (l *log) recycle(s *segment) {
	l.bytes -= s.memory()
	if len(l.free) < maxFreeSegments && cap(s.data) == l.size {
		s.data, s.records = s.data[:0], s.records[:0]
		l.free = append(l.free, s)
	}
}

// find returns the place of the segment that holds index, which must be in the log.
func (l *log) find(index uint64) int {
	at, found := slices.BinarySearchFunc(l.segments, index, func(s *segment, i uint64) int {
		switch {
		case s.first > i:
			return 1
		case s.last() < i:
			return -1
		}
		return 0
	})
	if !found {
		panic("raft: log index outside its segments")
	}
	return at
}

// position returns the logical position behind the entry at index: the difference of two is the bytes between.
func (l *log) position(index uint64) uint64 {
	if len(l.segments) == 0 {
		return 0
	}
	if first := l.segments[0]; index < first.first {
		return first.start
	}
	s := l.segments[l.find(min(index, l.last))]
	return s.position(int(min(index, l.last) - s.first))
}

// bytesAfter returns the charged size of the entries after index.
func (l *log) bytesAfter(index uint64) int {
	return int(l.position(l.last) - l.position(index))
}

// term returns the term of the entry at index; false outside base..last.
func (l *log) term(index uint64) (uint64, bool) {
	if index == l.base {
		return l.baseTerm, true
	}
	if index < l.base || index > l.last {
		return 0, false
	}
	for i := len(l.runs) - 1; i >= 0; i-- {
		if l.runs[i].first <= index {
			return l.runs[i].term, true
		}
	}
	return 0, false
}

// matches reports whether the log holds an entry of that term at index.
func (l *log) matches(index, term uint64) bool {
	t, ok := l.term(index)
	return ok && t == term
}

// upToDate reports whether a log that ends with (index, term) is at least as up to date as this one.
func (l *log) upToDate(index, term uint64) bool {
	last := l.lastTerm()
	return term > last || term == last && index >= l.last
}

// conflictBefore returns the largest index up to limit whose term is at most the given one, and its term: the last place at
// which two logs can agree.
func (l *log) conflictBefore(limit, term uint64) (uint64, uint64) {
	limit = min(limit, l.last)
	if limit <= l.base {
		return limit, l.baseTerm
	}
	for i := len(l.runs) - 1; i >= 0; i-- {
		r := l.runs[i]
		if r.first > limit {
			continue
		}
		if r.term <= term {
			return limit, r.term
		}
		limit = r.first - 1
	}
	return l.base, l.baseTerm
}

// entry returns the entry at index, which must be after base and not after last.
func (l *log) entry(index uint64) Entry {
	s := l.segments[l.find(index)]
	term, _ := l.term(index)
	i := int(index - s.first)
	return Entry{Index: index, Term: term, Kind: s.records[i].kind, Data: s.entryData(i)}
}

// entries appends the entries from..to to dst, at least one, and no more after limit charged bytes.
func (l *log) entries(dst []Entry, from, to uint64, limit int) []Entry {
	if from > to {
		return dst
	}
	run, size, index := l.runAt(from), 0, from
	for _, s := range l.segments[l.find(from):] {
		begin := uint32(0)
		if index > s.first {
			begin = s.records[index-s.first-1].end
		}
		for _, r := range s.records[index-s.first:] {
			size += int(r.end-begin) + entryOverhead
			if index > to || size > limit && index > from {
				return dst
			}
			for run+1 < len(l.runs) && l.runs[run+1].first <= index {
				run++
			}
			dst = append(dst, Entry{Index: index, Term: l.runs[run].term, Kind: r.kind, Data: s.data[begin:r.end:r.end]})
			begin = r.end
			index++
		}
	}
	return dst
}

func (l *log) runAt(index uint64) int {
	at := len(l.runs) - 1
	for at > 0 && l.runs[at].first > index {
		at--
	}
	return at
}

// truncate removes the entries from index on.
func (l *log) truncate(index uint64) {
	for len(l.segments) > 0 {
		s := l.segments[len(l.segments)-1]
		if s.first < index {
			if keep := int(index - s.first); keep < len(s.records) {
				s.data = s.data[:s.records[keep-1].end]
				s.records = s.records[:keep]
			}
			break
		}
		l.segments = l.segments[:len(l.segments)-1]
		l.recycle(s)
	}
	for len(l.runs) > 0 && l.runs[len(l.runs)-1].first >= index {
		l.runs = l.runs[:len(l.runs)-1]
	}
	l.last = index - 1
}

// dropFront removes the first segment if all of it is at or below limit, and reports whether it did.
func (l *log) dropFront(limit uint64) bool {
	if len(l.segments) == 0 || l.segments[0].last() > limit {
		return false
	}
	s := l.segments[0]
	last := s.last()
	l.baseTerm, _ = l.term(last)
	l.base = last
	l.segments = slices.Delete(l.segments, 0, 1)
	l.recycle(s)
	drop := 0
	for drop+1 < len(l.runs) && l.runs[drop+1].first <= last+1 {
		drop++
	}
	l.runs = slices.Delete(l.runs, 0, drop)
	if last == l.last {
		l.runs = l.runs[:0]
	}
	return true
}

// reset empties the log: its last entry is said to be (index, term).
func (l *log) reset(index, term uint64) {
	for _, s := range l.segments {
		l.recycle(s)
	}
	l.segments, l.runs = l.segments[:0], l.runs[:0]
	l.base, l.baseTerm, l.last = index, term, index
}
