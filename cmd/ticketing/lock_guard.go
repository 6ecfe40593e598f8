package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// guard is a process that kills the command's process group when the lock command cannot: when that is killed (its end
// of the pipe closes) or stopped (the deadline passes). The kernel's own signal at a parent's death reaches the
// command alone and none of its children.
type guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

const guardDismissal = "done"

// startGuard starts it, in a session of its own, out of reach of the terminal's signals.
func startGuard() (*guard, error) {
	cmd, err := selfCommand("lock-guard")
	if err != nil {
		return nil, err
	}
	g := &guard{cmd: cmd}
	g.cmd.Env = []string{"GOMAXPROCS=1"} // no secrets, and little memory
	g.cmd.Dir = "/"
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if g.pipe, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return g, g.cmd.Start()
}

// watch tells it what to kill, and when at the latest.
func (g *guard) watch(group int, left time.Duration) { fmt.Fprintln(g.pipe, group, int64(left)) }

// dismiss ends it.
func (g *guard) dismiss() {
	fmt.Fprintln(g.pipe, guardDismissal)
	g.pipe.Close()
	g.cmd.Wait()
}

// runGuard is the guard's process.
func runGuard(p *process, _ []string) error {
	// A stop of a whole service signals this process too, while the command may take its time to end.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	lines := bufio.NewReader(p.stdin)
	first, err := lines.ReadString('\n')
	if err != nil {
		return nil // nothing was started
	}
	start := suspendClock()
	var group int
	var left int64
	if _, err := fmt.Sscan(first, &group, &left); err != nil || group <= 1 {
		return nil // dismissed
	}
	ended := make(chan bool, 1)
	go func() {
		rest, _ := io.ReadAll(lines)
		ended <- strings.TrimSpace(string(rest)) == guardDismissal
	}()
	timer := time.NewTimer(0)
	for {
		select {
		case dismissed := <-ended:
			if !dismissed {
				syscall.Kill(-group, syscall.SIGKILL)
			}
			return nil
		case <-timer.C:
			rest := time.Duration(left) - (suspendClock() - start)
			if rest <= 0 {
				syscall.Kill(-group, syscall.SIGKILL)
				return nil
			}
			// Timers stand still while the machine is suspended, and the lease does not.
			timer.Reset(min(rest, 250*time.Millisecond))
		}
	}
}
