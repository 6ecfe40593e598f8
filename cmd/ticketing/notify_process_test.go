package main

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A service manager must not take a node that waits for its cluster for dead: it is ready when its ports are open, and shows signs of
// life.
func TestNodeThatWaitsNotifiesItsServiceManager(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skip("there are no datagram sockets here:", err)
	}
	defer manager.Close()
	manager.SetReadDeadline(time.Now().Add(testTime))
	next := func() string {
		t.Helper()
		b := make([]byte, 256)
		n, err := manager.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	c := newChaosCluster(t, 3)
	alone := c.nodes[0]
	alone.environ = append(alone.environ, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=1000000")
	p := c.start(alone)
	told := map[string]int{}
	for told["READY=1"] == 0 || told["WATCHDOG=1"] < 3 {
		text := next()
		if told[text]++; text != "READY=1" && text != "WATCHDOG=1" || told["READY=1"] > 1 {
			t.Fatalf("told %q, of %v", text, told)
		}
	}
	p.signal(syscall.SIGTERM)
	for text := next(); text != "STOPPING=1"; text = next() {
		if text != "WATCHDOG=1" {
			t.Fatalf("told %q at the stop", text)
		}
	}
	p.wait().expect(t, exitOK)
}
