package server

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"ticketing.internal/raft"
)

// An election passes, and the pause after a loss ends by itself; that a majority is gone does not, so it is said before the pause.
func TestNoLeaderIsSaidBeforeThePause(t *testing.T) {
	c := newCluster(t, 3).startAll()
	ts := c.leader()
	ts.engine.mu.Lock()
	defer ts.engine.mu.Unlock()
	const start = int64(time.Hour)
	r := *replicaOf(ts) // what follows is told to a copy, at times that the node never sees
	r.pauseEnd = start + afterLossPause
	known := raft.State{Role: raft.RoleFollower, Voter: true, Leader: raft.Member{NodeID: 9}}
	alone, stands := known, known
	alone.Leader, stands.Leader, stands.Role = raft.Member{}, raft.Member{}, raft.RoleCandidate
	const pause = "recovering: leases of the domain before may still run"
	for _, step := range []struct {
		at    time.Duration
		state raft.State
		want  string
	}{
		{0, known, pause},
		{time.Second, alone, electingText},
		{2 * time.Second, stands, electingText},
		{2999 * time.Millisecond, alone, electingText},
		{3 * time.Second, stands, leaderlessText},
		{4 * time.Second, known, pause},
		{5 * time.Second, alone, electingText},
		{6 * time.Second, raft.State{Role: raft.RoleLeader, Voter: true}, pause},
		{251 * time.Second, raft.State{Role: raft.RoleLeader, Voter: true}, assumingText},
		{252 * time.Second, known, ""},
	} {
		now := start + int64(step.at)
		r.state = step.state
		r.noteLeader(now)
		if why := r.unready(now); why != step.want {
			t.Errorf("after %v: %q, want %q", step.at, why, step.want)
		}
	}
}

// saying is an authority that gives one reason.
type saying struct {
	authority
	why string
}

func (s *saying) unready(int64) string { return s.why }

// An election is worth an INFO line, the lack of a leader a WARN line, also when something else was the reason before.
func TestReadinessInTheLog(t *testing.T) {
	says := &saying{}
	e := &engine{authority: says, events: newEvents(newClock(), slog.New(slog.DiscardHandler))}
	type line struct {
		level slog.Level
		why   string
	}
	var lines []line
	for now, why := range []string{"", electingText, assumingText, "", assumingText, "", electingText, leaderlessText, leaderlessText, electingText, "", "recovering", electingText, leaderlessText, "recovering", ""} {
		says.why = why
		e.noteReadiness(int64(now))
		if got := *e.unready.Load(); got != why {
			t.Errorf("published %q for %q", got, why)
		}
		for len(e.events.queue) > 0 {
			lines = append(lines, line{(<-e.events.queue).level, why})
		}
	}
	want := []line{
		{slog.LevelInfo, electingText}, {slog.LevelInfo, ""}, {slog.LevelInfo, assumingText}, {slog.LevelInfo, ""},
		{slog.LevelInfo, electingText}, {slog.LevelWarn, leaderlessText}, {slog.LevelInfo, ""},
		{slog.LevelWarn, "recovering"}, {slog.LevelWarn, leaderlessText}, {slog.LevelInfo, ""},
	}
	if !slices.Equal(lines, want) {
		t.Errorf("logged %v, want %v", lines, want)
	}
}
