package lock

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// record is what is known of one key: while it is held, and while somebody waits for it or something about it is undecided.
type record struct {
	// The replicated part, of the present grant; undefined while the key is not held.
	token, owner uint64
	grantedAt    int64 // unix ms, for people
	leaseMillis  uint32

	// The local part.
	session Session // that the present grant went to; 0: not granted by this node
	queue   uint32  // in queues; 0: nobody waits
	pins    uint32  // undecided proposals that name the record
	flags   flags

	keyLen uint8
	key    [inlineKey]byte // the key, or where it is in the arena if it is longer
}

// inlineKey is the length, in bytes, up to which a key is kept in the record itself; with it a record fills a cache line.
const inlineKey = 20

type flags uint8

const (
	held          flags = 1 << iota
	fresh               // held since this batch: the lease starts when it ends
	grantProposed       // a Grant is undecided
	endProposed         // a Release or an Expire is undecided; not one of a token that was unknown here when it was proposed
	takenBack           // the present grant could not be delivered, and is to be released
)

// table is the lock table: the replicated state of a domain, with the local state of each key beside it.
type table struct {
	records slab[record]
	ids     ids // of records, index and leases
	index   index
	leases  wheel
	keys    arena
	seed    maphash.Seed

	counter  uint64 // the largest token granted, or the base
	sum      uint64 // of lockHash over the held
	held     int    // records that are held
	occupied int    // records that are held or have a Grant proposed: what the limit of keys counts

	freshIDs []uint32 // records granted in this batch; some may have been freed or granted again since
	snapshot snapshot
}

func (t *table) init(seed maphash.Seed, base uint64) {
	t.seed, t.counter = seed, base
	t.index.init()
	t.leases.init()
}

func (t *table) hash(key []byte) uint32 { return uint32(maphash.Bytes(t.seed, key)) }

// find returns the record of key, or 0.
func (t *table) find(hash uint32, key []byte) uint32 {
	for id := t.index.first(hash); id != 0; id = t.index.then(id) {
		if bytes.Equal(t.keyOf(t.records.at(id)), key) {
			return id
		}
	}
	return 0
}

// keyOf returns the key of a record. It stays valid until the record is dropped.
func (t *table) keyOf(r *record) []byte {
	if r.keyLen <= inlineKey {
		return r.key[:r.keyLen]
	}
	return t.keys.at(r.keyRef(), r.keyLen)
}

// keyRef returns where in the arena a long key is.
func (r *record) keyRef() uint32 { return binary.LittleEndian.Uint32(r.key[:]) }

// add makes a record of a key that has none.
func (t *table) add(hash uint32, key []byte) uint32 {
	id, grown := t.ids.alloc()
	if grown {
		c := int(id >> chunkBits)
		t.records.add(c)
		addLinks(&t.index, &t.leases, c)
	}
	r := t.records.at(id)
	*r = record{keyLen: uint8(len(key))}
	if len(key) <= inlineKey {
		copy(r.key[:], key)
	} else {
		binary.LittleEndian.PutUint32(r.key[:], t.keys.add(key))
	}
	t.index.insert(id, hash)
	return id
}

// drop forgets a record that nothing needs any more.
func (t *table) drop(id uint32) {
	r := t.records.at(id)
	t.leases.clear(id)
	t.index.remove(id)
	if r.keyLen > inlineKey {
		t.keys.remove(r.keyRef(), r.keyLen)
	}
	t.ids.free(id)
}

// trim gives back memory that is not needed any more, a little at a time. It reports whether there was any.
func (t *table) trim() (trimmed bool) {
	trimmed = t.keys.trim()
	if c := t.ids.trim(); c != noChunk {
		t.records.drop(c)
		dropLinks(&t.index, &t.leases, c)
		trimmed = true
	}
	return trimmed
}

// grant makes owner the holder of a key that is not held, with the next token. The lease starts at startLeases.
func (t *table) grant(id uint32, owner uint64, leaseMillis uint32, grantedAt int64) *record {
	t.counter++
	r := t.put(id, owner, t.counter, leaseMillis, grantedAt)
	r.flags |= fresh
	t.freshIDs = append(t.freshIDs, id)
	return r
}

// put makes a key that is not held a held one.
func (t *table) put(id uint32, owner, token uint64, leaseMillis uint32, grantedAt int64) *record {
	r := t.records.at(id)
	t.leases.clear(id)
	t.held++
	if r.flags&grantProposed == 0 {
		t.occupied++
	}
	r.token, r.owner, r.leaseMillis, r.grantedAt = token, owner, leaseMillis, grantedAt
	r.flags |= held
	t.sum += lockHash(t.keyOf(r), r)
	return r
}

// remove makes a held key free.
func (t *table) remove(id uint32) {
	r := t.records.at(id)
	if t.snapshot.awaits(id, r.token) {
		t.saveLock(id, r)
	}
	t.leases.clear(id)
	t.held--
	if r.flags&grantProposed == 0 {
		t.occupied--
	}
	t.sum -= lockHash(t.keyOf(r), r)
	r.flags &^= held | fresh | takenBack
}

// setGrantProposed and clearGrantProposed say that a Grant of the key is undecided, or decided.
func (t *table) setGrantProposed(r *record) {
	if r.flags |= grantProposed; r.flags&held == 0 {
		t.occupied++
	}
}

func (t *table) clearGrantProposed(r *record) {
	if r.flags &^= grantProposed; r.flags&held == 0 {
		t.occupied--
	}
}

// startLeases starts the leases of what was granted in this batch, at mono, a stamp read after the batch.
func (t *table) startLeases(mono int64) {
	for _, id := range t.freshIDs {
		if !t.ids.inUse(id) {
			continue
		}
		r := t.records.at(id)
		if r.flags&fresh == 0 {
			continue
		}
		r.flags &^= fresh
		due := tickAfter(mono + int64(r.leaseMillis)*nanosPerMilli)
		switch {
		case r.flags&endProposed != 0:
			t.leases.setDue(id, due)
		case r.flags&takenBack != 0:
			t.leases.setDue(id, due)
			t.leases.setLate(id)
		default:
			t.leases.set(id, due, tickBefore(mono))
		}
	}
	t.freshIDs = t.freshIDs[:0]
}

const nanosPerMilli = 1_000_000

// stateHash returns the hash of the replicated state.
func (t *table) stateHash() uint64 { return t.sum + fold(t.counter^mixA, mixB) }

// Odd constants of wyhash, with bits set as often as not.
const (
	mixA = 0xa0761d6478bd642f
	mixB = 0xe7037ed1a0b428db
	mixC = 0x8ebc6af09c88c6e3
)

// fold multiplies two words into one that depends on all of their bits.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// lockHash hashes a lock. It has no secret, because nodes compare it, and so it is no defence against keys chosen to collide. It need
// not be: it is there to find replicas that differ by accident.
func lockHash(key []byte, r *record) uint64 {
	h := fold(r.token^mixA, r.owner^mixB) + fold(uint64(r.grantedAt)^mixB, uint64(r.leaseMillis)^mixC)
	h ^= uint64(len(key))
	for ; len(key) >= 8; key = key[8:] {
		h = fold(h^binary.LittleEndian.Uint64(key), mixC)
	}
	for _, c := range key {
		h = bits.RotateLeft64(h, 8) ^ uint64(c)
	}
	return fold(h^mixA, mixB)
}
