package raft

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Config is what a Node is made from. New copies it. Zero durations and sizes take the defaults named.
type Config struct {
	Domain Domain
	Self   Member
	// Initial is the InitialConfig that every voter has accepted; nil in a process that joins or rejoins: it has
	// no state until a leader sends it a snapshot.
	Initial *InitialConfig
	// TokenBase is the largest of the credential's base and every acceptor's token mark (Bootstrap.TokenBase).
	TokenBase uint64
	// AfterLoss is the credential's after-loss, or that an acceptor had a marker of another domain.
	AfterLoss bool

	Tick            time.Duration // what one Tick stands for; 10 ms
	Heartbeat       time.Duration // 100 ms; at most a third of ElectionTimeout
	ElectionTimeout time.Duration // 500 ms, the minimum; the maximum is twice it

	LogBytes          int // bound of the in-memory log; 4 MiB, at least 64 KiB
	RetainBytes       int // bound of the log while a snapshot is on its way; 64 MiB
	MaxMessageBytes   int // entries in one message; 256 KiB, at most 960 KiB
	WindowMessages    int // AppendEntries on their way to one member; 64
	WindowBytes       int // the same in bytes; 4 MiB
	MaxApplyBytes     int // entries handed out in one Ready; 128 KiB
	MaxUnappliedBytes int // proposals not applied yet, in bytes; LogBytes

	StateMachine StateMachine
	// Rand draws election timeouts and nothing else.
	Rand *rand.Rand
	// Trace, if set, is told what happens. It must not call the Node.
	Trace func(*Event)
	// TraceEntries has it told of each entry and each count of a quorum too: EventAppended, EventApplied, EventCommitted and
	// EventQuorumHeard. Under load these are most of the work.
	TraceEntries bool
	// Faults is for proving checkers: never set in production.
	Faults *Faults
}

// withDefaults returns c with its zero sizes and durations filled in.
func (c Config) withDefaults() Config {
	setDefault(&c.Tick, 10*time.Millisecond)
	setDefault(&c.Heartbeat, 100*time.Millisecond)
	setDefault(&c.ElectionTimeout, 500*time.Millisecond)
	setDefault(&c.LogBytes, 4<<20)
	setDefault(&c.RetainBytes, max(64<<20, c.LogBytes))
	setDefault(&c.MaxMessageBytes, 256<<10)
	setDefault(&c.WindowMessages, 64)
	setDefault(&c.WindowBytes, 4<<20)
	setDefault(&c.MaxApplyBytes, 128<<10)
	setDefault(&c.MaxUnappliedBytes, c.LogBytes)
	return c
}

// MostLogBytes is what the log takes at most, in bytes.
func (c Config) MostLogBytes() int { return c.withDefaults().RetainBytes }

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// maxMessageBytes leaves room in a frame of 1 MiB for the fixed fields and the SnapshotState.
const maxMessageBytes = 960 << 10

// Validate reports all that is wrong with c, defaults filled in.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(c.Self.NodeID != 0 && c.Self.Incarnation != Incarnation{}, "raft: self %v is not a complete pair", c.Self)
	require(c.Tick > 0, "raft: tick %v is not positive", c.Tick)
	require(c.Heartbeat >= c.Tick, "raft: heartbeat %v is shorter than a tick of %v", c.Heartbeat, c.Tick)
	require(c.Heartbeat*3 <= c.ElectionTimeout, "raft: heartbeat %v is more than a third of the election timeout %v",
		c.Heartbeat, c.ElectionTimeout)
	require(c.LogBytes >= 64<<10, "raft: log of %d bytes is under 64 KiB", c.LogBytes)
	require(c.RetainBytes >= c.LogBytes, "raft: %d bytes retained are fewer than the log's %d", c.RetainBytes, c.LogBytes)
	require(c.MaxMessageBytes >= MaxEntryBytes+entryOverhead && c.MaxMessageBytes <= maxMessageBytes,
		"raft: messages of %d bytes are outside %d..%d", c.MaxMessageBytes, MaxEntryBytes+entryOverhead, maxMessageBytes)
	require(c.WindowMessages > 0 && c.WindowBytes > 0, "raft: window of %d messages, %d bytes is not positive",
		c.WindowMessages, c.WindowBytes)
	require(c.MaxApplyBytes > 0, "raft: %d bytes to apply at once are not positive", c.MaxApplyBytes)
	require(c.MaxUnappliedBytes > 0, "raft: %d unapplied bytes are not positive", c.MaxUnappliedBytes)
	require(c.StateMachine != nil, "raft: no state machine")
	require(c.Rand != nil, "raft: no random generator")
	if c.Initial != nil {
		require(c.Initial.Domain == c.Domain, "raft: InitialConfig of another domain")
		if err := c.Initial.Validate(); err != nil {
			errs = append(errs, err)
		} else {
			require(c.Initial.find(c.Self) != nil, "raft: InitialConfig does not name %v", c.Self)
		}
	}
	return errors.Join(errs...)
}
