package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"ticketing.internal/client"
)

func lockCommand() *command {
	var f lockFlags
	c := &command{
		name:    "lock",
		args:    "[--wait 10s] [--lease 60s] KEY -- CMD ARGS...",
		summary: "run CMD while holding KEY",
		details: `CMD runs without a shell, in a process group of its own, in the foreground if ticketing lock was. Signals are passed
on to the group. The lease is not renewed: at its deadline less 10 % of the lease (1 s at least), but not before half
the lease is over, the group gets SIGTERM, at the deadline SIGKILL. It also gets SIGKILL when ticketing lock itself is
killed, and what CMD leaves behind in its group when it ends gets it before KEY is released.

What leaves the process group (setsid, a daemon, a container engine's child, a command under sudo) is beyond reach.
Only fencing stops that: hand TICKETING_LOCK_TOKEN to the resource, which refuses a smaller token than it has seen.

CMD finds in its environment:
  TICKETING_LOCK_KEY       KEY
  TICKETING_LOCK_TOKEN     the fencing token
  TICKETING_LOCK_DEADLINE  when the lock ends, in UTC, as in 2026-11-29T23:04:05.123Z`,
		environ: clientEnviron(),
		exits: append([]string{"... CMD's own, or 128 + n if signal n ended it; also if KEY could not be released (a line says so)",
			"70 the lease ran out and CMD was ended"},
			append(clientExits(), "126 CMD cannot be executed", "127 there is no CMD")...),
		example: "ticketing lock --wait 0s --lease 200s nightly-report -- /usr/local/bin/report --all",
		flags:   newFlags("lock"),
	}
	f.register(c.flags)
	c.run = func(p *process, args arguments) error {
		if len(args.before) == 0 && len(args.after) > 1 && args.after[1] == "--" { // lock -- -key -- CMD
			args.before, args.after = args.after[:1], args.after[2:]
		}
		if len(args.before) != 1 || len(args.after) == 0 {
			return usageError("want KEY -- CMD ARGS..., with -- in between")
		}
		return runLock(p, &f, args.before[0], args.after)
	}
	return c
}

// runLock acquires key, runs the command and releases key.
func runLock(p *process, f *lockFlags, key string, argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return withExit(exitNotFound, err)
		}
		return withExit(exitNotExecutable, err)
	}
	// SIGHUP or SIGINT that our parent has set to be ignored is not ours to catch, and stays ignored in CMD; for other
	// signals the runtime does not report that. SIGPIPE is caught so that writing to a closed stderr does not end us.
	signals := make(chan os.Signal, 16)
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	broker, ticket, err := acquireUnlessSignalled(p, f, key, signals)
	if err != nil {
		return err
	}
	defer broker.Close()

	// The command dies with the thread that starts it: this one, which lasts until the process ends.
	runtime.LockOSThread()
	r := &lockedRun{process: p, ticket: ticket, lead: termLead(f.lease, time.Until(ticket.Deadline())), signals: signals}
	status, err := r.run(path, argv)
	if err := r.release(); err != nil {
		writeError(p.stderr, "lock", err.Error())
	}
	switch {
	case err != nil:
		return err
	case r.overdue:
		return withExit(exitLeaseOver, fmt.Errorf("the lease of %q ran out and the command was ended: it needs a longer --lease, or less work", key))
	case status.Signaled():
		return exitWith(128 + int(status.Signal()))
	}
	return exitWith(status.ExitStatus())
}

// acquireUnlessSignalled acquires; a signal meanwhile ends the attempt.
func acquireUnlessSignalled(p *process, f *lockFlags, key string, signals chan os.Signal) (*client.Broker, *client.Ticket, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case sig := <-signals:
				if sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 && sig != syscall.SIGPIPE {
					cancel()
				}
			case <-stop:
				return
			}
		}
	}()
	broker, ticket, err := f.acquire(ctx, p, key)
	close(stop)
	<-stopped
	if err == nil && ctx.Err() != nil { // the signal and the grant crossed
		err = ticket.Release(context.Background())
		broker.Close()
		if err != nil {
			return nil, nil, fmt.Errorf("interrupted, and the lock is held until its lease ends: %w", err)
		}
		return nil, nil, withExit(exitNotGranted, errors.New("interrupted: the lock was given back"))
	}
	return broker, ticket, err
}

// termLead is how long before the deadline the command gets SIGTERM, but not before half the lease is over. left is the time to the
// deadline.
func termLead(lease, left time.Duration) time.Duration {
	return min(max(lease/10, time.Second), max(left-lease/2, 0))
}

// lockedRun is a command that runs while a lock is held.
type lockedRun struct {
	*process
	ticket  *client.Ticket
	lead    time.Duration
	signals chan os.Signal
	guard   *guard
	group   int      // the command's process group, which has its pid
	tty     terminal // the terminal that it was given
	overdue bool     // it was told to end because of the lease
}

