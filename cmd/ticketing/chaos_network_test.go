//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// network is hosts around a switch, each of them in a network namespace of its own. The namespaces have no names: the
// kernel removes them, and all in them, with the last file and process that uses them, also after a crash of the tests.
type network struct {
	t     *testing.T
	hub   *host // where the switch is
	hosts []*host
}

// host is one network namespace.
type host struct {
	number int    // of its port; its address is 10.83.0.number
	path   string // of its namespace
	file   *os.File
}

func (h *host) addr() string { return fmt.Sprintf("10.83.0.%d", h.number) }

// newNetwork connects hosts to a switch.
func newNetwork(t *testing.T, hosts int) *network {
	t.Helper()
	requireChaos(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip (of iproute2)")
	}
	n := &network{t: t, hub: newHost(t, 0)}
	n.ip(n.hub, "link add switch type bridge", "link set switch up")
	for i := 1; i <= hosts; i++ {
		h := newHost(t, i)
		n.hosts = append(n.hosts, h)
		n.ip(n.hub, fmt.Sprintf("link add port%d type veth peer name eth0 netns %s", i, h.path), fmt.Sprintf("link set port%d master switch up", i))
		n.ip(h, "link set lo up", "address add "+h.addr()+"/24 dev eth0", "link set eth0 up")
	}
	return n
}

func newHost(t *testing.T, number int) *host {
	t.Helper()
	made := make(chan error)
	h := &host{number: number}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET))
		if err == nil {
			h.file, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Skipf("needs the right to make network namespaces: %v", err)
	}
	t.Cleanup(func() { h.file.Close() })
	h.path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.file.Fd())
	return h
}

// do runs f on the host: sockets and processes that f makes are there.
func (h *host) do(f func()) {
	runtime.LockOSThread()
	before, err := os.Open("/proc/thread-self/ns/net")
	if err == nil {
		defer before.Close()
		err = unix.Setns(int(h.file.Fd()), unix.CLONE_NEWNET)
	}
	if err != nil {
		panic(fmt.Sprintf("entering a network namespace: %v", err))
	}
	defer func() {
		if unix.Setns(int(before.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread() // else the thread is of no use to others, and ends with the goroutine
		}
	}()
	f()
}

// ip runs commands of ip on a host.
func (n *network) ip(h *host, commands ...string) {
	n.t.Helper()
	h.do(func() {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
		if out, err := cmd.CombinedOutput(); err != nil {
			n.t.Fatalf("ip %s: %v\n%s", strings.Join(commands, "; "), err, out)
		}
	})
}

// lose makes every packet from one host to another vanish, and no packet the other way: the sender believes in a neighbour
// that is not there.
func (n *network) lose(from, to *host) {
	n.t.Helper()
	n.ip(from, "neighbour replace "+to.addr()+" lladdr 02:00:00:00:00:01 dev eth0 nud permanent")
}

// find undoes lose.
func (n *network) find(from, to *host) {
	n.t.Helper()
	n.ip(from, "neighbour delete "+to.addr()+" dev eth0")
}

// unplug takes the carrier from a host, and plug gives it back.
func (n *network) unplug(h *host) {
	n.t.Helper()
	n.ip(n.hub, fmt.Sprintf("link set port%d down", h.number))
}

func (n *network) plug(h *host) {
	n.t.Helper()
	n.ip(n.hub, fmt.Sprintf("link set port%d up", h.number))
}

// isolate makes the switch forward nothing between the hosts; all others still reach each of them.
func (n *network) isolate(on bool, hosts ...*host) {
	n.t.Helper()
	state := map[bool]string{true: "on", false: "off"}[on]
	for _, h := range hosts {
		n.ip(n.hub, fmt.Sprintf("link set port%d type bridge_slave isolated %s", h.number, state))
	}
}
