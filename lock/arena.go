package lock

// arena holds the bytes of keys, in size classes of classBytes each, so that a key costs its length rounded up and freed
// room fits the next key of its class.
type arena struct {
	classes [maxKey/classBytes + 1]arenaClass // by ceil(length / classBytes); 0 is not used
}

type arenaClass struct {
	ids    ids
	chunks [][]byte // chunkLen places each
}

const (
	classBytes = 8
	maxKey     = 128
)

func classOf(length int) int { return (length + classBytes - 1) / classBytes }

// add copies key and returns its reference within its class.
func (a *arena) add(key []byte) uint32 {
	class := classOf(len(key))
	k := &a.classes[class]
	ref, grown := k.ids.alloc()
	c := int(ref >> chunkBits)
	if grown {
		for len(k.chunks) <= c {
			k.chunks = append(k.chunks, nil)
		}
		k.chunks[c] = make([]byte, chunkLen*class*classBytes)
	}
	copy(k.chunks[c][int(ref&chunkMask)*class*classBytes:], key)
	return ref
}

// at returns the key of that reference and length. It stays valid until remove.
func (a *arena) at(ref uint32, length uint8) []byte {
	class := classOf(int(length))
	at := int(ref&chunkMask) * class * classBytes
	return a.classes[class].chunks[ref>>chunkBits][at : at+int(length) : at+int(length)]
}

func (a *arena) remove(ref uint32, length uint8) { a.classes[classOf(int(length))].ids.free(ref) }

// trim gives back a chunk of each class that has too many empty ones. It reports whether there was one.
func (a *arena) trim() (trimmed bool) {
	for i := range a.classes {
		if c := a.classes[i].ids.trim(); c != noChunk {
			a.classes[i].chunks[c] = nil
			trimmed = true
		}
	}
	return trimmed
}