// run starts the command, sees it through, and returns how it ended.
func (r *lockedRun) run(path string, argv []string) (syscall.WaitStatus, error) {
	var err error
	if r.guard, err = startGuard(); err != nil {
		return 0, fmt.Errorf("starting the process that watches over the command: %w", err)
	}
	r.tty = terminalOf(r.stdin)
	cmd := exec.Cmd{
		Path: path, Args: argv, Env: r.commandEnviron(),
		Stdin: r.stdin, Stdout: r.stdout, Stderr: r.stderr,
		SysProcAttr: dieWithParent(),
	}
	cmd.SysProcAttr.Setpgid = true
	for _, sig := range []os.Signal{syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH} {
		if !signal.Ignored(sig) {
			signal.Notify(r.signals, sig)
		}
	}
	launch, err := startLaunch(&cmd)
	if err != nil {
		r.guard.dismiss()
		return 0, withExit(exitNotExecutable, fmt.Errorf("starting the process that becomes the command: %w", err))
	}
	r.group = launch.pid
	r.tty.settle()
	defer func() { r.tty.takeBack(r.group) }()
	child := childWait{pid: r.group}
	switch err = r.guard.watch(r.group, r.end()); {
	case err != nil:
		err = fmt.Errorf("the process that watches over the command: %w", err)
	case time.Until(r.ticket.Deadline()) <= 0:
		r.overdue = true
	default:
		r.tty.give(r.group)
		r.watch(&child, launch.execute())
	}
	// The command is not reaped yet, so the number of its group cannot have been reused.
	syscall.Kill(-r.group, syscall.SIGKILL)
	r.guard.dismiss()
	status, reapErr := child.reap()
	// While this process was stopped, the guard may have been first.
	if status.Signaled() && status.Signal() == syscall.SIGKILL && time.Until(r.ticket.Deadline()) <= 0 {
		r.overdue = true
	}
	return status, errors.Join(err, reapErr)
}

// end is the lock's deadline, on suspendClock.
func (r *lockedRun) end() time.Duration { return suspendClock() + time.Until(r.ticket.Deadline()) }

// keepGuard replaces a guard that was killed. If that fails, the next call tries again.
func (r *lockedRun) keepGuard() {
	select {
	case <-r.guard.lost:
	default:
		return
	}
	next, err := startGuard()
	if err != nil {
		return
	}
	if next.watch(r.group, r.end()) != nil {
		next.dismiss()
		return
	}
	r.guard.dismiss()
	r.guard = next
}

// commandEnviron is the environment of the command.
func (r *lockedRun) commandEnviron() []string {
	const format = "2006-01-02T15:04:05.000Z07:00"
	kept := withoutVariables(r.environ, "TICKETING_LOCK_KEY", "TICKETING_LOCK_TOKEN", "TICKETING_LOCK_DEADLINE")
	return append(kept,
		"TICKETING_LOCK_KEY="+r.ticket.Key(),
		"TICKETING_LOCK_TOKEN="+decimal(r.ticket.Token()),
		"TICKETING_LOCK_DEADLINE="+r.ticket.Deadline().UTC().Format(format))
}

// watch passes signals on and enforces the lease, until the command has ended. Signals are held back until the command is
// executed, because the process that waits to become it would lose some.
func (r *lockedRun) watch(child *childWait, begun <-chan struct{}) {
	var signals chan os.Signal
	changes := make(chan syscall.Signal)
	go func() {
		for stop := child.next(); ; stop = child.next() {
			changes <- stop
			if stop == 0 {
				return
			}
		}
	}()
	deadline := r.ticket.Context().Done()
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case stop := <-changes:
			switch stop {
			case 0:
				return
			case syscall.SIGTSTP:
				r.suspend()
			case syscall.SIGTTIN, syscall.SIGTTOU:
				// It wants the terminal. A shell that brings a running job to the foreground sends no signal.
				if r.tty.foreground() {
					r.resume()
				} else {
					r.suspend()
				}
			}
		case <-begun:
			begun, signals = nil, r.signals
		case sig := <-signals:
			switch sig {
			case syscall.SIGPIPE:
			case syscall.SIGCONT:
				r.resume()
			default:
				syscall.Kill(-r.group, sig.(syscall.Signal))
			}
		case <-look.C:
			// The deadline is checked again and again, because it comes nearer while the machine is suspended, and timers do not run.
			left := time.Until(r.ticket.Deadline()) - r.lead
			if left > 0 {
				r.keepGuard()
				look.Reset(min(left, 250*time.Millisecond))
				continue
			}
			r.overdue = true
			syscall.Kill(-r.group, syscall.SIGTERM)
			syscall.Kill(-r.group, syscall.SIGCONT) // a stopped process would not notice
			// Perhaps nobody reads stderr, and that must not delay the release.
			go writeError(r.stderr, "lock", fmt.Sprintf("the lease of %q ends soon: the command gets SIGTERM", r.ticket.Key()))
		case <-deadline:
			deadline = nil
			r.overdue = true
			syscall.Kill(-r.group, syscall.SIGKILL)
		}
	}
}

// suspend stops this process's own group, as job control stopped the command's, until the shell continues it. The
// guard goes on: at the deadline it kills the command, stopped or not.
func (r *lockedRun) suspend() {
	r.tty.takeBack(r.group)
	// Not SIGTSTP: once it has been caught, package signal does not restore its default action. If no shell could continue the
	// group, the kernel drops the signal, and the limit below ends the wait.
	syscall.Kill(0, syscall.SIGTTIN)
	limit := time.NewTimer(100 * time.Millisecond)
	defer limit.Stop()
	for waiting := true; waiting; {
		select {
		case sig := <-r.signals:
			if sig == syscall.SIGCONT {
				waiting = false
			} else if sig != syscall.SIGPIPE {
				syscall.Kill(-r.group, sig.(syscall.Signal))
			}
		case <-limit.C:
			waiting = false
		}
	}
	r.resume()
}

// resume continues the command, in the foreground if this process is there now. If the lock has ended meanwhile, it kills the command.
func (r *lockedRun) resume() {
	if time.Until(r.ticket.Deadline()) <= 0 {
		r.overdue = true
		syscall.Kill(-r.group, syscall.SIGKILL)
		return
	}
	r.tty.give(r.group)
	syscall.Kill(-r.group, syscall.SIGCONT)
}

// release gives the lock back. After the lease has run out, it is no error that the lock is gone.
func (r *lockedRun) release() error {
	err := r.ticket.Release(context.Background())
	if errors.Is(err, client.ErrNotHeld) && r.overdue {
		return nil
	}
	return err
}
