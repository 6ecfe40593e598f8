package lock

// index finds ids by a hash of what they stand for. It is a linear hash table (Litwin 1980) with chains through u32 links:
// buckets are split, and joined again, one at a time, so that no operation pays for the growth of all, nothing is held
// twice while it grows, and no old table becomes garbage.
type index struct {
	nodes   slab[links]
	heads   []*[headChunk]uint32
	buckets uint32 // in use; bucket b >= buckets is still part of the one without b's highest bit
	mask    uint32 // the lowest 2^k - 1 that covers all buckets
	count   int
}

const (
	headChunk  = 4096
	minBuckets = headChunk
	joinsPer   = 4 // joins per removal at most: buckets then follow the count down as fast as it falls
)

func (x *index) init() {
	x.heads = []*[headChunk]uint32{new([headChunk]uint32)}
	x.buckets, x.mask = minBuckets, minBuckets-1
}

func (x *index) head(bucket uint32) *uint32 {
	return &x.heads[bucket/headChunk][bucket%headChunk]
}

func (x *index) bucketOf(hash uint32) uint32 {
	b := hash & x.mask
	if b >= x.buckets {
		b &= x.mask >> 1
	}
	return b
}

// first returns the first id whose hash is likely hash; more follow from then. 0 ends.
func (x *index) first(hash uint32) uint32 {
	return x.from(*x.head(x.bucketOf(hash)), hash)
}

// then returns the next id after id that has the same hash, or 0.
func (x *index) then(id uint32) uint32 {
	n := x.nodes.at(id)
	return x.from(n.chain, n.hash)
}

func (x *index) from(id, hash uint32) uint32 {
	for id != 0 {
		n := x.nodes.at(id)
		if n.hash == hash {
			return id
		}
		id = n.chain
	}
	return 0
}

func (x *index) insert(id, hash uint32) {
	if x.count++; x.count > int(x.buckets) {
		x.split()
	}
	h := x.head(x.bucketOf(hash))
	n := x.nodes.at(id)
	n.hash, n.chain = hash, *h
	*h = id
}

func (x *index) remove(id uint32) {
	n := x.nodes.at(id)
	link := x.head(x.bucketOf(n.hash))
	for *link != id {
		link = &x.nodes.at(*link).chain
	}
	*link = n.chain
	x.count--
	for range joinsPer {
		if x.buckets == minBuckets || x.count >= int(x.buckets/4) {
			break
		}
		x.join()
	}
}

// split gives the next bucket its part of the one that it was in so far.
func (x *index) split() {
	b := x.buckets
	if x.buckets++; b > x.mask {
		x.mask = x.mask<<1 | 1
	}
	if int(b/headChunk) == len(x.heads) {
		x.heads = append(x.heads, new([headChunk]uint32))
	}
	to, link := x.head(b), x.head(b&(x.mask>>1))
	for *link != 0 {
		id := *link
		n := x.nodes.at(id)
		if n.hash&x.mask != b {
			link = &n.chain
			continue
		}
		*link = n.chain
		n.chain = *to
		*to = id
	}
}

// join puts the last bucket back into the one that it came from.
func (x *index) join() {
	x.buckets--
	b := x.buckets
	from, link := x.head(b), x.head(b&(x.mask>>1))
	for *link != 0 {
		link = &x.nodes.at(*link).chain
	}
	*link, *from = *from, 0
	if b == x.mask>>1+1 {
		x.mask >>= 1
	}
	if spare := int(b/headChunk) + 2; spare < len(x.heads) {
		x.heads[spare] = nil
		x.heads = x.heads[:spare]
	}
}
