//go:build linux || darwin

package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/server"
)

// serverProcess is the variable that makes this test's binary a server: see TestServerProcess.
const serverProcess = "TICKETING_CLIENT_TEST_SERVER"

const processToken = "sixteen bytes or more"

// process is a real server in a process of its own. It has no state directory: after a restart it grants at once, so
// that what keeps two holders apart is the Broker alone.
type process struct {
	testing.TB
	addr    string
	environ []string
	cmd     *exec.Cmd
}

func startServer(t testing.TB) *process {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real servers: left out by -short")
	}
	p := &process{TB: t}
	p.environ = []string{"TICKETING_LISTEN=127.0.0.1:0", "TICKETING_ADMIN_LISTEN=off"}
	p.start()
	p.environ[0] = "TICKETING_LISTEN=" + p.addr // when it is started again
	t.Cleanup(p.kill)
	return p
}

// start returns when the server's port is open.
func (p *process) start() {
	p.Helper()
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestServerProcess$")
	p.cmd.Env = append(append(os.Environ(), serverProcess+"=1", "TICKETING_TOKEN="+processToken), p.environ...)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.Fatalf("the server says %q and ends: %v", line, err)
	}
	p.addr = strings.TrimSpace(line)
	go io.Copy(io.Discard, out)
}

// kill ends the server as kill -9 does.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

func (p *process) signal(s os.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
}

// pause stops the process, and returns when it stands still.
func (p *process) pause() {
	p.Helper()
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for !status.Stopped() {
		if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil && err != syscall.EINTR {
			p.Fatal(err)
		}
	}
}

func (p *process) broker() *client.Broker {
	p.Helper()
	b, err := client.New(client.Config{Addrs: []string{p.addr}, Token: processToken})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { b.Close() })
	if err := b.WaitReady(p.Context()); err != nil {
		p.Fatal(err)
	}
	return b
}

// TestServerProcess is the server; by itself it does nothing.
func TestServerProcess(t *testing.T) {
	if os.Getenv(serverProcess) == "" {
		t.Skip("runs as a process of other tests only")
	}
	var ours []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, serverProcess+"=") {
			ours = append(ours, e)
		}
	}
	cfg, err := server.ConfigFromEnv(ours)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stdout, s.Addr())
	s.Run(context.Background())
}

// section finds out whether two are in a critical section at once, and whether tokens grow.
type section struct {
	inside atomic.Int64
	token  atomic.Uint64
}

func (s *section) enter(t *testing.T, ticket *client.Ticket) {
	if n := s.inside.Add(1); n != 1 {
		t.Errorf("%d are in the section of %s", n, ticket.Key())
	}
	if before := s.token.Swap(ticket.Token()); before >= ticket.Token() {
		t.Errorf("token %d of %s came after %d", ticket.Token(), ticket.Key(), before)
	}
}

func (s *section) leave() { s.inside.Add(-1) }

