package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"ticketing.internal/client/fence"
)

// A write that is fenced. key and token are the ticket's.
func ExampleCheck() {
	pay := func(ctx context.Context, db *sql.DB, key string, token uint64, cents int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fence.Check(ctx, tx, key, token); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE account SET cents = cents - $1 WHERE key = $2`, cents, key); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = func(ctx context.Context, db *sql.DB, key string, token uint64) {
		if err := pay(ctx, db, key, token, 100); errors.Is(err, fence.ErrStale) {
			fmt.Println("the lease had ended: nothing was paid")
		}
	}
}

// The table, for a migration.
func ExampleSchema() {
	fmt.Println(fence.Schema(fence.PostgreSQL))
	// Output:
	// CREATE TABLE IF NOT EXISTS ticketing_fence (
	// 	key       text COLLATE "C" PRIMARY KEY,
	// 	token     bigint NOT NULL,
	// 	raised_at timestamptz NOT NULL DEFAULT now()
	// )
}
