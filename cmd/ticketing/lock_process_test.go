package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLockRunsACommandAndReleases(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	got := s.run("lock", "--lease", "60s", "nightly", "--", "sh", "-c",
		`echo "$TICKETING_LOCK_KEY $TICKETING_LOCK_TOKEN $TICKETING_LOCK_DEADLINE"; exit 7`).expect(t, 7)
	words := strings.Fields(got.stdout)
	if len(words) != 3 || words[0] != "nightly" || atoi(t, words[1]) == 0 {
		t.Fatalf("the command saw %q", got.stdout)
	}
	deadline, err := time.Parse(time.RFC3339, words[2])
	if left := time.Until(deadline); err != nil || !strings.HasSuffix(words[2], "Z") || left < 50*time.Second || left > 60*time.Second {
		t.Errorf("a lease of 60 s has the deadline %s (%v)", words[2], err)
	}
	if after := s.acquire("nightly", "--wait", "0s"); atoi(t, after.Token) <= atoi(t, words[1]) {
		t.Errorf("token %s after %s", after.Token, words[1])
	}
}

func TestLockExitCodes(t *testing.T) {
	s := startTestServer(t)
	noProgram := t.TempDir() + "/empty"
	if err := os.WriteFile(noProgram, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		argv []string
		code int
	}{
		{"success", []string{"true"}, 0},
		{"own code", []string{"sh", "-c", "exit 64"}, 64},
		{"killed", []string{"sh", "-c", "kill -KILL $$"}, 128 + 9},
		{"terminated", []string{"sh", "-c", "kill -TERM $$"}, 128 + 15},
		{"no program", []string{noProgram}, exitNotExecutable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s.run(append([]string{"lock", strconv.Itoa(c.code), "--"}, c.argv...)...).expect(t, c.code)
		})
	}
	t.Run("not granted", func(t *testing.T) {
		t.Parallel()
		s.acquire("taken")
		if got := s.run("lock", "--wait", "0s", "taken", "--", "echo", "ran").expect(t, exitNotGranted); got.stdout != "" {
			t.Error("the command ran without the lock")
		}
	})
	t.Run("key that begins with -", func(t *testing.T) {
		t.Parallel()
		if got := s.run("lock", "--", "-k", "--", "sh", "-c", "echo $TICKETING_LOCK_KEY").expect(t, exitOK).stdout; got != "-k\n" {
			t.Errorf("the key is %q", got)
		}
	})
}

func TestLockEndsACommandThatOutlivesItsLease(t *testing.T) {
	s := startTestServer(t)
	t.Run("it heeds SIGTERM", func(t *testing.T) {
		t.Parallel()
		begin := time.Now()
		got := s.run("lock", "--lease", "2s", "polite", "--", "sh", "-c", "trap 'echo asked; exit 0' TERM; while :; do sleep 0.01; done").expect(t, exitLeaseOver)
		if got.stdout != "asked\n" {
			t.Errorf("the command printed %q", got.stdout)
		}
		if took := time.Since(begin); took > 1900*time.Millisecond {
			t.Errorf("it was asked after %v of a lease of 2 s", took)
		}
		s.acquire("polite", "--wait", "0s")
	})
	t.Run("nobody reads its errors", func(t *testing.T) {
		t.Parallel()
		cmd := prepare(t, s.environ, "lock", "--lease", "4s", "unread", "--", "sh", "-c", "trap 'exit 0' TERM; echo; yes >&2 & wait")
		unread, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 1)) // it holds the key
		s.acquire("unread")
		if took := time.Since(begin); took > 3900*time.Millisecond {
			t.Errorf("the key was free after %v of a lease of 4 s", took)
		}
		unread.Close()
		if cmd.Wait(); cmd.ProcessState.ExitCode() != exitLeaseOver {
			t.Errorf("it ended with %v", cmd.ProcessState)
		}
	})
	t.Run("it ignores SIGTERM", func(t *testing.T) {
		t.Parallel()
		r := s.start("lock", "--lease", "1s", "rude", "--", "sh", "-c", "trap '' TERM; sleep 100 & echo $!; while :; do sleep 0.01; done")
		grandchild, _ := strconv.Atoi(r.line())
		r.wait().expect(t, exitLeaseOver)
		eventually(t, "the command's children are gone", func() bool { return gone(grandchild) })
		s.acquire("rude", "--wait", "1s")
	})
}

