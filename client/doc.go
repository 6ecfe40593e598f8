// Package client takes distributed locks from Ticketing servers.
//
// A lock is a key that is granted to one holder at a time, for a lease: at most 250 s, after which it is free again
// whatever became of the holder. Make one [Broker] for the process and share it:
//
//	broker, err := client.New(client.Config{Addrs: []string{"10.0.0.1:5225"}, Token: token})
//	if err != nil { ... } // of the configuration: New does not wait for the network
//	defer broker.Close()
//
//	err = broker.Do(ctx, "order-1234", 5*time.Second, 30*time.Second, func(ctx context.Context, t *client.Ticket) error {
//		return work(ctx) // ctx ends when the lease does
//	})
//
// [Broker.Do] waits at most 5 s for its turn, runs the function while it holds the lock for at most 30 s, and releases
// it. [Broker.Acquire] and [Ticket.Release] are the same in two steps. Waiters are served first come, first served.
//
// # What can happen
//
// Acquire returns a [Ticket] or an error, and the error says what is known:
//
//	ErrTimeout         not granted within the wait: somebody else holds the key
//	ErrBusy            not granted, and never will be: no leader, a limit, a restart. *BusyError says why
//	ErrIndeterminate   nobody knows whether it was granted: stay out of the critical section. *IndeterminateError
//	                   says until when a grant that nobody knows of may stand
//
// An Acquire is sent once. If its connection ends before the answer, that is ErrIndeterminate: sending it again could
// take the lock twice. An Acquire that was not sent yet is tried elsewhere, within its wait.
//
// # A lock that ends
//
// The lease ends by itself. [Ticket.Deadline] is the moment by which the work must be over; it lies before the end of
// the lease on the server, without any agreement of clocks, and it counts time for which the machine was suspended.
// [Ticket.Context] ends there, also when every connection is down. Work that does not look at either may run on while
// somebody else has been granted the key. Nothing that a lock server does can prevent that; what can is the resource
// itself, by refusing a [Ticket.Token] that is lower than one it has seen: tokens grow with every grant. Package
// client/fence does that for a database.
//
// There is no renewal, and the same caller asking for the same key again waits for itself.
//
// # Connections
//
// A Broker keeps a connection to every address, two where there is only one, and dials again what ends. In a cluster
// the leader alone grants; the Broker finds it and follows it. Requests of all goroutines share the connections. All
// servers must know the Token, which is never sent, and be of one domain: one life of a server or cluster, outside
// which tokens mean nothing.
package client

// How it works, for those who change it.
//
//	goroutine          started by        ends                     does
//	peer.run           New, a hint       Close, hint outdated     dials, shakes hands, reads the session, pauses
//	session.write      peer.attempt      with the session         writes what a caller could not write itself
//	Broker.keep        New               Close                    pings, time limits, repeats of releases
//	timerfd.run        first Context     Close                    ends contexts (Linux; elsewhere a timer)
//
// No goroutine works for a single caller. The caller queues its request under Broker.mu, writes it if nobody else is
// writing, and waits until its waiter is woken by whoever settles the request, most often the reader. If nothing else is in
// flight it reads the reply itself: see lend.go.
//
// Locks: Broker.mu, and apart from it watch.mu and the alarm's, in this order. A hook or a log line is never called under
// one; contexts are cancelled under watch.mu, which runs no code of users.
//
// A request is always in exactly one place. An acquire: the caller's (before enqueue, after it was woken), Broker.parked,
// or session.calls of one session. A release: nowhere, or in Broker.releases, with the session that carries it, if any,
// in release.session.
