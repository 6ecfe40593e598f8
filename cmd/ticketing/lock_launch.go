package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// launch is the process that becomes the command. It leads the command's process group, and executes the command only when
// it is told to, once the guard knows the group. So whenever the lock command is killed, either nothing of the command has
// run or the guard ends all of it.
type launch struct {
	pid  int
	pipe *os.File // a byte from the process: it is ready; a byte to it: execute. If either side ends, the other stops waiting
}

// startLaunch starts the process and waits until it is ready. cmd is how the command is to run.
func startLaunch(cmd *exec.Cmd) (*launch, error) {
	self, err := selfCommand("lock-launch")
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	// The other end is inherited under its own number. As one of ExtraFiles it could take the number of a file that our
	// parent has opened for the command.
	unix.CloseOnExec(pair[0])
	l := &launch{pipe: os.NewFile(uintptr(pair[0]), "the launch of the command")}
	self.Args = append(append(self.Args, strconv.Itoa(pair[1]), cmd.Path), cmd.Args...)
	self.Env, self.SysProcAttr = cmd.Env, cmd.SysProcAttr
	self.Stdin, self.Stdout, self.Stderr = cmd.Stdin, cmd.Stdout, cmd.Stderr
	err = self.Start()
	unix.Close(pair[1])
	if err != nil {
		l.pipe.Close()
		return nil, err
	}
	l.pid = self.Process.Pid
	if n, _ := l.pipe.Read(make([]byte, 1)); n == 0 {
		l.pipe.Close()
		self.Wait()
		return nil, fmt.Errorf("%v at its start: see whether the limits of processes and memory leave room", self.ProcessState)
	}
	return l, self.Process.Release() // childWait waits for it: os/exec would not report that it was stopped
}

// execute lets the process execute the command. The channel is closed when it has, or has ended.
func (l *launch) execute() <-chan struct{} {
	l.pipe.Write([]byte{1}) // an error means that it has ended, which is noticed anyway
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		defer l.pipe.Close()
		l.pipe.Read(make([]byte, 1))
	}()
	return begun
}

// runLaunch is that process. Its arguments are the number of its end of the pipe, and the command's file and arguments.
func runLaunch(p *process, args []string) error {
	if len(args) < 3 {
		return usageError("lock alone starts it")
	}
	number, err := strconv.Atoi(args[0])
	if err != nil {
		return usageError("lock alone starts it: %w", err)
	}
	runtime.LockOSThread()
	keepDyingWithParent()
	unix.CloseOnExec(number)
	pipe := os.NewFile(uintptr(number), "pipe")
	defer pipe.Close()
	pipe.Write([]byte{1})
	if n, _ := pipe.Read(make([]byte, 1)); n == 0 {
		return exitWith(exitNegative) // the lock command has ended
	}
	err = syscall.Exec(args[1], args[2:], p.environ)
	writeError(p.stderr, "lock", (&fs.PathError{Op: "fork/exec", Path: args[1], Err: err}).Error())
	return exitWith(exitNotExecutable)
}
