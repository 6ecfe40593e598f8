// Package lock holds who holds what: the lock table, who waits for it, and the timers of both.
//
// It is pure. There is no goroutine, clock, socket or log in it: time comes with each call, randomness as a seed, and all that
// leaves goes through two interfaces, Log (what is to be recorded) and Sink (what is to be told). The same calls give the same
// results. The caller serialises the calls; see server.
//
// # The way of a request
//
// Acquire, Release and Tick judge what is asked or due against the present state, and offer a Command to the Log. A standalone
// server's Log says ApplyNow; a cluster's says Pending, and tells later that the oldest undecided proposal was committed
// (ApplyOldest), will never be (Lost), or may have been (Unknown). What is applied changes the table; what is decided is
// answered; settle then sees that the key goes on. Every change of a lock takes this way, and there is no other manager for a
// cluster.
//
//	     request, timer
//	           |
//	       judge, wait                    manager.go acquire.go release.go queue.go session.go
//	           |
//	      Log.Propose
//	ApplyNow /   | Pending \ Refused
//	        /    |          \
//	       |  decide         B, or retry  decide.go
//	       |     |
//	     grant, remove                    table.go command.go
//	           |
//	  Sink.Reply, settle                  reply.go release.go
//
// Calls come in batches, each of which ends with EndBatch and a stamp read after it: the leases of what was granted in the
// batch start there, so that none ends early.
//
// A follower has a manager too: it is told of committed commands by Apply, follows the leases on its own clock, and proposes
// nothing until Lead.
//
// # Invariants
//
// CheckInvariants looks for these, and much else; tests call it after every step.
//
//  1. A key has one holder or none. Nothing but a command that was applied makes or unmakes one.
//  2. Tokens of grants grow, and none is above the counter. A Grant that is rejected takes no token.
//  3. Of a key at most one Grant is undecided, and at most one Release or Expire of its present grant.
//  4. A release of a token above the counter is proposed, for it may be a live grant of a leader that this node has not heard
//     of. It takes no slot: nothing waits for it, and no Grant is proposed behind it.
//  5. A queue is never left alone with a free key: its Grant is undecided, or retry will propose it.
//  6. A lock is never held for ever: its timer is set, or its end is undecided, or retry will propose it.
//  7. A waiter is either in the queue of its key with its timer set, or proposed without. Each acquire gets one reply.
//  8. Queues are first in, first out. Only a waiter whose Grant was rejected comes back, to the front.
//  9. No timer fires before its tick has come, and Tick is due no later than the first of them: see NextDeadline.
//  10. What is counted (keys, waiters, in flight, held by session, hash of the state) equals what is there.
//
// # Memory
//
// Records, waiters and queues lie in slabs and are named by ids (slab.go); links between them are ids too, so that there is
// nothing for the collector to follow, and steady traffic allocates nothing. A lock with a key of up to 20 bytes costs 64
// bytes of record, 20 of links and 4 of index; a longer key its length more, in the arena. A waiter costs 56, 20 and 4. What a
// peak leaves is given back in chunks.
//
// The index (index.go) grows by one bucket at a time; the wheel (timers.go) takes constant time for a timer set or cleared,
// and mass expiry is done in parts, as many timers a Tick as its budget says.
package lock
