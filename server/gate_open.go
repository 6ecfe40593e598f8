package server

import (
	"math"

	"ticketing.internal/lock"
)

// openGate returns the gate of a standalone server that starts at now, during the boot of the machine that boot names. store is nil
// without a state directory; floor is TICKETING_TOKEN_FLOOR. The first write is done when it returns.
func openGate(store stateStore, now lock.Time, boot bootID, floor uint64) (*gate, error) {
	g := &gate{store: store}
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
	w := g.newWrite(first)
	if err := w.run(); err != nil {
		return nil, err
	}
	g.accept(w)
	return g, nil
}

// pauseEnd returns when the last lease that an earlier process can have granted ends, in mono ns; 0 if all have ended. After a clean
// stop with nothing held the recorded horizon and longest lease are zero.
func pauseEnd(last stateRecord, now int64, boot bootID) int64 {
	longest := millis(last.longestMillis)
	end := now + longest
	// A horizon further away than any write could have put it is of another clock, whatever the boot id says.
	if boot != (bootID{}) && boot == last.boot && last.horizon <= end+2*horizonReach {
		end = last.horizon
	}
	if end <= now {
		return 0
	}
	return end
}
