package fencetest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq"

	"ticketing.internal/client/fence"
)

// postgres starts a PostgreSQL of its own, on a unix socket in a folder of its own, and returns a pool of connections to
// it. It skips the test where PostgreSQL is not installed.
func postgres(t *testing.T) *sql.DB {
	t.Helper()
	bin := binaries(t)
	account := unprivileged(t)
	dir, err := os.MkdirTemp("/tmp", "fencetest") // a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, sockets := filepath.Join(dir, "data"), filepath.Join(dir, "sockets")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	if account != nil {
		for _, d := range []string{dir, sockets} {
			if err := os.Chown(d, int(account.Uid), int(account.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "LC_ALL=C"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
		return cmd
	}
	initdb := command("initdb", "-D", data, "-U", "fence", "-A", "trust", "-E", "UTF8", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	var log bytes.Buffer
	server := command("postgres", "-D", data, "-k", sockets, "-h", "", "-F", "-c", "max_connections=100",
		"-c", "statement_timeout=60s") // a test that blocks itself fails instead of hanging
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGINT) // fast shutdown
		server.Wait()
	})

	db, err := sql.Open("postgres", fmt.Sprintf("host=%s user=fence dbname=postgres sslmode=disable", sockets))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for deadline := time.Now().Add(time.Minute); ; {
		if err = db.PingContext(t.Context()); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("PostgreSQL does not answer: %v\n%s", err, log.String())
		}
		<-time.After(20 * time.Millisecond)
	}
	for range 2 { // running the schema again is harmless
		must(t, db, fence.Schema(fence.PostgreSQL))
	}
	return db
}

// binaries returns the folder of initdb and postgres: of TICKETING_TEST_POSTGRES_BIN, of Debian, or of the path.
func binaries(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("TICKETING_TEST_POSTGRES_BIN"); dir != "" {
		return dir
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Skip("needs PostgreSQL (Debian: apt-get install postgresql; else set TICKETING_TEST_POSTGRES_BIN to the folder of initdb)")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

// unprivileged returns an account for PostgreSQL, which refuses to run as root; nil if this process is not root.
func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	t.Skip("needs an account that is not root: PostgreSQL refuses to run as root")
	return nil
}

func must(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
