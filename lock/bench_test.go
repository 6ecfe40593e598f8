package lock

import (
	"encoding/binary"
	"hash/maphash"
	"testing"

	"ticketing.internal/wire"
)

type nowLog struct{}

func (nowLog) Propose(Time, *Command) (Verdict, wire.Busy) { return ApplyNow, 0 }

// lastReply keeps the latest reply.
type lastReply struct {
	reply Reply
	n     int
}

func (l *lastReply) Reply(_ Session, r *Reply) {
	l.reply = *r
	l.reply.Key = nil
	l.n++
}
func (l *lastReply) ForeignRelease(Session, []byte, uint64, uint64, Client) {}

var plenty = Limits{Keys: 1 << 20, Waiters: 1 << 20, WaitersPerKey: 1 << 20, InFlight: 1 << 20}

type tokens struct {
	list []uint64
}

func (l *tokens) Reply(_ Session, r *Reply) {
	if r.Op == wire.OpGranted {
		l.list[r.Owner-1] = r.Token
	}
}
func (l *tokens) ForeignRelease(Session, []byte, uint64, uint64, Client) {}

// BenchmarkUncontended takes and gives back 512 keys at a time, as a pipelining client does.
func BenchmarkUncontended(b *testing.B) {
	const depth = 2048
	sink := &tokens{list: make([]uint64, depth)}
	m := NewManager(Config{Limits: plenty, Seed: maphash.MakeSeed(), Log: nowLog{}, Sink: sink})
	s := m.OpenSession(Client{Addr: "10.0.0.1:1000"})
	keys := make([][16]byte, depth)
	for i := range keys {
		copy(keys[i][:], "key-0000")
		binary.LittleEndian.PutUint64(keys[i][8:], 0x3030303030303030+uint64(i%64)+uint64(i/64)<<8)
	}
	now := Time{Mono: 1e12}
	r := wire.Request{Wait: 1000, Lease: 30000}
	b.ReportAllocs()
	for n := 0; b.Loop(); n += 2 * depth {
		for i := range keys {
			r.Op, r.Owner, r.Token, r.Key = wire.OpAcquire, uint64(i+1), 0, keys[i][:]
			m.Acquire(now, s, &r)
			if i%256 == 255 {
				now.Mono += 50_000
				m.EndBatch(now)
			}
		}
		for i := range keys {
			r.Op, r.Owner, r.Token, r.Key = wire.OpRelease, uint64(i+1), sink.list[i], keys[i][:]
			m.Release(now, s, &r)
			if i%256 == 255 {
				now.Mono += 50_000
				m.EndBatch(now)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2/depth, "ns/request")
	if m.stats.Replies.Released != m.stats.Acquires {
		b.Fatal("not all released")
	}
}
