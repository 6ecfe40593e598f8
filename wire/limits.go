package wire

// Limits of version 1. Values outside them are refused, never clamped.
const (
	MaxKey         = 128       // bytes of a key; the least is 1
	MaxName        = 64        // bytes of a client's name; the least is 0
	MaxText        = 255       // bytes of an address or a reason behind a reply
	MaxWaitMillis  = 3_600_000 // longest wait in ms; 0 is one immediate attempt
	MinLeaseMillis = 1_000     // shortest lease in ms
	MaxLeaseMillis = 250_000   // longest lease in ms
)

// Limits of version 0, where they differ.
const (
	MaxLegacyKey          = 192   // bytes of a line's key part; a longer one is malformed, 129..192 is a bad key
	MaxLegacyWaitSeconds  = 3_600 // a longer wait is taken as this, and so is 0
	MinLegacyLeaseSeconds = 1     // a shorter lease is refused
	MaxLegacyLeaseSeconds = 250   // a longer lease is refused
)

// CheckAcquire checks the ranges of a decoded acquire in the protocol's order: owner, key, wait, lease.
// ok is true if all of them hold; otherwise f is the first that does not. Whether the owner is in flight already only the
// caller knows; that check belongs between owner and key.
func CheckAcquire(r *Request) (f Failure, ok bool) {
	if f, ok = CheckRelease(r); !ok {
		return f, false
	}
	if r.Wait > MaxWaitMillis {
		return InvalidWait, false
	}
	if r.Lease-MinLeaseMillis > MaxLeaseMillis-MinLeaseMillis {
		return InvalidLease, false
	}
	return 0, true
}

// CheckRelease checks the ranges of a decoded release or withdrawal: owner, then key.
// ok is true when both hold; else f is the first that does not.
func CheckRelease(r *Request) (f Failure, ok bool) {
	if r.Owner == 0 {
		return InvalidOwner, false
	}
	if !ValidKey(r.Key) {
		return InvalidKey, false
	}
	return 0, true
}
