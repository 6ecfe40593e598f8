package lock

import (
	"encoding/binary"
	"errors"
	"fmt"
)

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

// ErrCommand says that bytes are not a command, or not a whole one.
var ErrCommand = errors.New("not a command of a lock table")

// The encoding of a command: fixed fields, then the key. Integers are unsigned and big-endian.
//
//	offset  size  Grant                   Release       Expire
//	0       1     kind                    kind          kind
//	1       1     key length n, 1..128    key length n  key length n
//	2       8     owner                   token         token
//	10      8     granted_at, unix ms     owner         -
//	18      4     lease, ms               -             -
const (
	grantHeader   = 22
	releaseHeader = 18
	expireHeader  = 10
)

// AppendCommand appends the encoding of c to dst.
func AppendCommand(dst []byte, c *Command) []byte {
	dst = append(dst, byte(c.Kind), byte(len(c.Key)))
	switch c.Kind {
	case KindGrant:
		dst = binary.BigEndian.AppendUint64(dst, c.Owner)
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.GrantedAt))
		dst = binary.BigEndian.AppendUint32(dst, c.LeaseMillis)
	case KindRelease:
		dst = binary.BigEndian.AppendUint64(dst, c.Token)
		dst = binary.BigEndian.AppendUint64(dst, c.Owner)
	default:
		dst = binary.BigEndian.AppendUint64(dst, c.Token)
	}
	return append(dst, c.Key...)
}

// DecodeCommand reads the command that b holds into c, whose key aliases b. All of b must be used. The error is ErrCommand,
// saying why; c is undefined then.
func DecodeCommand(b []byte, c *Command) error {
	if len(b) < 2 {
		return fmt.Errorf("decode command of %d bytes: %w", len(b), ErrCommand)
	}
	header := 0
	switch Kind(b[0]) {
	case KindGrant:
		header = grantHeader
	case KindRelease:
		header = releaseHeader
	case KindExpire:
		header = expireHeader
	default:
		return fmt.Errorf("decode command: %w: kind %d is unknown", ErrCommand, b[0])
	}
	n := int(b[1])
	if n < 1 || n > maxKey || len(b) != header+n {
		return fmt.Errorf("decode command: %w: %d bytes for kind %d and a key of %d bytes", ErrCommand, len(b), b[0], n)
	}
	*c = Command{Kind: Kind(b[0]), Key: b[header:]}
	switch c.Kind {
	case KindGrant:
		c.Owner = binary.BigEndian.Uint64(b[2:])
		c.GrantedAt = int64(binary.BigEndian.Uint64(b[10:]))
		c.LeaseMillis = binary.BigEndian.Uint32(b[18:])
	case KindRelease:
		c.Token = binary.BigEndian.Uint64(b[2:])
		c.Owner = binary.BigEndian.Uint64(b[10:])
	default:
		c.Token = binary.BigEndian.Uint64(b[2:])
	}
	return nil
}
