package client

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestHooks(t *testing.T) {
	inWorld(t, func(w *world) {
		var events []string
		add := func(parts ...string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if parts[1] != "down:1" {
				events = append(events, strings.Join(parts, " "))
			}
		}
		h := w.host("a:1")
		text := func(err error) string {
			if err == nil {
				return "ok"
			}
			return err.Error()
		}
		w.openWith(Config{Addrs: []string{"a:1", "down:1"}, Hooks: Hooks{
			Dial:       func(addr string) { add("dial", addr) },
			Connect:    func(addr string, took time.Duration) { add("connect", addr, took.String()) },
			Disconnect: func(addr string, err error) { add("disconnect", addr, text(err)) },
			Request:    func(op wire.Op) { add("request", op.String()) },
			Reply:      func(op wire.Op, err error, took time.Duration) { add("reply", op.String(), text(err), took.String()) },
			Redirect:   func(from, leader string, term uint64) { add("redirect", from, leader) },
		}}, nil)
		r := w.next(h)
		call := w.acquire(w.Context(), "k")
		q := r.acquire("k")
		w.pass(70 * time.Millisecond)
		r.grant(q, 1)
		release := w.release(w.Context(), call.granted())
		r.notHeld(r.release("k", 1))
		release.fails(ErrNotHeld)
		r.moved("a:1", 4)
		r.moved("a:1", 3)
		r.hangUp()
		w.next(h)
		want := []string{
			"dial a:1", "connect a:1 0s",
			"request A", "reply A ok 70ms",
			"request R", `reply R release "k": ` + ErrNotHeld.Error() + " 0s",
			"redirect a:1 a:1", "disconnect a:1 EOF",
			"dial a:1", "connect a:1 0s",
		}
		if !slices.Equal(events, want) {
			w.Errorf("got  %q\nwant %q", events, want)
		}
	})
}

// An address that is down for an hour does not fill the log.
func TestLogIsQuiet(t *testing.T) {
	inWorld(t, func(w *world) {
		var log bytes.Buffer
		w.openWith(Config{Addrs: []string{"down:1", "down:2"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
		w.pass(time.Hour)
		if n := strings.Count(log.String(), "\n"); n != 2 {
			w.Errorf("%d lines:\n%.1000s", n, log.String())
		}
	})
}

// A name or an address that a server made up reaches the log escaped.
func TestLogOfConnections(t *testing.T) {
	inWorld(t, func(w *world) {
		var log bytes.Buffer
		h := w.host("a:1")
		w.openWith(Config{Addrs: []string{"a:1", "down:1"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
		r := w.next(h)
		r.moved("b:1", 2)
		w.change(h, func() { h.domain = domainTwo })
		r.hangUp()
		w.next(h)
		for _, want := range []string{
			`msg=connected addr=a:1 serving=true`, `msg="the leader moved" from=a:1 leader=b:1 term=2`,
			`level=WARN msg="connection ended" addr=a:1 reason=EOF`, `level=WARN msg="no connection" addr=down:1`,
			`level=WARN msg="the domain before is over`,
		} {
			if !strings.Contains(log.String(), want) {
				w.Errorf("no %q in\n%s", want, log.String())
			}
		}
		if strings.Contains(log.String(), testToken) {
			w.Error("the log holds the token")
		}
	})
}
