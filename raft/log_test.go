package raft

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// plainLog is the log as one would write it first.
type plainLog struct {
	base, baseTerm uint64
	entries        []Entry
}

func (p *plainLog) last() uint64 { return p.base + uint64(len(p.entries)) }

func (p *plainLog) term(index uint64) (uint64, bool) {
	switch {
	case index == p.base:
		return p.baseTerm, true
	case index < p.base || index > p.last():
		return 0, false
	}
	return p.entries[index-p.base-1].Term, true
}

func (p *plainLog) conflictBefore(limit, term uint64) uint64 {
	for i := min(limit, p.last()); i > p.base; i-- {
		if t, _ := p.term(i); t <= term {
			return i
		}
	}
	return min(limit, p.base)
}

func TestLogAgainstPlainLog(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l, p := newLog(64<<10), new(plainLog)
		term := uint64(1)
		for step := range 3000 {
			switch k := rng.IntN(100); {
			case k < 80:
				if rng.IntN(40) == 0 {
					term += 1 + rng.Uint64N(2)
				}
				data := make([]byte, rng.IntN(300))
				if rng.IntN(100) == 0 {
					data = make([]byte, rng.IntN(MaxEntryBytes))
				}
				rand.NewChaCha8([32]byte{byte(step)}).Read(data)
				l.append(term, EntryCommand, data)
				p.entries = append(p.entries, Entry{Index: p.last() + 1, Term: term, Kind: EntryCommand, Data: data})
			case k < 90 && p.last() > p.base:
				at := p.base + 1 + rng.Uint64N(p.last()-p.base)
				l.truncate(at)
				p.entries = p.entries[:at-p.base-1]
			case k < 98:
				limit := p.base + rng.Uint64N(p.last()-p.base+1)
				if l.dropFront(limit) {
					if l.base > limit {
						t.Fatalf("seed %d: dropped to %d, allowed %d", seed, l.base, limit)
					}
					p.baseTerm, _ = p.term(l.base)
					p.entries = p.entries[l.base-p.base:]
					p.base = l.base
				}
			default:
				if rng.IntN(20) == 0 {
					term++
					*p = plainLog{base: p.last() + 7, baseTerm: term}
					l.reset(p.base, term)
				}
			}
			compareLogs(t, rng, &l, p)
		}
	}
}

func compareLogs(t *testing.T, rng *rand.Rand, l *log, p *plainLog) {
	t.Helper()
	if l.base != p.base || l.last != p.last() {
		t.Fatalf("log %d..%d, plain %d..%d", l.base, l.last, p.base, p.last())
	}
	wantLast, _ := p.term(p.last())
	if l.lastTerm() != wantLast {
		t.Fatalf("last term %d, plain %d", l.lastTerm(), wantLast)
	}
	index := rng.Uint64N(p.last() + 3)
	term, ok := l.term(index)
	if want, wantOK := p.term(index); term != want || ok != wantOK {
		t.Fatalf("term(%d) = %d %v, plain %d %v", index, term, ok, want, wantOK)
	}
	limit := p.base + rng.Uint64N(p.last()-p.base+3)
	bound := rng.Uint64N(wantLast + 2)
	if at, atTerm := l.conflictBefore(limit, bound); at != p.conflictBefore(limit, bound) {
		t.Fatalf("conflictBefore(%d, %d) = %d %d, plain %d", limit, bound, at, atTerm, p.conflictBefore(limit, bound))
	}
	if p.last() == p.base {
		return
	}
	from := p.base + 1 + rng.Uint64N(p.last()-p.base)
	to := from + rng.Uint64N(p.last()-from+1)
	limitBytes, charged := rng.IntN(4000), 0
	got := l.entries(nil, from, to, limitBytes)
	for i := range got {
		want := p.entries[from-p.base-1+uint64(i)]
		charged += len(want.Data) + entryOverhead
		if got[i].Index != want.Index || got[i].Term != want.Term || !bytes.Equal(got[i].Data, want.Data) {
			t.Fatalf("entry %d differs", want.Index)
		}
	}
	if len(got) == 0 || charged > limitBytes && len(got) > 1 {
		t.Fatalf("%d entries of %d bytes with a limit of %d", len(got), charged, limitBytes)
	}
	if sum := l.position(got[len(got)-1].Index) - l.position(from-1); from > p.base+1 && sum != uint64(charged) {
		t.Fatalf("positions differ by %d, entries have %d", sum, charged)
	}
}

// TestEntryMemory measures what an entry of a 16-byte key costs: at most 96 bytes.
func TestEntryMemory(t *testing.T) {
	const entries = 50_000
	data := make([]byte, 1+4+8+8+1+16) // a Grant
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := newLog(16 << 20)
	for i := range uint64(entries) {
		binary.BigEndian.PutUint64(data, i)
		l.append(1, EntryCommand, data)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / entries
	t.Logf("%.1f bytes an entry; the log says %.1f", each, float64(l.bytes)/entries)
	if each > 96 {
		t.Errorf("an entry costs %.1f bytes, allowed are 96", each)
	}
	if real := float64(l.bytes) / entries; real < each-1 {
		t.Errorf("the log charges %.1f bytes an entry and takes %.1f", real, each)
	}
	runtime.KeepAlive(l)
}

// TestLogBound keeps the log of every member under its bound while a member is down, and while all are up.
func TestLogBound(t *testing.T) {
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprintf("one down %v", down), func(t *testing.T) {
			c := newTestCluster(t, 3, func(cfg *Config) { cfg.LogBytes = 64 << 10; cfg.Trace = nil })
			c.elect(c.procs[0])
			c.procs[2].down = down
			payload := string(make([]byte, 100))
			most := 0
			for range 400 {
				for range 20 {
					c.propose(c.procs[0], payload)
				}
				c.deliver()
				for _, p := range c.procs {
					most = max(most, p.log.bytes)
				}
			}
			if slack := 2 * maxSegmentBytes; most > 64<<10+slack {
				t.Errorf("a log grew to %d bytes", most)
			}
			c.procs[2].down = false
			c.tick(400)
			if !c.converged() || len(c.procs[2].app.commands) != 8000 {
				t.Errorf("the third member has %d of 8000 commands", len(c.procs[2].app.commands))
			}
		})
	}
}

func TestProposalsAreBounded(t *testing.T) {
	c := newTestCluster(t, 3, func(cfg *Config) { cfg.MaxUnappliedBytes = 4096 })
	l := c.procs[0]
	c.elect(l)
	c.drop = isolate(testMember(2), testMember(3))
	accepted := 0
	var err error
	for range 1000 {
		if err = l.Propose(make([]byte, 100)); err != nil {
			break
		}
		accepted++
	}
	if err != ErrOverloaded || accepted != 4096/(100+entryOverhead) {
		t.Fatalf("%d accepted, then %v", accepted, err)
	}
	c.drop = nil
	c.drain(l)
	c.deliver()
	c.tick(15)
	if err := l.Propose(make([]byte, 100)); err != nil {
		t.Fatalf("after they were applied: %v", err)
	}
}
