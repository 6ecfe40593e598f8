package server

// The keep-alive options and the time-out that docs/protocol.md asks for on every client socket.
const (
	keepAliveIdleSeconds     = 10
	keepAliveIntervalSeconds = 5
	keepAliveProbes          = 2
	userTimeoutMillis        = 20_000
)