func TestTenThousandGoroutines(t *testing.T) {
	b := startServer(t).broker()
	const goroutines, keys = 10000, 500
	sections := make([]section, keys)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			key := i % keys
			for range 3 {
				ticket, err := b.Acquire(t.Context(), fmt.Sprint("key-", key), 10*time.Minute, 200*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				sections[key].enter(t, ticket)
				sections[key].leave()
				if err := ticket.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	// Replies without anybody who waits for them are not counted here: on a machine that is slow for a second, releases are sent
	// again, and answered twice.
	if s := b.Stats(); s.Granted != 3*goroutines || s.Released != 3*goroutines || s.Waiting != 0 || s.Releases != 0 {
		t.Errorf("stats %+v", s)
	}
}

// One in a hundred calls is cancelled at a random moment. Replies never reach the wrong caller, and at the end every
// key is free.
func TestRandomCancels(t *testing.T) {
	b := startServer(t).broker()
	const goroutines, calls = 100, 1000
	var cancelled atomic.Int64
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for j := range calls {
				ctx, cancel := context.WithCancel(t.Context())
				if j%100 == i%100 {
					go cancel()
				}
				key := fmt.Sprintf("key-%d-%d", i, j%7)
				ticket, err := b.Acquire(ctx, key, time.Second, 5*time.Second)
				cancel()
				switch {
				case err == nil && ticket.Key() != key:
					t.Errorf("asked for %s, got %s", key, ticket.Key())
				case err == nil:
					if err := ticket.Release(t.Context()); err != nil {
						t.Error(err)
					}
				case errors.Is(err, context.Canceled):
					cancelled.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range goroutines {
		for j := range 7 {
			if _, err := b.Acquire(t.Context(), fmt.Sprintf("key-%d-%d", i, j), time.Second, 5*time.Second); err != nil {
				t.Fatalf("key-%d-%d is not free (%d calls were cancelled): %v", i, j, cancelled.Load(), err)
			}
		}
	}
	if s := b.Stats(); s.Waiting != 0 || s.Lost != 0 {
		t.Errorf("stats %+v", s)
	}
}

// A thousand waiters that are cancelled are out of the queue at once: the next in line does not wait for them.
func TestCancelledWaitersLeaveTheQueue(t *testing.T) {
	b := startServer(t).broker()
	holder, err := b.Acquire(t.Context(), "k", 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiters sync.WaitGroup
	for range 1000 {
		waiters.Go(func() {
			if _, err := b.Acquire(ctx, "k", time.Hour, time.Minute); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for b.Stats().Waiting < 1000 {
		<-time.After(time.Millisecond)
	}
	began := time.Now()
	cancel()
	waiters.Wait()
	for b.Stats().Waiting > 0 {
		<-time.After(time.Millisecond)
	}
	t.Logf("all had left %v after the cancel", time.Since(began))
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := b.Acquire(t.Context(), "k", 10*time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if next.Token() != holder.Token()+1 {
		t.Errorf("%d of the cancelled were granted it first", next.Token()-holder.Token()-1)
	}
}

// The server is killed under load, and started again: each acquire ends in one of the ways that there are, nobody
// enters twice, tokens grow, and the Broker goes on by itself.
func TestServerKilledUnderLoad(t *testing.T) {
	p := startServer(t)
	b := p.broker()
	const goroutines, keys = 200, 20
	sections := make([]section, keys)
	outcomes := map[string]*atomic.Int64{}
	for _, name := range []string{"granted", "timeout", "busy", "indeterminate", "released", "not held", "unconfirmed"} {
		outcomes[name] = new(atomic.Int64)
	}
	over, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for over.Err() == nil {
				ticket, err := b.Acquire(t.Context(), fmt.Sprint("key-", i%keys), 500*time.Millisecond, time.Second)
				switch {
				case err == nil:
					outcomes["granted"].Add(1)
				case errors.Is(err, client.ErrTimeout):
					outcomes["timeout"].Add(1)
				case errors.Is(err, client.ErrIndeterminate):
					outcomes["indeterminate"].Add(1)
				case errors.Is(err, client.ErrBusy):
					outcomes["busy"].Add(1)
					<-time.After(20 * time.Millisecond)
				default:
					t.Errorf("an outcome of no kind: %v", err)
				}
				if err != nil {
					continue
				}
				section := &sections[i%keys]
				section.enter(t, ticket)
				<-time.After(100 * time.Microsecond)
				section.leave()
				switch err := ticket.Release(t.Context()); {
				case err == nil:
					outcomes["released"].Add(1)
				case errors.Is(err, client.ErrNotHeld):
					outcomes["not held"].Add(1)
				case errors.Is(err, client.ErrUnconfirmed):
					outcomes["unconfirmed"].Add(1)
				default:
					t.Errorf("a release of no kind: %v", err)
				}
			}
		})
	}
	progress := func() {
		t.Helper()
		limit := time.After(time.Minute)
		for target := outcomes["granted"].Load() + 500; outcomes["granted"].Load() < target; {
			select {
			case <-limit:
				t.Fatalf("no progress in a minute: stats %+v", b.Stats())
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	defer all.Wait()
	defer stop()
	progress()
	for range 3 {
		p.kill()
		p.start()
		progress()
	}
	stop()
	all.Wait()
	for name, n := range outcomes {
		t.Logf("%-14s %d", name, n.Load())
	}
	if outcomes["indeterminate"].Load() == 0 {
		t.Error("not one acquire was in flight when the server was killed: the test tests nothing")
	}
	if s := b.Stats(); s.Waiting != 0 || s.Releases != 0 {
		t.Errorf("stats %+v", s)
	}
}

// A server that is stopped: callers return at their own limits, and after it has gone on nothing is left behind.
func TestServerStopped(t *testing.T) {
	p := startServer(t)
	b := p.broker()
	held, err := b.Acquire(t.Context(), "held", 0, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	p.pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var waiters sync.WaitGroup
	for i := range 100 {
		waiters.Go(func() {
			began := time.Now()
			_, err := b.Acquire(ctx, fmt.Sprint("key-", i), time.Minute, time.Minute)
			if !errors.Is(err, client.ErrIndeterminate) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("returned after %v", took)
			}
		})
	}
	waiters.Wait()
	<-held.Context().Done()
	if left := time.Until(held.Deadline()); left > 0 {
		t.Errorf("the context ended %v before the deadline", left)
	}
	p.signal(syscall.SIGCONT)
	if err := held.Release(t.Context()); err != nil && !errors.Is(err, client.ErrNotHeld) {
		t.Errorf("release: %v", err)
	}
	for i := range 100 { // what it granted to those who had gone is given back
		ticket, err := b.Acquire(t.Context(), fmt.Sprint("key-", i), 10*time.Second, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		ticket.Release(t.Context())
	}
}

// The server goes and comes back empty while a lock is held. Through this Broker nobody else gets the key before the
// ticket's deadline, and the release says what became of it.
func TestServerRestartsWhileHeld(t *testing.T) {
	p := startServer(t)
	b := p.broker()
	ticket, err := b.Acquire(t.Context(), "k", 0, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	p.start()
	next, err := b.Acquire(t.Context(), "k", time.Minute, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(ticket.Deadline()); left > 0 || ticket.Context().Err() == nil {
		t.Errorf("somebody else was granted the key %v before the deadline", left)
	}
	if next.Token() <= ticket.Token() {
		t.Errorf("token %d after %d", next.Token(), ticket.Token())
	}
	if err := ticket.Release(t.Context()); !errors.Is(err, client.ErrNotHeld) {
		t.Errorf("release: %v", err)
	}
}
