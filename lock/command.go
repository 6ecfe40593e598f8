package lock

// Kind says what a Command does.
type Kind uint8

// The kinds of commands. The values are part of the encoding.
const (
	KindGrant   Kind = 1 // take a free key
	KindRelease Kind = 2 // give a key back, if its holder is exactly this one
	KindExpire  Kind = 3 // the lease of exactly this token has ended
)

// Command is a change of the lock table, as it is replicated.
type Command struct {
	Kind        Kind
	Paced       bool   // not replicated: the manager offers it again if it is refused, see Log
	LeaseMillis uint32 // Grant
	Owner       uint64 // Grant, Release
	Token       uint64 // Release, Expire
	GrantedAt   int64  // Grant: unix ms at the leader, for people only
	Key         []byte
}

// Outcome says what a Command did when it was applied.
type Outcome uint8

// The outcomes.
const (
	Granted       Outcome = iota + 1
	GrantRejected         // the key was held
	Released
	NotFound // Release: the key was not held so
	Expired
	NotExpired // Expire: the key was not held so
)

// Result is what a Command did when it was applied. It is the same on every node.
type Result struct {
	Outcome Outcome
	Token   uint64 // Granted: the new token
}

// AppendCommand appends the encoding of c to dst.
func AppendCommand(dst []byte, c *Command) []byte { return dst }

// DecodeCommand reads the command that b holds into c, whose key aliases b.
// All of b must be used; the error is ErrCommand otherwise.
func DecodeCommand(b []byte, c *Command) error { return nil }
