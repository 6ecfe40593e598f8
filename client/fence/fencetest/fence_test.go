package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"ticketing.internal/client/fence"
)

// levels are the isolation levels that PostgreSQL offers. It runs the first as the second.
var levels = []sql.IsolationLevel{
	sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
}

// account is what the lock guards, in these tests: one row with the token of who wrote it.
const account = `CREATE TABLE account (key text PRIMARY KEY, token bigint NOT NULL, note text NOT NULL)`

// suite is one database; keys keep its tests apart.
type suite struct {
	*testing.T
	db  *sql.DB
	key string
}

func TestPostgreSQL(t *testing.T) {
	db := postgres(t)
	must(t, db, account)
	must(t, db, `CREATE TABLE history (n bigserial, key text, token bigint)`)
	tests := []struct {
		name string
		test func(s *suite, level sql.IsolationLevel)
	}{
		{"tokens", tokens},
		{"rollback leaves no mark", rollback},
		{"paused holder", pausedHolder},
		{"lower token waits behind a higher one", lowerBehindHigher},
		{"higher token waits behind a lower one", higherBehindLower},
		{"the one before rolls back", behindRollback},
		{"stress", stress},
	}
	for _, level := range levels {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%v/%s", level, tt.name), func(t *testing.T) {
				tt.test(&suite{t, db, t.Name()}, level)
			})
		}
	}
	t.Run("mark first and write later", func(t *testing.T) { markFirst(&suite{t, db, t.Name()}) })
	t.Run("keys", func(t *testing.T) { keys(&suite{t, db, t.Name()}) })
	t.Run("a million keys", func(t *testing.T) { millionKeys(&suite{t, db, t.Name()}) })
}

func (s *suite) begin(level sql.IsolationLevel) *sql.Tx {
	s.Helper()
	tx, err := s.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { tx.Rollback() })
	return tx
}

func (s *suite) check(tx *sql.Tx, token uint64) error {
	return fence.Check(context.Background(), tx, s.key, token)
}

func (s *suite) write(tx *sql.Tx, token uint64, note string) {
	s.Helper()
	_, err := tx.Exec(`INSERT INTO account AS a VALUES ($1, $2, $3)
		ON CONFLICT (key) DO UPDATE SET token = excluded.token, note = excluded.note`, s.key, int64(token), note)
	if err != nil {
		s.Fatal(err)
	}
}

// work is a holder's transaction, from its beginning to its end.
func (s *suite) work(level sql.IsolationLevel, token uint64, note string) error {
	s.Helper()
	tx := s.begin(level)
	defer tx.Rollback()
	if err := s.check(tx, token); err != nil {
		return err
	}
	s.write(tx, token, note)
	return tx.Commit()
}

func (s *suite) expect(note string) {
	s.Helper()
	var got string
	err := s.db.QueryRow(`SELECT note FROM account WHERE key = $1`, s.key).Scan(&got)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	if err != nil || got != note {
		s.Errorf("the account says %q, %v; want %q", got, err, note)
	}
}

func (s *suite) mark() (token uint64) {
	s.Helper()
	err := s.db.QueryRow(`SELECT token FROM ticketing_fence WHERE key = $1`, s.key).Scan(&token)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.Fatal(err)
	}
	return token
}

// serialization reports whether the whole transaction is to be run again.
func serialization(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == "40001"
}

// snapshots reports whether the level sees the database as it was at the transaction's first statement.
func snapshots(level sql.IsolationLevel) bool { return level >= sql.LevelRepeatableRead }

func tokens(s *suite, level sql.IsolationLevel) {
	steps := []struct {
		token uint64
		want  error
		note  string // afterwards
	}{
		{5, nil, "5"},
		{5, nil, "5"}, // the same grant again
		{4, fence.ErrStale, "5"},
		{7, nil, "7"},
		{6, fence.ErrStale, "7"},
		{0, fence.ErrStale, "7"},
		{math.MaxInt64, nil, fmt.Sprint(uint64(math.MaxInt64))},
		{7, fence.ErrStale, fmt.Sprint(uint64(math.MaxInt64))},
	}
	for _, step := range steps {
		if err := s.work(level, step.token, fmt.Sprint(step.token)); !errors.Is(err, step.want) {
			s.Errorf("token %d: %v, want %v", step.token, err, step.want)
		}
		s.expect(step.note)
	}
	if err := s.work(level, math.MaxInt64+1, "no"); err == nil || errors.Is(err, fence.ErrStale) {
		s.Errorf("a token that does not fit: %v", err)
	}
	tx := s.begin(level)
	for range 2 { // twice in one transaction
		if err := s.check(tx, math.MaxInt64); err != nil {
			s.Error(err)
		}
	}
}

