// Package server is where bytes, time and goroutines meet: listening ports, sessions, the engine, the state file, the admin
// endpoint, and the configuration of all that.
//
// # The way of a request
//
// On Linux a plaintext connection belongs to an event loop (loop_linux.go). In one turn the loop
//
//  1. reads once from each ready connection, into one arena (read);
//  2. reads the clock, so that no stamp is older than the input it stamps;
//  3. enters the engine once for everything that was read (decide): frames are decoded in place (session.go, legacy.go), the
//     lock manager decides, and replies are encoded into outboxes (conn.go);
//  4. leaves the engine, which starts the leases that were granted (engine.leave);
//  5. writes each outbox with one call (flush).
//
// A request that need not wait thus crosses no goroutine, takes one uncontended lock together with its whole batch, and
// allocates nothing. A reply to a connection of another loop goes as mail, and its loop is woken when the batch ends.
//
// In a cluster the first loop also reads the plaintext connections of other nodes (loop_peer_linux.go), in the same turns: what a
// follower has recorded becomes a reply to a client without passing from one goroutine to another.
//
// TLS connections, and all connections on other systems, are streams (stream.go): a goroutine reads and does the same steps
// for its one connection.
//
// # Goroutines
//
//	goroutine            started by         ends when                 owns
//	event loop           transport.run      transport.stop            its connections, arena, spare outboxes, time limits
//	stream reader        streams.start      its connection ends       its connection's input
//	stream flusher       shard.wake         all mail is written       nothing: it holds stream.writing meanwhile
//	time keeper          transport.run      transport.stop            nothing (only where there are no event loops)
//	acceptor             Run                acceptor.stop             the listening socket
//	state writer         Run                stateWriter.stop          the state file's temporary file
//	page keeper          Run                Run returns               nothing
//	event log            Run                events.stop               the log lines that clients cause
//	admin                Run                admin.stop                HTTP requests, each its own
//	peer acceptor        peerTransport.start peerTransport.close      the peer port
//	peer reader          peer acceptor      its connection ends       an accepted connection's handshake, and its input unless a loop has it
//	peer dialer          setTargets         its target is gone        one target: dials, then handshake and input
//	peer writer          peerConn.start     its connection ends       nothing: it holds peerConn.writing meanwhile
//
// # Locks
//
// stream.writing comes before engine.mu, which comes before admission.mu. Between nodes: peerTransport.turnover comes before
// engine.mu, which comes before peerTransport.mu and peerQueue.mu; peerConn.writing is never waited for under engine.mu. Nothing is waited for under engine.mu but a write
// of the state file in one case that gate.settle describes: a batch during which the machine stood still.
//
// # The end
//
// Stop: the acceptor ends, waiters get B shutting_down, releases still pass; when no connected client holds a key, or the
// drain time-out is over: streams and loops end, having written what is decided; then the state file gets its last record,
// which therefore covers every grant; then the admin endpoint and the log.
package server
