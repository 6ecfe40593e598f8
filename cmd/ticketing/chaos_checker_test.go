package main

import (
	"strings"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// A history is told from one in which something happened that must not happen.
func TestHistoryProblems(t *testing.T) {
	const ms = time.Millisecond
	grant := func(key string, token uint64, asked, granted, deadline, releasing time.Duration) event {
		return event{key: key, token: token, asked: asked * ms, granted: granted * ms, deadline: deadline * ms, releasing: releasing * ms}
	}
	for _, test := range []struct {
		name    string
		events  []event
		unknown []time.Duration
		after   uint64
		want    string // part of a problem; "": there is none
	}{
		{name: "nothing", after: 10},
		{name: "one after the other", events: []event{grant("k", 11, 0, 1, 1000, 5), grant("k", 12, 0, 6, 1006, 9)}, after: 12},
		{name: "a lease that ended", events: []event{grant("k", 11, 0, 1, 1000, 0), grant("k", 12, 2, 1001, 2000, 1002)}, after: 12},
		{name: "two holders", events: []event{grant("k", 11, 0, 1, 1000, 5), grant("k", 12, 0, 4, 1004, 6)}, after: 12, want: "while token 11 was held"},
		{name: "two holders, one in between", after: 13, want: "token 13 arrived at 4ms, while token 12",
			events: []event{grant("k", 11, 0, 1, 1000, 5), grant("k", 12, 0, 6, 1006, 7), grant("k", 13, 0, 4, 1004, 6)}},
		{name: "a lease cut short", events: []event{grant("k", 11, 0, 1, 1000, 0), grant("k", 12, 2, 999, 2000, 1002)}, after: 12, want: "while token 11 was held"},
		{name: "two keys", events: []event{grant("k", 11, 0, 1, 1000, 5), grant("l", 12, 0, 4, 1004, 6)}, after: 12},
		{name: "a grant that came too late", events: []event{grant("k", 11, 0, 1000, 1000, 1001)}, after: 11, want: "after its deadline"},
		{name: "a token that fell", events: []event{grant("k", 12, 0, 1, 1000, 2), grant("l", 11, 2, 3, 1000, 4)}, after: 12, want: "was asked for after token 12"},
		{name: "a token twice", events: []event{grant("k", 11, 0, 1, 1000, 2), grant("l", 11, 0, 3, 1000, 4)}, after: 11, want: "twice, or never"},
		{name: "a token of before", events: []event{grant("k", 10, 0, 1, 1000, 2)}, after: 10, want: "twice, or never"},
		{name: "a token of nobody's", events: []event{grant("k", 12, 0, 1, 1000, 2)}, after: 11, want: "twice, or never"},
		{name: "a grant of unknown fate", events: []event{grant("k", 12, 0, 3, 1000, 4)}, unknown: []time.Duration{2 * ms}, after: 12},
		{name: "a grant denied", events: []event{grant("k", 12, 0, 3, 1000, 4)}, after: 12, want: "1 tokens had been granted"},
		{name: "a grant denied, the last", events: []event{grant("k", 11, 0, 3, 1000, 4)}, after: 12, want: "1 tokens had been granted"},
		{name: "a grant denied before another of unknown fate", events: []event{grant("k", 12, 0, 3, 1000, 4)}, unknown: []time.Duration{4 * ms}, after: 12,
			want: "to 0 acquires"},
		{name: "two denied, one of unknown fate", events: []event{grant("k", 12, 0, 3, 1000, 4)}, unknown: []time.Duration{2 * ms}, after: 13,
			want: "2 tokens had been granted and never arrived, to 1"},
	} {
		h := newHistory()
		h.events, h.unknown = test.events, test.unknown
		got := strings.Join(h.problems(10, test.after), "\n")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// An auditor sees through each reply that is not true.
func TestAuditorJudges(t *testing.T) {
	const lost = wordUnknown
	const A, T, R, N, B = wire.OpGranted, wire.OpTimeout, wire.OpReleased, wire.OpNotHeld, wire.OpBusy
	type step struct {
		move  move
		words []wire.Op // of the replies, in the order of the requests
	}
	take, give := step{moveAcquire, []wire.Op{A}}, step{moveRelease, []wire.Op{R}}
	for _, test := range []struct {
		name  string
		steps []step
		want  string // part of a problem; "": there is none
	}{
		{"there and back", []step{take, give, take, give, {moveReleaseAgain, []wire.Op{N}}}, ""},
		{"denied to the holder's second acquire", []step{take, {moveSecond, []wire.Op{T}}, give}, ""},
		{"no effect", []step{{moveAcquire, []wire.Op{B}}, take, {moveRelease, []wire.Op{B}}, {moveSecond, []wire.Op{T}}, give}, ""},
		{"a release of unknown fate that took effect", []step{take, {moveRelease, []wire.Op{lost}}, {moveRelease, []wire.Op{N}}, take}, ""},
		{"a release of unknown fate that took effect, seen by an acquire", []step{take, {moveRelease, []wire.Op{lost}}, {moveSecond, []wire.Op{A}}}, ""},
		{"an acquire of unknown fate", []step{{moveAcquire, []wire.Op{lost}}, take}, ""},
		{"handed over", []step{take, {moveHandOver, []wire.Op{A, R}}, give}, ""},
		{"handed over, of unknown fate", []step{take, {moveHandOver, []wire.Op{A, lost}}, give}, ""},
		{"handed to nobody", []step{take, {moveHandOver, []wire.Op{B, R}}, take}, ""},
		{"kept", []step{take, {moveHandOver, []wire.Op{T, B}}, give}, ""},
		{"withdrawn", []step{take, {moveWithdraw, []wire.Op{T, R}}, {moveWithdraw, []wire.Op{B, N}}, give}, ""},

		{"T for a free key", []step{{moveAcquire, []wire.Op{T}}}, "T says that it is held"},
		{"T for a grant", []step{take, give, {moveAcquire, []wire.Op{T}}}, "T says that it is held"},
		{"B for a grant", []step{{moveAcquire, []wire.Op{B}}, {moveAcquire, []wire.Op{T}}}, "T says that it is held"},
		{"two holders", []step{take, {moveSecond, []wire.Op{A}}}, "granted again"},
		{"N for a holder", []step{take, {moveRelease, []wire.Op{N}}}, "N denies it"},
		{"R twice", []step{take, give, {moveReleaseAgain, []wire.Op{R}}}, "is confirmed"},
		{"R for a token of nobody's", []step{take, {moveReleaseForeign, []wire.Op{R}}}, "is confirmed"},
		{"R without effect", []step{take, give, {moveAcquire, []wire.Op{T}}}, "T says that it is held"},
		{"B for a release that took effect", []step{take, {moveRelease, []wire.Op{B}}, {moveRelease, []wire.Op{N}}}, "N denies it"},
		{"handed over without a release", []step{take, {moveHandOver, []wire.Op{A, B}}}, "granted again"},
		{"withdrawn and granted", []step{take, {moveWithdraw, []wire.Op{A, N}}}, "granted again"},
		{"withdrawn and not answered", []step{take, {moveWithdraw, []wire.Op{B, R}}}, "a withdrawal is confirmed"},
	} {
		h := newHistory()
		a := newAuditor(h, "auditor", time.Second)
		l, token := &a.ledgers[0], uint64(10)
		for _, s := range test.steps {
			list := a.requests(l, s.move)
			for i, q := range list {
				q.sent, q.received = h.now(), h.now()
				if q.answered = s.words[i] != lost; q.answered {
					q.reply = wire.Reply{Op: s.words[i], Owner: q.request.Owner, Token: q.request.Token}
				}
				if q.reply.Op == A {
					token++
					q.reply.Token = token
				}
			}
			a.judge(l, s.move, list)
		}
		got := strings.Join(h.wrong, "\n")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
