package server

// counters are what the sessions count beside the manager's Stats. Guarded by the engine's lock.
type counters struct {
	authFailures      uint64
	slowReadersClosed uint64
}
