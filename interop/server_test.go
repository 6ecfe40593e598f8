package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ticketing.internal/client"
)

const (
	// dirVariable names the folder that `install` filled. It does not begin with TICKETING_, which the server would refuse.
	dirVariable = "INTEROP_DIR"
	testToken   = "a secret of the tests"
	testTime    = 20 * time.Second // after which what is waited for does not come true any more
)

// TestMain builds the server that the tests run as a separate process.
func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, "ticketing"), "ticketing.internal/cmd/ticketing")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the server: %v\n%s", err, out)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// server is a server process.
type server struct {
	cmd         *exec.Cmd
	addr, admin string
	ended       chan struct{}

	mu    sync.Mutex
	lines bytes.Buffer
}

// startServer starts a server that listens on listen and waits until it serves. It is killed when the test ends.
func startServer(t *testing.T, listen string, environ ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(filepath.Join(os.Getenv(dirVariable), "ticketing")), ended: make(chan struct{})}
	s.cmd.Env = append([]string{"TICKETING_LISTEN=" + listen, "TICKETING_ADMIN_LISTEN=127.0.0.1:0", "TICKETING_TOKEN=" + testToken,
		"TICKETING_LOG_FORMAT=json"}, environ...)
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	serving := make(chan struct{})
	go func() {
		defer close(s.ended)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			s.mu.Lock()
			fmt.Fprintln(&s.lines, lines.Text())
			s.mu.Unlock()
			var e struct{ Msg, Clients, Admin string }
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.Msg == "serving" {
				s.addr, s.admin = e.Clients, e.Admin
				close(serving)
			}
		}
		s.cmd.Wait()
	}()
	select {
	case <-serving:
	case <-s.ended:
		t.Fatalf("the server ended\n%s", s.log())
	case <-time.After(testTime):
		t.Fatalf("the server does not serve\n%s", s.log())
	}
	return s
}

// kill ends the server as kill -9 does.
func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.String()
}

// awaitWaiters waits until n acquires wait in queues.
func (s *server) awaitWaiters(t *testing.T, n int) {
	t.Helper()
	var status struct{ Waiters int }
	eventually(t, fmt.Sprintf("%d acquires wait", n), func() bool {
		resp, err := (&http.Client{Timeout: testTime}).Get("http://" + s.admin + "/status")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(&status) == nil && status.Waiters == n
	})
}

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

// grant is a lock that a locker was given.
type grant struct {
	token   uint64
	release func() (bool, error) // whether it was still held
}

// locker is a client of any kind. Times are in seconds.
type locker interface {
	acquire(key string, wait, lease int) (grant, error)
}

// goClient is this project's own client, which speaks version 1.
type goClient struct{ broker *client.Broker }

func newGoClient(t *testing.T, s *server) goClient {
	t.Helper()
	return newGoClientOf(t, s.addr)
}

func newGoClientOf(t *testing.T, addrs ...string) goClient {
	t.Helper()
	broker, err := client.New(client.Config{Addrs: addrs, Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	return goClient{broker}
}

func (c goClient) acquire(key string, wait, lease int) (grant, error) {
	ticket, err := c.broker.Acquire(context.Background(), key, time.Duration(wait)*time.Second, time.Duration(lease)*time.Second)
	if err != nil {
		return grant{}, err
	}
	return grant{token: ticket.Token(), release: func() (bool, error) {
		err := ticket.Release(context.Background())
		if errors.Is(err, client.ErrNotHeld) {
			return false, nil
		}
		return err == nil, err
	}}, nil
}

// mustAcquire acquires a key that is free or becomes so.
func mustAcquire(t *testing.T, l locker, key string, lease int) grant {
	t.Helper()
	g, err := l.acquire(key, int(testTime.Seconds()), lease)
	if err != nil {
		t.Fatalf("acquire of %q: %v", key, err)
	}
	return g
}

// mustRelease releases and requires the answer to be want.
func mustRelease(t *testing.T, g grant, want bool) {
	t.Helper()
	if held, err := g.release(); held != want || err != nil {
		t.Errorf("release = %v, %v; want %v", held, err, want)
	}
}

func needsInstalled(t *testing.T) {
	t.Helper()
	if strings.TrimSpace(os.Getenv(dirVariable)) == "" {
		t.Skip("needs the published clients: run make interop, on a machine that has node, python3 or cargo")
	}
}
