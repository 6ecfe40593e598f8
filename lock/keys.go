package lock

import "bytes"

// KeyInfo is what people want to know of a held key.
type KeyInfo struct {
	Key       string
	Owner     uint64
	Token     uint64
	Here      bool   // granted by this node, to Client
	Client    Client // if Here
	GrantedAt int64  // unix ms
	LeaseEnd  int64  // ns of Time.Mono, rounded up to the timers' tick
	Waiters   int    // acquires in the queue; 0 where nobody leads
}

// KeysQuery selects held keys.
type KeysQuery struct {
	Prefix     string
	HeldMillis int64  // only keys held for at least this long
	After      uint32 // the cursor that the previous call returned; 0 starts
	Limit      int    // at most so many keys; 0 is 1,000, and so is more
	Scan       int    // look at most at so many places of the table; 0 is 65,536
}

const (
	maxKeys     = 1000
	defaultScan = 65536
)

// Keys appends to dst the held keys that q selects, in no order. next is where to go on, 0 at the end; a page may be short,
// or empty, before the end. A key held from the first call to the last is told exactly once.
func (m *Manager) Keys(now Time, dst []KeyInfo, q *KeysQuery) (keys []KeyInfo, next uint32) {
	limit, scan, prefix := q.Limit, q.Scan, []byte(q.Prefix)
	if limit <= 0 || limit > maxKeys {
		limit = maxKeys
	}
	if scan <= 0 {
		scan = defaultScan
	}
	id := q.After
	for ; limit > 0 && scan > 0; scan-- {
		if id = m.table.ids.next(id); id == 0 {
			return dst, 0
		}
		r := m.records.at(id)
		if r.flags&held == 0 || !bytes.HasPrefix(m.keyOf(r), prefix) {
			continue
		}
		end := m.leaseEnd(id, r, now)
		heldFor := now.Mono - (end - int64(r.leaseMillis)*nanosPerMilli)
		if q.HeldMillis > 0 && heldFor < q.HeldMillis*nanosPerMilli {
			continue
		}
		dst = append(dst, m.keyInfo(r, end))
		limit--
	}
	return dst, id
}

// leaseEnd returns when the lease of a lock ends, or would end if it started now.
func (t *table) leaseEnd(id uint32, r *record, now Time) int64 {
	if r.flags&fresh != 0 {
		return now.Mono + int64(r.leaseMillis)*nanosPerMilli
	}
	return int64(t.leases.due(id) << tickShift)
}

func (m *Manager) keyInfo(r *record, end int64) KeyInfo {
	k := KeyInfo{
		Key: string(m.keyOf(r)), Owner: r.owner, Token: r.token, GrantedAt: r.grantedAt, LeaseEnd: end, Waiters: m.queueLen(r),
	}
	if r.session != 0 {
		k.Here, k.Client = true, m.sessions.at(uint32(r.session)).client
	}
	return k
}
