//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// console is a shell with job control on a terminal of its own.
type console struct {
	t     *testing.T
	keys  *os.File // what is typed; the terminal's other end
	lines chan string
}

// openConsole starts an interactive shell with the environment.
func openConsole(t *testing.T, environ []string) *console {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash, for its job control")
	}
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("needs /dev/ptmx: ", err)
	}
	keys := os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("needs /dev/pts: ", err)
	}
	shell := exec.Command(bash, "--norc", "--noprofile", "-i")
	shell.Env = append(cleanEnviron(environ...), "PS1=", "TERM=dumb")
	shell.Stdin, shell.Stdout, shell.Stderr = terminal, terminal, terminal
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	c := &console{t: t, keys: keys, lines: make(chan string, 1000)}
	go func() {
		defer close(c.lines)
		for in := bufio.NewScanner(keys); in.Scan(); {
			c.lines <- strings.TrimRight(in.Text(), "\r")
		}
	}()
	t.Cleanup(func() {
		shell.Process.Kill()
		shell.Wait()
		keys.Close()
	})
	c.enter("stty -echo; set -b; bind 'set enable-bracketed-paste off'; echo shell is ready")
	c.await("shell is ready")
	return c
}

// enter types a line.
//
// Commands here block in a builtin of sh: an sh that is just starting another program (vfork) does not notice a stop.
func (c *console) enter(line string) { fmt.Fprintf(c.keys, "%s\n", line) }

// press types one character, such as 3 for Control-C.
func (c *console) press(key byte) { c.keys.Write([]byte{key}) }

// await reads lines until one is, or begins with, the wanted one, and returns it.
func (c *console) await(want string) string {
	c.t.Helper()
	limit := time.After(testTime)
	var seen []string
	for {
		select {
		case line, ok := <-c.lines:
			c.t.Logf("%q", line)
			if strings.HasPrefix(line, want) {
				return line
			}
			seen = append(seen, line)
			if !ok {
				c.t.Fatalf("the shell ended before %q: %q", want, seen)
			}
		case <-limit:
			c.t.Fatalf("no line %q, but %q", want, seen)
		}
	}
}

func TestLockOnATerminal(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	c := openConsole(t, s.environ)
	lock := `"$TEST_BINARY" lock k -- `

	// The command reads from the terminal, which only the foreground may.
	c.enter(lock + `sh -c 'echo "who?"; read name; echo "hello $name"'`)
	c.await("who?")
	c.enter("you")
	c.await("hello you")
	c.enter("echo code $?")
	c.await("code 0")

	// Control-C reaches the command once.
	c.enter(lock + `sh -c 'trap "echo interrupted; exit 5" INT; echo ready; while :; do sleep 0.01; done'`)
	c.await("ready")
	c.press(3)
	c.await("interrupted")
	c.enter("echo code $?")
	if got := c.await("code"); got != "code 5" {
		t.Errorf("after Control-C: %s", got)
	}
}

func TestLockIsAJobOfItsShell(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	c := openConsole(t, s.environ)
	lock := `"$TEST_BINARY" lock --lease 250s k -- `

	// Control-Z stops both, the shell goes on, and fg continues both in the foreground.
	c.enter(lock + `sh -c 'echo ready; read line; echo "read $line"'`)
	c.await("ready")
	c.press(26)
	c.await("[1]+  Stopped")
	c.enter("echo the shell goes on")
	c.await("the shell goes on")
	s.run("acquire", "--wait", "0s", "k").expect(t, exitNotGranted)
	c.enter("fg >/dev/null")
	c.enter("something")
	c.await("read something")
	c.enter("echo code $?")
	c.await("code 0")

	// In the background it must not take the terminal; a command that reads stops there.
	c.enter(lock + `sh -c 'read line; echo "got $line"' &`)
	c.await("[1]+  Stopped")
	c.enter("fg >/dev/null")
	c.enter("more")
	c.await("got more")

	// Without a terminal on stdin the command is in the background, and Control-Z stops it all the same.
	c.enter("mkfifo " + t.TempDir() + "/pipe && exec 9<>$_")
	c.enter(lock + `sh -c 'echo ready; read line <&9; echo done' </dev/null`)
	c.await("ready")
	c.press(26)
	c.await("[1]+  Stopped")
	c.enter("echo >&9; fg >/dev/null")
	c.await("done")
}

func TestStoppedLockEndsWithItsLease(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	c := openConsole(t, s.environ)
	c.enter(`"$TEST_BINARY" lock --lease 1s k -- sh -c 'echo pid $$; read line'`)
	var pid int
	fmt.Sscanf(c.await("pid"), "pid %d", &pid)
	c.press(26)
	c.await("[1]+  Stopped")
	eventually(t, "the stopped command is killed", func() bool { return gone(pid) })
	s.acquire("k", "--wait", "2s")
	c.enter("fg >/dev/null")
	c.enter("echo code $?")
	if got := c.await("code"); got != "code 70" {
		t.Errorf("after the lease: %s", got)
	}
}
