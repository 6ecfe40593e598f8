package lock

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestSizes(t *testing.T) {
	for _, size := range []struct {
		name      string
		got, most uintptr
	}{
		{"record", unsafe.Sizeof(record{}), 64}, // a line of the cache
		{"links", unsafe.Sizeof(links{}), 20},
		{"waiter", unsafe.Sizeof(waiter{}), 56},
		{"queue", unsafe.Sizeof(queue{}), 20},
	} {
		if size.got > size.most {
			t.Errorf("a %s takes %d bytes, want %d", size.name, size.got, size.most)
		}
	}
}

func checkIDs(t *testing.T, a *ids) {
	t.Helper()
	c := checker{}
	c.checkIDs("ids", a)
	if len(c.broken) > 0 {
		t.Fatal(c.broken)
	}
}

func TestIDs(t *testing.T) {
	var a ids
	rnd := rand.New(rand.NewPCG(1, 2))
	used := map[uint32]bool{}
	var list []uint32
	present := map[int]bool{}
	for round, target := range []int{10, 5000, 4000, 20_000, 100, 30_000, 0, 3000} {
		for len(list) != target {
			if len(list) < target {
				id, grown := a.alloc()
				c := int(id >> chunkBits)
				if id == 0 || used[id] || grown == present[c] {
					t.Fatalf("id %d: used %v, grown %v", id, used[id], grown)
				}
				present[c] = true
				used[id] = true
				list = append(list, id)
				continue
			}
			i := rnd.IntN(len(list))
			id := list[i]
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			delete(used, id)
			a.free(id)
			if c := a.trim(); c != noChunk {
				if !present[c] {
					t.Fatalf("chunk %d is given back twice", c)
				}
				present[c] = false
			}
		}
		checkIDs(t, &a)
		n := 0
		for id := a.next(0); id != 0; id = a.next(id) {
			n++
			if !used[id] || !a.inUse(id) {
				t.Fatalf("round %d: id %d is not in use", round, id)
			}
		}
		if n != target || a.used != target {
			t.Fatalf("round %d: %d in use, said %d, want %d", round, n, a.used, target)
		}
		chunks := 0
		for _, p := range present {
			if p {
				chunks++
			}
		}
		if target == 0 && chunks > keepEmpty {
			t.Errorf("%d chunks are kept for nothing", chunks)
		}
	}
	for _, id := range []uint32{0, 1 << 25, 1<<32 - 1} {
		if a.inUse(id) {
			t.Errorf("id %d is in use", id)
		}
	}
}

func TestIDsStayPacked(t *testing.T) {
	var a ids
	for range 5 * chunkLen {
		a.alloc()
	}
	a.free(3*chunkLen + 7)
	a.free(4)
	a.free(chunkLen + 1)
	for _, want := range []uint32{4, chunkLen + 1, 3*chunkLen + 7} {
		if id, _ := a.alloc(); id != want {
			t.Errorf("id %d, want %d", id, want)
		}
	}
	checkIDs(t, &a)
}

func TestArena(t *testing.T) {
	var a arena
	rnd := rand.New(rand.NewPCG(1, 2))
	type place struct {
		ref    uint32
		length uint8
	}
	keys := map[place][]byte{}
	for range 20_000 {
		key := bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(maxKey)+1)
		p := place{a.add(key), uint8(len(key))}
		if keys[p] != nil {
			t.Fatalf("place %v is taken", p)
		}
		keys[p] = key
		if rnd.IntN(3) == 0 {
			for q := range keys {
				a.remove(q.ref, q.length)
				delete(keys, q)
				break
			}
		}
	}
	for p, key := range keys {
		if got := a.at(p.ref, p.length); !bytes.Equal(got, key) || cap(got) != len(key) {
			t.Fatalf("place %v holds %q, want %q", p, got, key)
		}
		a.remove(p.ref, p.length)
	}
	for a.trim() {
	}
	for i := range a.classes {
		checkIDs(t, &a.classes[i].ids)
		if n := a.classes[i].ids.empty; n > keepEmpty {
			t.Errorf("class %d keeps %d chunks", i, n)
		}
	}
}

func TestIndex(t *testing.T) {
	for _, width := range []uint32{1<<32 - 1, 0xff, 0x7fff_0000, 0} {
		t.Run(fmt.Sprintf("hashes under %x", width), func(t *testing.T) {
			var x index
			var a ids
			x.init()
			rnd := rand.New(rand.NewPCG(1, 2))
			hashes := map[uint32]uint32{}
			n := 30_000
			if width != 1<<32-1 {
				n = 1000 // chains are long
			}
			var list []uint32
			for _, target := range []int{n, n / 2, n, n / 50, 0} {
				for len(list) < target {
					id, grown := a.alloc()
					if grown {
						x.nodes.add(int(id >> chunkBits))
					}
					hashes[id] = rnd.Uint32() & width
					x.insert(id, hashes[id])
					list = append(list, id)
				}
				for len(list) > target {
					i := rnd.IntN(len(list))
					id := list[i]
					list[i] = list[len(list)-1]
					list = list[:len(list)-1]
					x.remove(id)
					a.free(id)
					delete(hashes, id)
				}
				c := checker{}
				c.checkIndex("index", &x, &a)
				if len(c.broken) > 0 {
					t.Fatal(c.broken)
				}
				for id, hash := range hashes {
					got := x.first(hash)
					for got != 0 && got != id {
						got = x.then(got)
					}
					if got == 0 {
						t.Fatalf("id %d is not found", id)
					}
				}
				if int(x.buckets) > max(minBuckets, 4*target+4*joinsPer) || target > int(x.buckets) {
					t.Errorf("%d buckets for %d", x.buckets, target)
				}
			}
			if len(x.heads) > 3 {
				t.Errorf("%d chunks of heads are kept", len(x.heads))
			}
		})
	}
}
