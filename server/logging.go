package server

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// NewLogger returns a logger that writes one line per event to w. level is debug, info, warn or error, format text or json;
// anything else counts as info and text (ConfigFromEnv refuses it). Times are UTC.
func NewLogger(w io.Writer, level, format string) *slog.Logger {
	options := &slog.HandlerOptions{ReplaceAttr: utcTime}
	switch level {
	case "debug":
		options.Level = slog.LevelDebug
	case "warn":
		options.Level = slog.LevelWarn
	case "error":
		options.Level = slog.LevelError
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func utcTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	}
	return a
}

// eventLog writes events that clients can cause as often as they like. Of each kind (the message) it writes a few lines per period,
// and then how many it has left out. Safe for concurrent use.
type eventLog struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*eventBudget // by message, so messages are constants
}

// eventBudget is what one kind of event has used of its present period.
type eventBudget struct {
	until   int64 // mono ns at which the period ends
	written int
	leftOut int
	level   slog.Level // of the last event left out, as attrs
	attrs   []slog.Attr
}

const (
	eventPeriod     = 10 * time.Second
	eventsPerPeriod = 5
	leftOutLogAttr  = "left_out"
)

func newEventLog(log *slog.Logger) *eventLog {
	return &eventLog{log: log, kinds: map[string]*eventBudget{}}
}

// write logs an event that happened at now (mono ns), unless its kind has used up the lines of this period.
func (l *eventLog) write(now int64, level slog.Level, message string, attrs ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.kinds[message]
	if b == nil {
		b = &eventBudget{until: now + int64(eventPeriod)}
		l.kinds[message] = b
	}
	leftOut := 0
	if now >= b.until {
		leftOut = b.leftOut
		*b = eventBudget{until: now + int64(eventPeriod)}
	}
	if b.written == eventsPerPeriod {
		b.leftOut++
		b.level, b.attrs = level, attrs
		return
	}
	b.written++
	if leftOut > 0 {
		attrs = append(attrs, slog.Int(leftOutLogAttr, leftOut))
	}
	l.log.LogAttrs(context.Background(), level, message, attrs...)
}

// flush reports what was left out in periods that are over at now (mono ns), for kinds that have been quiet since: how many events,
// and the last of them, because its attributes may differ from those that were written. It is called every choreInterval.
func (l *eventLog) flush(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, message := range slices.Sorted(maps.Keys(l.kinds)) {
		b := l.kinds[message]
		if b.leftOut == 0 || now < b.until {
			continue
		}
		l.log.LogAttrs(context.Background(), b.level, message, append(b.attrs, slog.Int(leftOutLogAttr, b.leftOut))...)
		*b = eventBudget{until: now + int64(eventPeriod)}
	}
}
