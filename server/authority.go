package server

import (
	"context"

	"ticketing.internal/lock"
)

// authority stands between the lock manager's commands and their application, and is all that a standalone server and a node
// of a cluster differ in: alone lets them pass, a replica has a majority record them first.
type authority interface {
	// Called inside a batch of the engine.

	lock.Log
	// decide tells the manager what has become of its undecided commands. It is called at the end of each batch, before
	// leases start.
	decide(now lock.Time)
	// vouch is called once the leases of a batch have started: the first of its grants was proposed at first at the
	// earliest, and they start at now (mono ns). After an error none of them may leave.
	vouch(first, now int64) error
	// deadline is when it must be asked again at the latest, in mono ns.
	deadline() int64
	// unready says why acquires are refused at now (mono ns), "" if they are not.
	unready(now int64) string
	// describe fills in what /status says of the mode, and of what belongs to it.
	describe(s *Status)

	// Called without the engine's lock.

	// left follows each batch.
	left()
	// begin starts what runs beside the engine. fail, which may be called once, ends the server with an error.
	begin(fail func(error))
	// handOver lets others serve, when the server is about to stop. It waits until then, at most as long as ctx.
	handOver(ctx context.Context)
	// end stops what begin has started, when no connection is left that could be granted anything.
	end(ctx context.Context) error
	// reload takes secrets and certificates that may have changed into use.
	reload(fresh *Config) error
	// release gives back files and ports. It is called once, also where begin was not.
	release()
}
