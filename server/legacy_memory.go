package server

import "time"

// legacyRoom is how many grants the v0 sessions together remember, and how many they may.
type legacyRoom struct {
	grants, limit int
	squeezeAt     int64 // as in legacySession
}

const (
	// legacyMemory is how long after the end of its lease a release of the key can still mean a grant, in ns.
	legacyMemory = 250 * int64(time.Second)
	// legacyGrantsPerKey is how many grants all sessions may remember for each key that may be held: one that is held, and one
	// that has ended.
	legacyGrantsPerKey = 2
	// squeezePause is the time between two attempts to make room, in ns: each looks at every remembered grant.
	squeezePause = int64(time.Second)
	// minSweep is the smallest number of remembered grants at which a session drops the expired ones.
	minSweep = 64
)

// count notes that n more grants are remembered.
func (l *legacySession) count(n int) {
	l.grants += n
	l.room.grants += n
}

// end gives the room for the session's grants back, when it is over.
func (l *legacySession) end() { l.count(-l.grants) }

// forget drops the grants of k that a release no longer means, and returns how many there were.
func (k *legacyKey) forget(now int64) (dropped int) {
	kept := k.grants[:0]
	for _, g := range k.grants {
		if now < g.forget {
			kept = append(kept, g)
		}
	}
	dropped = len(k.grants) - len(kept)
	k.grants = kept
	return dropped
}

// mayRemember reports whether there is room for one more grant of l. When there is none, it first forgets the grants whose leases
// have ended, not only those that ended legacyMemory ago.
func (e *engine) mayRemember(now int64, l *legacySession) bool {
	limit := int(e.welcomer.inFlight)
	if l.grants >= limit && now >= l.squeezeAt {
		l.squeezeAt = now + squeezePause
		l.forgetAll(now + legacyMemory)
	}
	if r := l.room; r.grants >= r.limit && now >= r.squeezeAt {
		r.squeezeAt = now + squeezePause
		for _, c := range e.sessions {
			if c != nil && c.legacy != nil {
				c.legacy.forgetAll(now + legacyMemory)
			}
		}
	}
	return l.grants < limit && l.room.grants < l.room.limit
}

// maybeSweep drops expired grants once the number of remembered ones has doubled, so that clients that never release cost memory
// for a while and not for ever.
func (l *legacySession) maybeSweep(now int64) {
	if l.grants < l.sweep {
		return
	}
	l.forgetAll(now)
	l.sweep = max(minSweep, 2*l.grants)
}

// forgetAll drops, over all keys, the grants that a release at now no longer means.
func (l *legacySession) forgetAll(now int64) {
	for _, k := range l.keys {
		l.count(-k.forget(now))
		l.maybeDrop(k)
	}
}
