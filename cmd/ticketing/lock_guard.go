package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// guard is a process that kills the command's process group when the lock command cannot, because it has been killed (its
// end of the pipe closes) or stopped (the deadline passes). The signal that the kernel sends at a parent's death reaches only
// the command, and none of its children.
type guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
	ack  io.Reader
	lost chan struct{} // closed when it has ended
}

// startGuard starts a guard, in a session of its own, out of reach of the terminal's signals.
func startGuard() (*guard, error) {
	cmd, err := selfCommand("lock-guard")
	if err != nil {
		return nil, err
	}
	g := &guard{cmd: cmd, lost: make(chan struct{})}
	g.cmd.Env = []string{"GOMAXPROCS=1"} // no secrets, and little memory
	g.cmd.Dir = "/"
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if g.pipe, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if g.ack, err = g.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return g, g.cmd.Start()
}

// watch tells the guard which group to kill, and until when to wait with it (on suspendClock). It returns when the guard knows.
func (g *guard) watch(group int, until time.Duration) error {
	fmt.Fprintln(g.pipe, group, int64(until))
	if n, _ := g.ack.Read(make([]byte, 1)); n == 0 {
		return errors.New("it ended at its start: see whether the limits of processes and memory leave room")
	}
	go func() {
		defer close(g.lost)
		io.Copy(io.Discard, g.ack)
	}()
	return nil
}

// dismiss ends the guard before it can see its pipe close.
func (g *guard) dismiss() {
	g.cmd.Process.Kill()
	g.cmd.Wait()
}

// runGuard is the guard's process.
func runGuard(p *process, _ []string) error {
	// Stopping a whole service signals this process too, while the command may still need time to end. And a lock command that
	// was killed does not read what is written to it.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	lines := bufio.NewReader(p.stdin)
	first, err := lines.ReadString('\n')
	if err != nil {
		return nil // nothing was started
	}
	var group int
	var until int64
	if _, err := fmt.Sscan(first, &group, &until); err != nil || group <= 1 {
		return usageError("lock alone starts it: want the group and the deadline, got %q", first)
	}
	p.stdout.Write([]byte{1})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, lines)
	}()
	timer := time.NewTimer(0)
	for {
		select {
		case <-ended:
		case <-timer.C:
			// Timers stand still while the machine is suspended, and the lease does not.
			if left := time.Duration(until) - suspendClock(); left > 0 {
				timer.Reset(min(left, 250*time.Millisecond))
				continue
			}
		}
		syscall.Kill(-group, syscall.SIGKILL)
		return nil
	}
}
