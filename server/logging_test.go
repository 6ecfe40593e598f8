package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLoggerLevelsAndFormats(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1, "": 3} {
		for _, format := range []string{"text", "json", ""} {
			var out bytes.Buffer
			log := NewLogger(&out, level, format)
			log.Debug("d")
			log.Info("i")
			log.Warn("w")
			log.Error("e", "key", "a\nb\x1b[31m")
			if got := strings.Count(out.String(), "\n"); got != want {
				t.Errorf("level %q, format %q: %d lines, want %d:\n%s", level, format, got, want, out.String())
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("format %q: an escape sequence reaches the terminal", format)
			}
		}
	}
}

func TestLoggerTimesAreUTC(t *testing.T) {
	var out bytes.Buffer
	record := slog.NewRecord(time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("", 7200)), slog.LevelInfo, "m", 0)
	record.Add("time", "of an attribute", "when", time.Unix(0, 0).UTC())
	for _, format := range []string{"text", "json"} {
		out.Reset()
		if err := NewLogger(&out, "info", format).Handler().Handle(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "2026-07-01T10:00:00") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
	if !json.Valid(out.Bytes()) {
		t.Errorf("not JSON: %s", out.String())
	}
}

func TestEventLogLeavesRepeatsOut(t *testing.T) {
	var out bytes.Buffer
	l := newEventLog(NewLogger(&out, "info", "text"))
	lines := func() (n int, text string) {
		text = out.String()
		out.Reset()
		return strings.Count(text, "\n"), text
	}
	for i := range 100 {
		l.write(int64(i), slog.LevelWarn, "repeated", slog.Int("n", i))
		l.write(int64(i), slog.LevelWarn, "rare but once")
	}
	if n, text := lines(); n != 2*eventsPerPeriod || strings.Contains(text, leftOutLogAttr) {
		t.Errorf("%d lines:\n%s", n, text)
	}

	// The first event of the next period says what the last left out.
	l.write(int64(eventPeriod), slog.LevelWarn, "repeated", slog.Int("n", 100))
	if n, text := lines(); n != 1 || !strings.Contains(text, fmt.Sprintf("n=100 left_out=%d", 100-eventsPerPeriod)) {
		t.Errorf("%d lines:\n%s", n, text)
	}

	// Without one, flush does, once, when the period is over.
	l.flush(int64(eventPeriod) - 1)
	if n, text := lines(); n != 0 {
		t.Errorf("too early: %s", text)
	}
	for range 2 {
		l.flush(int64(eventPeriod) + 99)
	}
	if n, text := lines(); n != 1 || !strings.Contains(text, `level=WARN msg="rare but once" left_out=95`) {
		t.Errorf("%d lines:\n%s", n, text)
	}
}

// What was left out last may have another reason than what was written.
func TestEventLogNamesTheLastLeftOut(t *testing.T) {
	var out bytes.Buffer
	l := newEventLog(NewLogger(&out, "info", "text"))
	for i := range eventsPerPeriod + 2 {
		l.write(0, slog.LevelWarn, "repeated", slog.Int("n", i))
	}
	l.flush(int64(eventPeriod))
	if want := fmt.Sprintf("level=WARN msg=repeated n=%d left_out=2\n", eventsPerPeriod+1); !strings.HasSuffix(out.String(), want) {
		t.Errorf("want a last line %q:\n%s", want, out.String())
	}
}

// However often something happens, the lines are few: at most a period's and a count for each period.
func TestEventLogIsBounded(t *testing.T) {
	var out bytes.Buffer
	l := newEventLog(NewLogger(&out, "info", "text"))
	const periods = 20
	events := 0
	for now := int64(0); now < periods*int64(eventPeriod); now += int64(time.Millisecond) * 7 {
		l.write(now, slog.LevelInfo, "flood")
		l.flush(now)
		events++
	}
	l.flush(periods * int64(eventPeriod) * 2)
	written, leftOut := 0, 0
	for line := range strings.Lines(out.String()) {
		n := 0
		if _, count, found := strings.Cut(line, leftOutLogAttr+"="); found {
			fmt.Sscan(count, &n)
		}
		leftOut += n
		written++
	}
	if written > periods*(eventsPerPeriod+1)+1 {
		t.Errorf("%d lines in %d periods", written, periods)
	}
	// A line of flush is a count and no event.
	if counted := leftOut + periods*eventsPerPeriod; counted < events-periods || counted > events+periods {
		t.Errorf("%d events, and the lines speak of about %d", events, counted)
	}
}