func rollback(s *suite, level sql.IsolationLevel) {
	tx := s.begin(level)
	if err := s.check(tx, 9); err != nil {
		s.Fatal(err)
	}
	s.write(tx, 9, "nine")
	if err := tx.Rollback(); err != nil {
		s.Fatal(err)
	}
	if mark := s.mark(); mark != 0 {
		s.Errorf("the mark is %d", mark)
	}
	s.expect("")
	if err := s.work(level, 3, "three"); err != nil {
		s.Error(err)
	}
	s.expect("three")
}

// The accident: a holder is paused past its lease between any two of its steps, and another works meanwhile.
func pausedHolder(s *suite, level sql.IsolationLevel) {
	pauses := []string{"before the transaction", "after its beginning", "after a first read"}
	for i, pause := range pauses {
		base := uint64(i) * 10
		must(s.T, s.db, `INSERT INTO account VALUES ($1, 0, 'before') ON CONFLICT DO NOTHING`, s.key)
		next := func() {
			if err := s.work(level, base+6, "by the next holder"); err != nil {
				s.Fatal(err)
			}
		}
		if pause == pauses[0] {
			next()
		}
		paused := s.begin(level)
		if pause == pauses[1] {
			next()
		}
		var n int // the snapshot is taken by the first statement
		if err := paused.QueryRow(`SELECT count(*) FROM account`).Scan(&n); err != nil {
			s.Fatal(err)
		}
		if pause == pauses[2] {
			next()
		}
		err := s.check(paused, base+5)
		if !errors.Is(err, fence.ErrStale) && !(snapshots(level) && serialization(err)) {
			s.Errorf("paused %s: %v", pause, err)
		}
		paused.Rollback()
		s.expect("by the next holder")
		if err := s.work(level, base+5, "by the paused one"); !errors.Is(err, fence.ErrStale) { // and when it tries again
			s.Errorf("paused %s, again: %v", pause, err)
		}
		s.expect("by the next holder")
	}
}

// concurrent runs first's Check, then second's at the same time, which must wait for the end of first.
func concurrent(s *suite, level sql.IsolationLevel, first, second uint64, end func(*sql.Tx) error) (tx *sql.Tx, err error) {
	s.Helper()
	one, two := s.begin(level), s.begin(level)
	if err := s.check(one, first); err != nil {
		s.Fatal(err)
	}
	s.write(one, first, fmt.Sprint(first))
	result := make(chan error, 1)
	go func() { result <- s.check(two, second) }()
	s.awaitBlocked()
	select {
	case err := <-result:
		s.Fatalf("token %d was not kept waiting by token %d: %v", second, first, err)
	default:
	}
	if err := end(one); err != nil {
		s.Fatal(err)
	}
	return two, <-result
}

// awaitBlocked returns when a connection waits for another's lock.
func (s *suite) awaitBlocked() {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var n int
		if err := s.db.QueryRow(`SELECT count(*) FROM pg_locks WHERE NOT granted`).Scan(&n); err != nil {
			s.Fatal(err)
		}
		if n > 0 {
			return
		}
		<-time.After(time.Millisecond)
	}
	s.Fatal("no connection waits for a lock")
}

func lowerBehindHigher(s *suite, level sql.IsolationLevel) {
	for _, prior := range []bool{false, true} { // the row is new, or was there
		if prior {
			must(s.T, s.db, `UPDATE ticketing_fence SET token = 1 WHERE key = $1`, s.key)
		}
		tx, err := concurrent(s, level, 6, 5, (*sql.Tx).Commit)
		tx.Rollback()
		if !errors.Is(err, fence.ErrStale) && !(snapshots(level) && serialization(err)) {
			s.Errorf("prior row %v: %v", prior, err)
		}
		if err := s.work(level, 5, "late"); !errors.Is(err, fence.ErrStale) {
			s.Errorf("prior row %v, again: %v", prior, err)
		}
		s.expect("6")
	}
}

func higherBehindLower(s *suite, level sql.IsolationLevel) {
	for _, prior := range []bool{false, true} {
		if prior {
			must(s.T, s.db, `UPDATE ticketing_fence SET token = 1 WHERE key = $1`, s.key)
		}
		tx, err := concurrent(s, level, 5, 6, (*sql.Tx).Commit)
		if snapshots(level) {
			if !serialization(err) {
				s.Errorf("prior row %v: %v", prior, err)
			}
			tx.Rollback()
			err = s.work(level, 6, "6")
		} else if err == nil {
			s.write(tx, 6, "6")
			err = tx.Commit()
		}
		if err != nil {
			s.Errorf("prior row %v: %v", prior, err)
		}
		s.expect("6")
	}
}

// A higher token whose transaction came to nothing was never at work.
func behindRollback(s *suite, level sql.IsolationLevel) {
	tx, err := concurrent(s, level, 6, 5, (*sql.Tx).Rollback)
	if err != nil {
		s.Fatal(err)
	}
	s.write(tx, 5, "5")
	if err := tx.Commit(); err != nil {
		s.Error(err)
	}
	s.expect("5")
	if mark := s.mark(); mark != 5 {
		s.Errorf("the mark is %d", mark)
	}
}

