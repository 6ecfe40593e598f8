package lock

import "ticketing.internal/wire"

// Verdict is what a Log says about a proposal.
type Verdict uint8

// The verdicts. A Log may mix them, but not overtake: no Grant of a key is to be applied at once while a Release or an Expire
// of it is pending.
const (
	Refused  Verdict = iota // nothing happened and nothing will
	Pending                 // decided later, in the order of proposing, by ApplyOldest, Lost or Unknown
	ApplyNow                // decided: the manager applies it before it does anything else
)

// Log stands between a command and its application, and is all that a standalone server and a cluster differ in.
type Log interface {
	// Propose is asked to record c. c is the manager's scratch: copy what is kept. A proposal with c.Paced is refused only
	// where no proposal could pass, for no quota: the manager offers it again at a later Tick. With Refused comes the code
	// that the client is told.
	Propose(now Time, c *Command) (Verdict, wire.Busy)
}
