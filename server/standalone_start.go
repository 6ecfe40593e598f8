package server

import (
	"fmt"
	"math"
	"time"

	"ticketing.internal/lock"
)

const (
	tokenEpochMillis = 1_767_225_600_000 // 2026-01-01 UTC
	tokenShift       = 14
	maxTokenBase     = 1 << 62 // leaves every later token within a signed 64-bit column
)

// openGate starts the life of a standalone server at now, on the boot of the machine that boot names. store is nil without a state
// directory; floor is TICKETING_TOKEN_FLOOR. The first write is done when it returns.
func openGate(store stateStore, now lock.Time, boot bootID, floor uint64) (*gate, error) {
	g := &gate{store: store, boot: boot}
	var last stateRecord
	if store != nil {
		var err error
		if last, err = store.read(); err != nil {
			return nil, err
		}
	}
	base, err := tokenBase(now.Wall, floor, last.reserved)
	if err != nil {
		return nil, err
	}
	g.tokens = base
	if store == nil {
		g.softEnd, g.softMillis, g.softTokens = math.MaxInt64, math.MaxUint32, math.MaxUint64
		return g, nil
	}
	first := stateRecord{boot: boot, horizon: now.Mono, reserved: base + tokenBlock}
	if g.pauseEnd = pauseEnd(last, now.Mono, boot); g.pauseEnd != 0 {
		// Another restart within the pause has to keep it, on this boot or the next.
		first.horizon, first.longestMillis = g.pauseEnd, last.longestMillis
	}
	w := g.make(first)
	if err := w.run(); err != nil {
		return nil, err
	}
	g.accept(w)
	return g, nil
}

// tokenBase is the token above which a domain starts: by the wall clock (unix ms), not below the operator's floor nor what an
// earlier process reserved.
func tokenBase(unixMillis int64, floor, reserved uint64) (uint64, error) {
	since := unixMillis - tokenEpochMillis
	switch {
	case since < 0 && floor == 0:
		return 0, &ConfigError{Problems: []string{fmt.Sprintf("the clock says %s, which is before 2026: tokens start by the clock; "+
			"set it, or give TICKETING_TOKEN_FLOOR above every token granted so far", time.UnixMilli(unixMillis).UTC().Format(time.RFC3339))}}
	case since >= maxTokenBase>>tokenShift, floor > maxTokenBase, reserved > maxTokenBase:
		return 0, &ConfigError{Problems: []string{fmt.Sprintf("tokens would start above 2^62: by the clock (%s), by TICKETING_TOKEN_FLOOR (%d) "+
			"or by the state file (%d)", time.UnixMilli(unixMillis).UTC().Format(time.RFC3339), floor, reserved)}}
	}
	return max(uint64(max(since, 0))<<tokenShift, floor, reserved), nil
}

// pauseEnd is when the last lease that an earlier process can have granted is over, 0 if that is so already. A clean stop with
// nothing held has recorded a horizon and a longest lease of zero.
func pauseEnd(last stateRecord, now int64, boot bootID) int64 {
	longest := millis(last.longestMillis)
	end := now + longest
	// A horizon further away than any write could have put it was measured on another clock, whatever the boot id says.
	if boot != (bootID{}) && boot == last.boot && last.horizon <= end+2*horizonReach {
		end = last.horizon
	}
	if end <= now {
		return 0
	}
	return end
}
