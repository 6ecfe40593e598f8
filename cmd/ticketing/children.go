package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// child is a process that bench started, and ends by its pid.
type child struct {
	cmd    *exec.Cmd
	addr   string
	admin  string        // URL of a server's admin endpoint
	exited chan struct{} // closed when the process has ended
}

// pid returns the process id, and 0 for no child.
func (c *child) pid() int {
	if c == nil {
		return 0
	}
	return c.cmd.Process.Pid
}

// startServer starts this binary's server on free loopback ports, bound to cpus, with the environment of this process
// except for addresses, state and identity, and with extra on top. The caller has locked its goroutine to its thread:
// the child dies with that thread.
func startServer(p *process, cpus []int, extra ...string) (*child, error) {
	clientAddr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	adminAddr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	c, err := p.newChild("server")
	if err != nil {
		return nil, err
	}
	c.addr, c.admin = clientAddr, "http://"+adminAddr
	c.cmd.Env = append(withoutVariables(p.environ, "TICKETING_LISTEN", "TICKETING_ADVERTISE", "TICKETING_ADMIN_LISTEN", "TICKETING_STATE_DIR",
		"TICKETING_SEAT", "TICKETING_BOOTSTRAP", "TICKETING_BOOTSTRAP_FILE", "TICKETING_JOIN", "TICKETING_JOIN_FILE", "TICKETING_PEERS",
		"TICKETING_PEER_LISTEN", "TICKETING_PEER_ADVERTISE", "TICKETING_CLUSTER_SECRET", "TICKETING_CLUSTER_SECRET_FILE", "TICKETING_LOG_LEVEL"),
		append([]string{"TICKETING_LISTEN=" + clientAddr, "TICKETING_ADMIN_LISTEN=" + adminAddr, "TICKETING_LOG_LEVEL=error"}, extra...)...)
	c.cmd.Stderr = p.stderr
	if err := c.start(cpus); err != nil {
		return nil, err
	}
	conn, err := c.dialWhenReady()
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, conn.Close()
}

// dialWhenReady connects as soon as the child listens.
func (c *child) dialWhenReady() (net.Conn, error) {
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for {
		conn, err := net.Dial("tcp", c.addr)
		if err == nil {
			return conn, nil
		}
		select {
		case <-retry.C:
		case <-c.exited:
			return nil, withExit(exitNegative, fmt.Errorf("the server ended at its start: %v", c.cmd.ProcessState))
		case <-limit.C:
			return nil, withExit(exitUnreachable, fmt.Errorf("the server did not open %s within 10 s", c.addr))
		}
	}
}

// startEcho starts the bare echo server, bound to cpus.
func startEcho(p *process, cpus []int) (*child, error) {
	c, err := p.newChild("bench-echo")
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.cmd.Stderr = p.stderr
	if err := c.start(cpus); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.stop()
		return nil, withExit(exitNegative, errors.New("the echo server did not start"))
	}
	c.addr = strings.TrimSpace(line)
	return c, nil
}

// newChild prepares this binary's command name as a child.
func (p *process) newChild(name string) (*child, error) {
	cmd, err := selfCommand(name)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = dieWithParent()
	return &child{cmd: cmd, exited: make(chan struct{})}, nil
}

// selfCommand prepares a command of this very binary, even if its file has been replaced meanwhile.
func selfCommand(name string) (*exec.Cmd, error) {
	path := "/proc/self/exe"
	if _, err := os.Stat(path); err != nil {
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(path, name)
	cmd.Args[0] = "ticketing"
	return cmd, nil
}

func (c *child) start(cpus []int) error {
	if err := pinnedStart(cpus, c.cmd.Start); err != nil {
		return err
	}
	go func() {
		defer close(c.exited)
		c.cmd.Wait()
	}()
	return nil
}

// stop ends the child, by force after 10 s.
func (c *child) stop() {
	if c == nil {
		return
	}
	c.cmd.Process.Signal(syscall.SIGTERM)
	force := time.AfterFunc(10*time.Second, func() { c.cmd.Process.Kill() })
	defer force.Stop()
	<-c.exited
}

// kill ends the child as a power failure would.
func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.exited
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
