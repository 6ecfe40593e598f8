//go:build linux

package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listenAsManager opens the socket of a service manager.
func listenAsManager(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// messagesOf returns a function that returns the messages that have arrived at c.
func messagesOf(t *testing.T, c *net.UnixConn) func() []string {
	t.Helper()
	conn, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return func() (messages []string) {
		b := make([]byte, 100)
		conn.Read(func(fd uintptr) (done bool) {
			for {
				n, _, err := unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
				if err != nil {
					return true
				}
				messages = append(messages, string(b[:n]))
			}
		})
		return messages
	}
}

func TestNotifier(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@ticketing-test-%d", os.Getpid())} {
		messages := messagesOf(t, listenAsManager(t, name))
		n, err := newNotifier(name, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.ready(); err != nil {
			t.Error(err)
		}
		for _, now := range []int64{5 * second, 6 * second, 15*second - 1, 15 * second, 16 * second} {
			n.alive(now)
		}
		if err := n.stopping(); err != nil {
			t.Error(err)
		}
		n.end()
		if got := strings.Join(messages(), " "); got != "READY=1 WATCHDOG=1 WATCHDOG=1 STOPPING=1" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A manager that does not read must not hold the engine up.
func TestNotifierDoesNotBlock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	listenAsManager(t, name)
	n, err := newNotifier(name, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer n.end()
	for now := range int64(100_000) {
		n.alive(now)
	}
	if err := n.stopping(); err == nil {
		t.Error("the socket is not full: the test shows nothing")
	}
}

func TestNotifierWithoutManager(t *testing.T) {
	n, err := newNotifier("", time.Second)
	if n != nil || err != nil {
		t.Fatalf("%v, %v", n, err)
	}
	n.alive(1)
	if n.ready() != nil || n.stopping() != nil {
		t.Error("nobody is told, and that fails")
	}
	n.end()
	if _, err := newNotifier(filepath.Join(t.TempDir(), "none"), 0); err == nil || !strings.Contains(err.Error(), "NOTIFY_SOCKET") {
		t.Errorf("a socket that is not there: %v", err)
	}
}

func TestNotifierWithoutWatchdog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	messages := messagesOf(t, listenAsManager(t, name))
	n, err := newNotifier(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	n.alive(1 << 60)
	n.end()
	if got := messages(); len(got) != 0 {
		t.Errorf("signs of life that nobody asked for: %q", got)
	}
}
