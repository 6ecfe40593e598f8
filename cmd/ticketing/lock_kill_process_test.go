//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// processes returns those of which matches says so, given what /proc tells of them.
func processes(t *testing.T, matches func(parent int, cmdline, environ []byte) bool) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(all) == 0 {
		t.Fatal("needs /proc: ", err)
	}
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, _ := os.ReadFile(dir + "/stat")
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		environ, _ := os.ReadFile(dir + "/environ")
		_, state, _ := bytes.Cut(stat, []byte(") "))
		var letter string
		var parent int
		fmt.Sscan(string(state), &letter, &parent)
		if letter != "Z" && matches(parent, cmdline, environ) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// holders returns the processes of the lock of key: its command, and that's descendants.
func holders(t *testing.T, key string) []int {
	t.Helper()
	return processes(t, func(_ int, cmdline, environ []byte) bool {
		return bytes.Contains(cmdline, []byte("\x00"+key+"\x00")) || bytes.Contains(environ, []byte("TICKETING_LOCK_KEY="+key+"\x00"))
	})
}

// guards returns the guards of the process.
func guards(t *testing.T, lock int) []int {
	t.Helper()
	return processes(t, func(parent int, cmdline, _ []byte) bool {
		return parent == lock && bytes.Contains(cmdline, []byte("\x00lock-guard\x00"))
	})
}

func TestLockKilledAtAnyMomentLeavesNothing(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	begin := time.Now()
	s.run("lock", "warm", "--", "true").expect(t, exitOK)
	span := time.Since(begin)
	seed := uint64(begin.UnixNano())
	t.Logf("seed %d, moments up to %v", seed, span)
	for worker := range 4 {
		t.Run(strconv.Itoa(worker), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for i := range 25 {
				key := fmt.Sprintf("killed-%d-%d", worker, i)
				killed := ""
				if i%2 == 0 {
					killed = "kill -KILL $PPID; "
				}
				r := start(t, s.environ, "lock", key, "--", "sh", "-c", "sleep 100 & "+killed+"sleep 100")
				if killed == "" {
					pause(time.Duration(random.Int64N(int64(span))))
					r.signal(syscall.SIGKILL)
				}
				<-r.ended
				// A process that is just executing a program shows neither arguments nor environment.
				for clear := 0; clear < 3; clear++ {
					eventually(t, "nothing of the command is left", func() bool { return len(holders(t, key)) == 0 })
				}
			}
		})
	}
}

func TestLockReplacesAGuardThatIsKilled(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	r, child, grandchild := startTree(t, s, "k")
	before := guards(t, r.Process.Pid)
	if len(before) != 1 {
		t.Fatalf("guards %v", before)
	}
	syscall.Kill(before[0], syscall.SIGKILL)
	eventually(t, "there is another guard", func() bool {
		now := guards(t, r.Process.Pid)
		return len(now) == 1 && now[0] != before[0]
	})
	if gone(child) || gone(grandchild) {
		t.Error("the command ended with its guard")
	}
	r.signal(syscall.SIGKILL)
	eventually(t, "the command and its child are gone", func() bool { return gone(child) && gone(grandchild) })
}

func TestCommandDiesWithItsLockAlsoWithoutAGuard(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	r, child, grandchild := startTree(t, s, "k")
	for _, guard := range guards(t, r.Process.Pid) {
		syscall.Kill(guard, syscall.SIGSTOP)
		defer syscall.Kill(guard, syscall.SIGCONT)
	}
	r.signal(syscall.SIGKILL)
	eventually(t, "the command is gone", func() bool { return gone(child) })
	if gone(grandchild) {
		t.Error("the guard was not stopped, so that this shows nothing")
	}
}

func TestLockHandsItsCommandWhatItWasGiven(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	// A file is listed if it is open still once the list is made: that of the list is not.
	const look = `for f in /proc/$$/fd/*; do [ -e $f ] && echo fd ${f##*/}; done; env; pwd; umask; ulimit -n; grep -E "^Sig(Blk|Ign)" /proc/self/status`
	given := func(t *testing.T, command string) []string {
		cmd := prepare(t, append(s.environ, "ODD= a=b ", "GOGC=50", "TICKETING_LOCK_KEY=old"))
		cmd.Path = "/bin/sh"
		cmd.Args = []string{"sh", "-c", `trap "" INT; ulimit -Sn 77; exec 3</dev/null 4</dev/null 9</dev/null; exec ` + command, "sh", look, os.Getenv(binaryVariable)}
		cmd.Dir = t.TempDir()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := slices.DeleteFunc(strings.Split(strings.ReplaceAll(string(out), cmd.Dir, "DIR"), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "TICKETING_LOCK_")
		})
		slices.Sort(lines)
		return lines
	}
	with, without := given(t, `"$2" lock k -- sh -c "$1"`), given(t, `sh -c "$1"`)
	for _, line := range with {
		if !slices.Contains(without, line) {
			t.Errorf("only under the lock: %q", line)
		}
	}
	for _, line := range without {
		if !slices.Contains(with, line) {
			t.Errorf("only without the lock: %q", line)
		}
	}
	if !slices.Contains(with, "fd 9") {
		t.Errorf("this shows no files: %q", with)
	}
}

func TestChildThatIsKilledAfterAStopWasLookedAtIsKnownToBe(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	eventually(t, "it has ended", func() bool { return gone(cmd.Process.Pid) })
	child := childWait{pid: cmd.Process.Pid}
	if stop, ok := child.take(); stop != 0 || !ok {
		t.Errorf("it was stopped by signal %d, %v", stop, ok)
	}
	if status, err := child.reap(); err != nil || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %#x, %v", status, err)
	}
}
