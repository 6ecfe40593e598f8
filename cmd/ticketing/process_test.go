package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain builds the binary that the tests of this package run as separate processes.
func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if os.Getenv(binaryVariable) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "ticketing")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ticketing")
	build := exec.Command("go", "build", "-o", path, "-ldflags", "-X main.version=v0.0.0-test", ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the binary: %v\n%s", err, out)
		return 1
	}
	os.Setenv(binaryVariable, path)
	return m.Run()
}

// binaryVariable tells tests where the binary is; set from outside, nothing is built. It does not begin with
// TICKETING_, which the server would refuse.
const binaryVariable = "TEST_BINARY"

const testTime = 20 * time.Second // after which a test process is ended, and its test fails

// cleanEnviron is the environment of the tests without settings of whoever runs them.
func cleanEnviron(extra ...string) []string {
	var kept []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TICKETING_") && !strings.HasPrefix(e, "NOTIFY_") && !strings.HasPrefix(e, "WATCHDOG_") {
			kept = append(kept, e)
		}
	}
	return append(kept, extra...)
}

// prepare returns the binary as a command that does not outlive the test.
func prepare(t *testing.T, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv(binaryVariable), args...)
	cmd.Env = cleanEnviron(environ...)
	cmd.WaitDelay = time.Second
	return cmd
}

// outcome is how a process ended.
type outcome struct {
	stdout, stderr string
	code           int
}

// run runs the binary to its end.
func run(t *testing.T, environ []string, args ...string) outcome {
	t.Helper()
	cmd := prepare(t, environ, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(testTime, func() { cmd.Process.Kill() })
	defer limit.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// expect fails the test unless the process ended with code.
func (o outcome) expect(t *testing.T, code int) outcome {
	t.Helper()
	if o.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", o.code, code, o.stdout, o.stderr)
	}
	return o
}

// running is a process that a test has started.
type running struct {
	*exec.Cmd
	t      *testing.T
	stdout *bufio.Reader
	stderr syncBuffer
	ended  chan struct{}
}

// start starts the binary. It is killed when the test ends.
func start(t *testing.T, environ []string, args ...string) *running {
	t.Helper()
	r := &running{Cmd: prepare(t, environ, args...), t: t, ended: make(chan struct{})}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.stdout = bufio.NewReader(out)
	r.Stdout, r.Stderr = in, &r.stderr
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	go func() {
		r.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.Process.Kill()
		<-r.ended
		out.Close()
	})
	return r
}

// line returns the next line of stdout.
func (r *running) line() string {
	r.t.Helper()
	got := make(chan string, 1)
	go func() {
		line, _ := r.stdout.ReadString('\n')
		got <- strings.TrimSuffix(line, "\n")
	}()
	select {
	case line := <-got:
		return line
	case <-time.After(testTime):
		r.t.Fatalf("no line on stdout\nstderr: %s", r.stderr.String())
		return ""
	}
}

// signal sends a signal.
func (r *running) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// wait returns how the process ended.
func (r *running) wait() outcome {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(testTime):
		r.t.Fatalf("the process does not end\nstderr: %s", r.stderr.String())
	}
	rest, _ := io.ReadAll(r.stdout)
	return outcome{string(rest), r.stderr.String(), r.ProcessState.ExitCode()}
}

// syncBuffer is a buffer for a process that still writes.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends.
func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

// String returns all that was written.
func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	limit := time.After(testTime)
	for !holds() {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("does not come true: %s", what)
		}
	}
}

// testServer is a server process and what clients need to reach it.
type testServer struct {
	*running
	environ []string // of clients
}

const testToken = "a secret of the tests"

// startTestServer starts a server on free ports.
func startTestServer(t *testing.T, extra ...string) *testServer {
	t.Helper()
	s := &testServer{running: start(t, append([]string{
		"TICKETING_LISTEN=127.0.0.1:0", "TICKETING_ADMIN_LISTEN=127.0.0.1:0", "TICKETING_LOG_FORMAT=json",
		"TICKETING_TOKEN=" + testToken}, extra...))}
	var serving struct{ Msg, Clients, Admin string }
	eventually(t, "the server says that it serves", func() bool {
		for line := range strings.Lines(s.stderr.String()) {
			if json.Unmarshal([]byte(line), &serving) == nil && serving.Msg == "serving" {
				return true
			}
		}
		select {
		case <-s.ended:
			t.Fatalf("the server ended: %s", s.stderr.String())
		default:
		}
		return false
	})
	s.environ = []string{
		"TICKETING_ADDRS=" + serving.Clients, "TICKETING_TOKEN=" + testToken, "TICKETING_ADMIN_ADDRS=http://" + serving.Admin,
	}
	return s
}

// run runs a client command against the server.
func (s *testServer) run(args ...string) outcome {
	s.t.Helper()
	return run(s.t, s.environ, args...)
}

// start starts a client command against the server.
func (s *testServer) start(args ...string) *running {
	s.t.Helper()
	return start(s.t, s.environ, args...)
}

// acquire acquires key and returns the grant.
func (s *testServer) acquire(key string, flags ...string) grant {
	s.t.Helper()
	out := s.run(append([]string{"acquire", "--json", key}, flags...)...).expect(s.t, exitOK).stdout
	var g grant
	if err := json.Unmarshal([]byte(out), &g); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return g
}

// waiters returns how many wait in all.
func (s *testServer) waiters() int {
	s.t.Helper()
	var status struct{ Waiters int }
	out := s.run("status", "--json").expect(s.t, exitOK).stdout
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return status.Waiters
}
