// Package fence keeps a holder whose lease has ended from writing to a database.
//
// A lock server cannot stop a process that was paused for longer than its lease and wakes up believing that it still
// holds the lock. The database can: it remembers, for each key, the highest token that it has accepted, and refuses
// a lower one in the same transaction as the write that the lock guards.
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	defer tx.Rollback()
//	if err := fence.Check(ctx, tx, ticket.Key(), ticket.Token()); err != nil {
//		return err // fence.ErrStale: somebody else has been granted the lock since
//	}
//	// read and write what the lock guards, in this transaction
//	return tx.Commit()
//
// Check comes first in the transaction, so that nothing that was read is older than the mark. It holds the key's row
// until the transaction ends: transactions of two holders of one key never overlap. To raise the mark in a transaction
// of its own and to write afterwards is not safe: the pause can come in between.
//
// PostgreSQL is supported, on any driver for database/sql, at every isolation level. The tests, on a real one, are the
// nested module fencetest.
package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
)

// ErrStale says that a grant with a higher token has been at work: the caller's lease has ended. Nothing may be
// committed on the strength of it.
var ErrStale = errors.New("stale token: the lock has been granted to somebody else since; roll back and stop")

// Dialect is a kind of database.
type Dialect int

// The dialects that are tested.
const (
	PostgreSQL Dialect = 1
)

// Schema returns the statement that makes the table of marks, for a migration; "" for an unknown dialect. Running it
// again is harmless. A row is about 100 bytes and stays: delete those that were raised longer ago than any process can
// have been paused, by their raised_at.
func Schema(d Dialect) string {
	if d != PostgreSQL {
		return ""
	}
	// Collation C: two keys are equal only if their bytes are.
	return `CREATE TABLE IF NOT EXISTS ticketing_fence (
	key       text COLLATE "C" PRIMARY KEY,
	token     bigint NOT NULL,
	raised_at timestamptz NOT NULL DEFAULT now()
)`
}

// raise does not touch the row of a higher token, but locks it all the same: two transactions with the same key come one
// after the other whatever their tokens are.
const raise = `INSERT INTO ticketing_fence AS mark (key, token) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET token = excluded.token, raised_at = excluded.raised_at
WHERE mark.token <= excluded.token`

// Check raises the mark of key to token in the caller's transaction. The same token again is allowed: it is the same
// grant. A lower one is ErrStale, and the transaction must be rolled back.
//
// Any other error is the database's, and the transaction must be rolled back too. At the isolation levels repeatable
// read and serializable a concurrent transaction with the same key makes it a serialization failure (SQLSTATE 40001):
// run the whole transaction again, as for any other.
func Check(ctx context.Context, tx *sql.Tx, key string, token uint64) error {
	if token > math.MaxInt64 {
		return fmt.Errorf("fence %q: token %d does not fit a bigint, and no server grants it", key, token)
	}
	result, err := tx.ExecContext(ctx, raise, key, int64(token))
	if err != nil {
		return fmt.Errorf("fence %q: %w", key, err)
	}
	accepted, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence %q: %w", key, err)
	}
	if accepted == 0 {
		return fmt.Errorf("fence %q with token %d: %w", key, token, ErrStale)
	}
	return nil
}
