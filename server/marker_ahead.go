package server

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// markerAhead keeps the marker ahead of what a running node applies, while nothing waits for the disk. It records a token mark well above
// the tokens in use, whether the domain is open, and where the members are. Everything here is called under the engine's lock, except the
// run of a markerWrite. The engine drives it like this:
//
//	applied      a.applied(manager.LastToken()) at the end of each batch; a.opened() with ServiceOpen; a.members(...) with the registry
//	its end      write, ok := a.advance(now.Mono); unlock; if ok: writer.start(write)
//	write done   lock; a.written(now.Mono, err); then as at the end of a batch
//	each tick    as at the end of a batch: retries are found here
type markerAhead struct {
	due uint64 // a token above it makes a write due

	file     *markerFile
	wanted   bool
	want     markerChange // everything that is not on the disk yet
	flying   markerChange
	inFlight bool
	startAt  int64 // mono ns: the write under way began
	retryAt  int64 // mono ns: no write before
	failure  error
	known    []string // members' addresses as last told
}

const (
	// markReserve is how far the mark stays above every token applied (marker_format.go).
	markReserve = 1 << 24
	// markStep is how far a write moves the mark beyond the reserve. The next starts at half of it: at a million grants a second
	// the disk then has 8 s.
	markStep = 1 << 24
)

// markerWrite is a change of the marker on its way to the disk.
type markerWrite struct {
	file   *markerFile
	change markerChange
}

func (w markerWrite) run() error { return w.file.apply(w.change) }

// newMarkerAhead begins with what the marker says, which a node has when it takes part in Raft.
func newMarkerAhead(file *markerFile) *markerAhead {
	a := &markerAhead{file: file}
	if m, ok := file.read(); ok {
		a.moveDue(m.tokenMark)
		a.known = m.peers
	}
	return a
}

// moveDue sets the token at which the next write is due, given the mark that is on the disk or on its way there.
func (a *markerAhead) moveDue(mark uint64) {
	a.due = mark - min(mark, markReserve+markStep/2)
	if mark == math.MaxInt64 {
		a.due = math.MaxUint64
	}
}

// applied takes the largest token applied so far.
func (a *markerAhead) applied(token uint64) {
	if token <= a.due {
		return
	}
	a.want.tokenMark = min(token+markReserve+markStep, math.MaxInt64)
	a.wanted = true
}

// opened notes that ServiceOpen is applied.
func (a *markerAhead) opened() { a.want.opened, a.wanted = true, true }

// members takes the peer addresses of the other members. Telling the same again costs no write.
func (a *markerAhead) members(addresses []string) {
	usable := usableAddresses(addresses)
	if len(usable) == 0 || slices.Equal(usable, a.known) {
		return
	}
	a.known, a.want.peers, a.wanted = usable, usable, true
}

// advance says whether a write is to be started at now (mono ns).
func (a *markerAhead) advance(now int64) (w markerWrite, ok bool) {
	if !a.wanted || a.inFlight || now < a.retryAt {
		return markerWrite{}, false
	}
	a.flying, a.want, a.wanted = a.want, markerChange{}, false
	a.inFlight, a.startAt = true, now
	if a.flying.tokenMark != 0 {
		a.moveDue(a.flying.tokenMark)
	}
	return markerWrite{file: a.file, change: a.flying}, true
}

// written takes the outcome of the write under way.
func (a *markerAhead) written(now int64, err error) {
	a.inFlight, a.failure = false, err
	if err == nil {
		return
	}
	a.retryAt, a.wanted = now+writeRetry, true
	a.due = 0 // by the time of the retry more tokens may be in use
	a.want.tokenMark = max(a.want.tokenMark, a.flying.tokenMark)
	a.want.opened = a.want.opened || a.flying.opened
	if a.want.peers == nil {
		a.want.peers = a.flying.peers
	}
}

// failing says what is wrong with the marker at now (mono ns), "" if nothing is. Nothing waits for it.
func (a *markerAhead) failing(now int64) string {
	switch {
	case a.failure != nil:
		return a.failure.Error()
	case a.inFlight && now-a.startAt > writeStall:
		return fmt.Sprintf("the write of the marker has not come back for %s", time.Duration(now-a.startAt).Truncate(time.Second))
	}
	return ""
}