// gone reports whether a process has ended. One that nobody has waited for yet counts.
func gone(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(state, "Z")
}

// startTree starts a lock whose command has a child, and returns it with the pids of both.
func startTree(t *testing.T, s *testServer, args ...string) (r *running, child, grandchild int) {
	t.Helper()
	r = s.start(append(append([]string{"lock"}, args...), "--", "sh", "-c", "trap '' TERM; sleep 100 & echo $$; echo $!; wait; wait")...)
	child, _ = strconv.Atoi(r.line())
	grandchild, _ = strconv.Atoi(r.line())
	if child == 0 || grandchild == 0 {
		t.Fatal("the command did not tell its pids")
	}
	return r, child, grandchild
}

func TestLockThatIsKilledTakesItsCommandAlong(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	r, child, grandchild := startTree(t, s, "k")
	r.signal(syscall.SIGKILL)
	eventually(t, "the command and its child are gone", func() bool { return gone(child) && gone(grandchild) })
	s.run("acquire", "--wait", "0s", "k").expect(t, exitNotGranted) // nobody released it: the lease does
}

func TestLockThatIsStoppedDoesNotOutliveItsLease(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	r, child, grandchild := startTree(t, s, "--lease", "1s", "k")
	r.signal(syscall.SIGSTOP)
	eventually(t, "the command and its child are gone", func() bool { return gone(child) && gone(grandchild) })
	r.signal(syscall.SIGCONT)
	r.wait().expect(t, exitLeaseOver)
}

func TestLockPassesSignalsOn(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	r := s.start("lock", "k", "--", "sh", "-c", "trap 'echo one' USR1; trap 'echo end; exit 3' TERM; echo ready; while :; do sleep 0.01; done")
	for _, step := range []struct {
		line string
		then syscall.Signal
	}{{"ready", syscall.SIGUSR1}, {"one", syscall.SIGTERM}, {"end", 0}} {
		if got := r.line(); got != step.line {
			t.Fatalf("the command says %q, want %q", got, step.line)
		}
		if step.then != 0 {
			r.signal(step.then)
		}
	}
	r.wait().expect(t, 3)
	s.acquire("k", "--wait", "0s")
}

func TestLockEndsWhatTheCommandLeavesBehind(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	got := s.run("lock", "k", "--", "sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!").expect(t, exitOK)
	pid, _ := strconv.Atoi(strings.TrimSpace(got.stdout))
	if !gone(pid) {
		t.Errorf("process %d still runs without the lock", pid)
	}
}

func TestLockThatWaitsCanBeInterrupted(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	s.acquire("k")
	r := s.start("lock", "--wait", "1h", "k", "--", "echo", "ran")
	eventually(t, "it waits", func() bool { return s.waiters() == 1 })
	r.signal(syscall.SIGTERM)
	if got := r.wait().expect(t, exitNotGranted); got.stdout != "" {
		t.Error("the command ran")
	}
	if s.waiters() != 0 {
		t.Error("it still waits")
	}
}

func TestLocksOfTwoProcessesExcludeEachOther(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	path := t.TempDir() + "/counter"
	if err := os.WriteFile(path, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	const processes = 6
	var all []*running
	for range processes {
		all = append(all, s.start("lock", "counter", "--", "sh", "-c", "n=$(cat "+path+"); sleep 0.02; echo $((n+1)) >"+path))
	}
	for _, r := range all {
		r.wait().expect(t, exitOK)
	}
	if text, _ := os.ReadFile(path); strings.TrimSpace(string(text)) != strconv.Itoa(processes) {
		t.Errorf("%d processes counted to %s", processes, text)
	}
}

func TestLockHoldsEverySignalThatItsParentIgnores(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	cmd := prepare(t, s.environ)
	cmd.Path = "/bin/sh"
	cmd.Args = []string{"sh", "-c", `trap '' HUP; exec "$0" lock k -- sh -c 'kill -HUP $$; echo survived'`, os.Getenv(binaryVariable)}
	out, err := cmd.Output()
	if err != nil || string(out) != "survived\n" {
		t.Errorf("under nohup the command gets SIGHUP: %q, %v", out, err)
	}
}
