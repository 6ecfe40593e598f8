// Package server is where bytes, time and goroutines meet: listening ports, sessions, the engine, the state file, the admin
// endpoint, the connections between nodes, and the configuration of all that.
//
// # The way of a request
//
// On Linux a plaintext connection belongs to an event loop (loop_linux.go). In one turn the loop
//
//  1. reads once from each ready connection, into one arena (read);
//  2. reads the clock, so that no time stamp is older than the input that it stamps;
//  3. enters the engine once for everything that was read (decide): frames are decoded in place (session.go, legacy.go), the
//     lock manager decides, and replies are encoded into outboxes (conn.go);
//  4. leaves the engine, which starts the leases that were granted (engine.leave);
//  5. writes each outbox with one system call (flush).
//
// A request that need not wait thus crosses no goroutine, takes one uncontended lock together with its whole batch, and
// allocates nothing. A reply to a connection of another loop goes as mail, and that loop is woken when the batch ends.
//
// TLS connections, and all connections on other systems, are streams (stream.go): a goroutine reads, and takes the same steps
// for its one connection.
//
// # The way of a command in a cluster
//
// Step 3 proposes commands to an authority (authority.go). A standalone server's (alone.go, gate.go) has them applied at once. A
// node's (replica.go) has a majority record them first, and the request continues like this:
//
//  1. On the leader, replica.Propose hands the encoded command to its raft.Node and tells the manager that it is pending.
//  2. When the batch ends, replica.drain takes the node's output: AppendEntries messages are queued for each follower, and once
//     the engine's lock is free they are written (peerTransport.flush).
//  3. A follower's first loop reads them like requests (loop_peer_linux.go), steps its own raft.Node inside a batch, and answers.
//  4. The leader's first loop reads these answers in the same turns and batches as the requests of clients. As soon as a majority
//     has recorded the entry, replica.drain applies it (Manager.ApplyOldest), and from here on the reply goes the usual way.
//  5. A follower learns with the next message that the entry is committed, and applies it too (Manager.Apply).
//
// With TLS between nodes, or without loops, goroutines read the connections of nodes (peer_conn.go); the steps are the same.
//
// # Goroutines
//
//	goroutine      started by           ends when              owns
//	event loop     transport.run        transport.stop         its connections, arena, spare outboxes, time limits
//	stream reader  streams.start        its connection ends    its connection's input
//	stream flusher shard.wake           all mail is written    nothing: it holds stream.writing meanwhile
//	time keeper    transport.run        transport.stop         nothing (only where there are no event loops)
//	acceptor       Run                  acceptor.stop          the listening socket
//	state writer   authority.begin      stateWriter.stop       the state file's temporary file
//	page keeper    Run                  Run returns            nothing
//	event log      Run                  events.stop            the log lines that clients cause
//	admin          Run                  admin.stop             HTTP requests, each in a goroutine of its own
//	member         member.begin         member.end             nothing: bootstraps, joins or rejoins, then repeats chores each second
//	peer acceptor  peerTransport.start  peerTransport.close    the peer port
//	peer reader    peer acceptor        its connection ends    an accepted connection's handshake, and its input unless a loop has it
//	peer dialer    setTargets           its target is gone     one target: dials, then handshake and input
//	peer writer    peerConn.start       its connection ends    nothing: it holds peerConn.writing meanwhile
//
// # Locks
//
// A lock on the left is taken before one on the right, never the other way round:
//
//	clients  stream.writing          -> engine.mu -> admission.mu
//	nodes    peerTransport.turnover  -> engine.mu -> peerTransport.mu, peerQueue.mu
//
// peerConn.writing is never waited for under engine.mu. Nothing else is waited for under it either, but for one write of the state
// file, after a batch during which the machine stood still (gate.settle).
//
// # The end
//
// After Stop the acceptor ends, a leader hands over, waiters get B shutting_down, and releases still pass. When no connected client
// holds a key, or the drain time-out is over, streams and loops write what is decided and end. Then the state file gets its last
// record, which therefore covers every grant; then the admin endpoint and the log end.
package server
