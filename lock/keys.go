package lock

// KeyInfo is what people want to know of a held key.
type KeyInfo struct {
	Key       string
	Owner     uint64
	Token     uint64
	Here      bool   // granted by this node to a client that it knows
	Client    Client // if Here
	GrantedAt int64  // unix ms
	LeaseEnd  int64  // ns of Time.Mono, rounded up to the timers' tick
	Waiters   int    // acquires in the queue; 0 on a follower
}

// KeysQuery selects held keys.
type KeysQuery struct {
	Prefix     string
	HeldMillis int64  // only keys held for at least this long
	After      uint32 // the cursor that the previous call returned; 0 starts
	Limit      int    // at most so many keys, 1..1000
	Scan       int    // look at most at so many places of the table; 0 is 65,536
}

// Keys appends to dst the held keys that q selects, in no order. next is where to go on, 0 at the end; a page may be short,
// or empty, before the end. A key held from the first call to the last is told exactly once.
func (m *Manager) Keys(now Time, dst []KeyInfo, q *KeysQuery) (keys []KeyInfo, next uint32) {
	return dst, 0
}