// Many holders with tokens in any order, each committing or rolling back: what was committed was committed in the order
// of tokens.
func stress(s *suite, level sql.IsolationLevel) {
	var workers sync.WaitGroup
	for i := range 8 {
		random := rand.New(rand.NewPCG(uint64(i), uint64(level)))
		workers.Go(func() {
			for n := range 60 {
				token := uint64(n*4 + random.IntN(40))
				tx, err := s.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
				if err != nil {
					s.Error(err)
					return
				}
				if err = s.check(tx, token); err == nil {
					_, err = tx.Exec(`INSERT INTO history (key, token) VALUES ($1, $2)`, s.key, int64(token))
				}
				if err == nil && random.IntN(4) > 0 {
					err = tx.Commit()
				}
				tx.Rollback()
				if err != nil && !errors.Is(err, fence.ErrStale) && !serialization(err) {
					s.Error(err)
				}
			}
		})
	}
	workers.Wait()
	rows, err := s.db.Query(`SELECT token FROM history WHERE key = $1 ORDER BY n`, s.key)
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	var last, token, n uint64
	for ; rows.Next(); n++ {
		if err := rows.Scan(&token); err != nil {
			s.Fatal(err)
		}
		if token < last {
			s.Errorf("token %d was committed after %d", token, last)
		}
		last = token
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
	if mark := s.mark(); mark != last || n < 10 {
		s.Errorf("%d were committed, the last with token %d, and the mark is %d", n, last, mark)
	}
}

// The wrong way: to raise the mark in a transaction of its own, and to write when it has been raised. The same schedule
// ends in the accident that it should have prevented.
func markFirst(s *suite) {
	mark := func(token uint64) error {
		tx := s.begin(sql.LevelReadCommitted)
		defer tx.Rollback()
		if err := s.check(tx, token); err != nil {
			return err
		}
		return tx.Commit()
	}
	writeLater := func(token uint64, note string) {
		tx := s.begin(sql.LevelReadCommitted)
		s.write(tx, token, note)
		if err := tx.Commit(); err != nil {
			s.Fatal(err)
		}
	}
	if err := mark(5); err != nil {
		s.Fatal(err)
	}
	// Here it is paused, past its lease. The next holder does all of its work.
	if err := mark(6); err != nil {
		s.Fatal(err)
	}
	writeLater(6, "by the next holder")
	// It wakes up. Its mark was accepted: it writes.
	writeLater(5, "by the paused one")
	s.expect("by the paused one") // the next holder's work is lost

	s.key += " the right way"
	paused := s.begin(sql.LevelReadCommitted)
	if err := s.work(sql.LevelReadCommitted, 6, "by the next holder"); err != nil {
		s.Fatal(err)
	}
	if err := s.check(paused, 5); !errors.Is(err, fence.ErrStale) {
		s.Errorf("got %v", err)
	}
	paused.Rollback()
	s.expect("by the next holder")
}

// Keys are equal only if their bytes are.
func keys(s *suite) {
	for i, key := range []string{"a", "A", "ä", "a\u0308", "é", "e\u0301", "ﬁ", "fi", "k'--", `k"\`, "鍵", "a "} {
		tx := s.begin(sql.LevelReadCommitted)
		if err := fence.Check(context.Background(), tx, s.Name()+key, uint64(100-i)); err != nil {
			s.Errorf("key %q: %v", key, err)
		}
		if err := tx.Commit(); err != nil {
			s.Error(err)
		}
	}
}

func millionKeys(s *suite) {
	const n = 1_000_000
	must(s.T, s.db, `INSERT INTO ticketing_fence SELECT $1::text || g, g + 10 FROM generate_series(1, $2::bigint) g`, s.Name(), n)
	random := rand.New(rand.NewPCG(1, 2))
	tx := s.begin(sql.LevelReadCommitted)
	began := time.Now()
	const checks = 5000
	for range checks {
		i := 1 + random.IntN(n)
		key := fmt.Sprint(s.Name(), i)
		for token, want := range map[int]error{i + 9: fence.ErrStale, i + 10: nil} {
			if err := fence.Check(context.Background(), tx, key, uint64(token)); !errors.Is(err, want) {
				s.Fatalf("%s with token %d: %v, want %v", key, token, err, want)
			}
		}
	}
	s.Logf("%v a check among %d keys", time.Since(began)/(2*checks), n)
}

func TestSchemaOfUnknownDialect(t *testing.T) {
	if got := fence.Schema(fence.Dialect(99)); got != "" {
		t.Errorf("got %q", got)
	}
}

// A transaction that was cancelled is an error, and no mark.
func TestCancelledCheck(t *testing.T) {
	db := postgres(t)
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fence.Check(ctx, tx, "k", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
