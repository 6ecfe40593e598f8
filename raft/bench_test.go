package raft

import (
	"fmt"
	"testing"
)

// rig is a cluster without a network: what a node sends is stepped into the receiver while it is valid.
type rig struct {
	nodes   []*Node
	replies []Message
	applied int
}

func newRig(tb testing.TB) *rig {
	c := newTestCluster(tb, 3, func(cfg *Config) { cfg.Trace = nil })
	c.elect(c.procs[0])
	c.tick(30)
	r := &rig{nodes: []*Node{c.procs[0].Node, c.procs[1].Node, c.procs[2].Node}}
	return r
}

// cycle proposes count commands and brings them to commit: two Readys of the leader, two of each follower.
func (r *rig) cycle(tb testing.TB, count int, data []byte) {
	leader := r.nodes[0]
	for range count {
		if err := leader.Propose(data); err != nil {
			tb.Fatal(err)
		}
	}
	for leader.HasReady() {
		rd := leader.Ready()
		for i := range rd.Messages {
			to := r.nodes[rd.Messages[i].To.NodeID-1]
			to.Step(&rd.Messages[i])
		}
		r.applied += len(rd.Committed)
		leader.Advance()
		for _, f := range r.nodes[1:] {
			for f.HasReady() {
				rd := f.Ready()
				r.replies = append(r.replies, rd.Messages...)
				f.Advance()
			}
		}
		for i := range r.replies {
			leader.Step(&r.replies[i])
		}
		r.replies = r.replies[:0]
	}
}

var grantSized = make([]byte, 38) // a Grant of a 16-byte key

func BenchmarkReadyCycle(b *testing.B) {
	for _, count := range []int{1, 64, 4096} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			r := newRig(b)
			b.ReportAllocs()
			for b.Loop() {
				r.cycle(b, count, grantSized)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/entry")
		})
	}
}

func BenchmarkApplyControl(b *testing.B) {
	r := sampleState().Registry
	c := &Control{Kind: ControlPrepare, Seat: 2, PeerAddr: "n9:1", WallMillis: testWall, ExpiresMillis: testWall + 1}
	b.ReportAllocs()
	for b.Loop() {
		r.apply(1, c, new(Faults))
	}
}

func appendSample(entries int) *Message {
	m := &Message{Kind: MsgAppendEntries, Term: 5, Index: 100, LogTerm: 5, Commit: 100}
	for i := range entries {
		m.Entries = append(m.Entries, Entry{Index: 101 + uint64(i), Term: 5, Kind: EntryCommand, Data: grantSized})
	}
	return m
}

func BenchmarkEncode(b *testing.B) {
	for _, count := range []int{1, 64, 4096} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			m := appendSample(count)
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendMessage(buf[:0], m)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, count := range []int{1, 64, 4096} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			body := AppendMessage(nil, appendSample(count))
			var m Message
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := DecodeMessage(MsgAppendEntries, body, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, count := range []int{1, 64, 4096} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			r := newRig(t)
			cycles := 3 * (8 << 20) / (count * (len(grantSized) + entryOverhead)) // beyond the log's bound
			for range min(cycles, 2000) {
				r.cycle(t, count, grantSized)
			}
			before := r.applied
			if allocs := testing.AllocsPerRun(200, func() { r.cycle(t, count, grantSized) }); allocs != 0 {
				t.Errorf("%v allocations in a cycle of %d proposals", allocs, count)
			}
			if r.applied-before < 200*count {
				t.Errorf("%d of %d proposals applied", r.applied-before, 200*count)
			}
		})
	}
}

func TestCodecAllocatesNothing(t *testing.T) {
	sent := appendSample(64)
	var buf []byte
	var m Message
	allocs := testing.AllocsPerRun(100, func() {
		buf = AppendMessage(buf[:0], sent)
		if err := DecodeMessage(sent.Kind, buf, &m); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
