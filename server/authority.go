package server

import (
	"context"

	"ticketing.internal/lock"
)

// authority stands between the lock manager's commands and their application. It is the only difference between a standalone
// server and a node of a cluster: alone lets commands pass, a replica has a majority record them first.
type authority interface {
	// Called inside a batch of the engine.

	lock.Log
	// decide tells the manager the fate of its undecided commands. It is called at the end of each batch, before leases start.
	decide(now lock.Time)
	// vouch is called once the leases of a batch have started, at now. None of its grants was proposed before first (both in
	// mono ns). After an error none of the grants may be sent.
	vouch(first, now int64) error
	// deadline is by when decide must be called again, in mono ns.
	deadline() int64
	// unready says why acquires are refused at now (mono ns), "" if they are not.
	unready(now int64) string
	// describe fills in the fields of /status that depend on the mode.
	describe(s *Status)

	// Called without the engine's lock.

	// afterBatch is called after each batch.
	afterBatch()
	// begin starts the goroutines that run beside the engine. fail ends the server with an error; it may be called once.
	begin(fail func(error))
	// handOver lets another node lead when the server is about to stop. It waits until one does, or until ctx is over.
	handOver(ctx context.Context)
	// end stops what begin has started. By then there is no connection left that could be granted anything.
	end(ctx context.Context) error
	// reload puts into use the secrets and certificates that may have changed.
	reload(fresh *Config) error
	// release gives back files and ports. It is called once, even if begin never was.
	release()
}
