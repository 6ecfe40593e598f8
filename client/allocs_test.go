package client

import (
	"context"
	"net"
	"testing"
	"time"
)

// A pair of acquire and release allocates the Ticket, and nothing else.
func TestAllocations(t *testing.T) {
	addr := listen(t, func(conn net.Conn) { grantAll(conn, nil) })
	b, err := New(Config{Addrs: []string{addr}, Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context()) // one that can end, as most can
	defer cancel()
	pair := func() {
		ticket, err := b.Acquire(ctx, "order-1234567890", time.Second, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		pair()
	}
	// One is measured; two are allowed, for the race detector has pools forget.
	if n := testing.AllocsPerRun(2000, pair); n > 2 {
		t.Errorf("%v allocations a pair, want at most 2", n)
	}
}
