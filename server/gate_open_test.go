package server

import (
	"errors"
	"testing"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// What each kind of stop leaves behind, and how long the next start pauses for it. now is 1000 s after the boot.
func TestRecoveryPause(t *testing.T) {
	now := lock.Time{Mono: 1000 * second, Wall: gateEpoch}
	for name, test := range map[string]struct {
		last stateRecord
		boot bootID
		want int64 // pause, ns
	}{
		"a first start": {stateRecord{}, firstBoot(), 0},
		"killed, same boot": {
			stateRecord{boot: firstBoot(), horizon: now.Mono + 12*second, longestMillis: 30_000}, firstBoot(), 12 * second},
		"killed, same boot, horizon behind": {
			stateRecord{boot: firstBoot(), horizon: now.Mono - second, longestMillis: 30_000}, firstBoot(), 0},
		"killed, other boot": {
			stateRecord{boot: firstBoot(), horizon: now.Mono + 2*second, longestMillis: 30_000}, secondBoot(), 30 * second},
		"killed before the first grant, other boot": {
			stateRecord{boot: firstBoot(), horizon: 500_000 * second}, secondBoot(), 0},
		"stopped with nothing held": {
			stateRecord{boot: firstBoot(), clean: true}, firstBoot(), 0},
		"stopped with nothing held, other boot": {
			stateRecord{boot: firstBoot(), clean: true}, secondBoot(), 0},
		"stopped with locks held": {
			stateRecord{boot: firstBoot(), horizon: now.Mono + 3*second, longestMillis: 9_000, clean: true}, firstBoot(), 3 * second},
		"stopped with locks held, other boot": {
			stateRecord{boot: firstBoot(), horizon: now.Mono + 3*second, longestMillis: 9_000, clean: true}, secondBoot(), 9 * second},
		"boot ids unknown": {
			stateRecord{horizon: now.Mono + 3*second, longestMillis: 10_000}, bootID{}, 10 * second},
		"a horizon of another clock": {
			stateRecord{boot: firstBoot(), horizon: now.Mono + 90_000*second, longestMillis: 10_000}, firstBoot(), 10 * second},
	} {
		store := &recordStore{record: test.last}
		r := openRig(t, store, now, test.boot)
		if test.want == 0 {
			if r.gate.pauseEnd != 0 || r.gate.unready(now.Mono) != "" {
				t.Errorf("%s: pause until %d, want none", name, r.gate.pauseEnd)
			}
			r.expect(time.Second, lock.Pending, 0)
			continue
		}
		if got := r.gate.pauseEnd - now.Mono; got != test.want {
			t.Errorf("%s: a pause of %d s, want %d s", name, got/second, test.want/second)
		}
		if store.record.horizon != now.Mono+test.want || store.record.longestMillis != test.last.longestMillis || store.record.boot != test.boot || store.record.clean {
			t.Errorf("%s: the first write says %+v", name, store.record)
		}
		r.pass(test.want - 1)
		r.expect(time.Second, lock.Refused, wire.BusyRecovering)
		if r.gate.unready(r.now.Mono) == "" {
			t.Errorf("%s: ready within the pause", name)
		}
		r.pass(1)
		if why := r.gate.unready(r.now.Mono); why != "" {
			t.Errorf("%s: after the pause: %s", name, why)
		}
		r.expect(time.Second, lock.Pending, 0)
		r.finish()
		r.expect(time.Second, lock.ApplyNow, 0)
		if r.writing {
			t.Errorf("%s: after the pause each grant asks for a write", name)
		}
	}
}

func TestGateFinal(t *testing.T) {
	for name, test := range map[string]struct {
		latestEnd, pauseEnd int64
		want                stateRecord
	}{
		"nothing held":       {0, 0, stateRecord{}},
		"an overdue lease":   {processAge - second, 0, stateRecord{}},
		"a lock held":        {processAge + 7*second, 0, stateRecord{horizon: processAge + 7*second, longestMillis: 7_001}},
		"within the pause":   {0, processAge + 4*second, stateRecord{horizon: processAge + 4*second, longestMillis: 4_001}},
		"the longest of all": {processAge + 249_999_999_999, 0, stateRecord{horizon: processAge + 249_999_999_999, longestMillis: 250_000}},
		"a pause by horizon": {0, processAge + 258*second, stateRecord{horizon: processAge + 258*second, longestMillis: 250_000}},
	} {
		r := newRig(t)
		r.gate.pauseEnd = test.pauseEnd
		w, ok := r.gate.final(r.now, test.latestEnd)
		if !ok || w.run() != nil {
			t.Fatalf("%s: no final write", name)
		}
		test.want.boot, test.want.clean, test.want.reserved = firstBoot(), true, gateBase+tokenBlock
		if r.store.record != test.want {
			t.Errorf("%s: recorded %+v, want %+v", name, r.store.record, test.want)
		}
		r.expect(time.Second, lock.Refused, wire.BusyShuttingDown)
	}
}

// The last write comes while another is under way: what waits is refused, and the last record stays.
func TestGateFinalDuringAWrite(t *testing.T) {
	r := newRig(t)
	r.expect(10*time.Second, lock.Pending, 0)
	final, _ := r.gate.final(r.now, 0)
	r.endBatch()
	if len(r.lost) != 1 || r.lost[0] != wire.BusyShuttingDown {
		t.Errorf("what waited: lost %v", r.lost)
	}
	if err := final.run(); err != nil {
		t.Fatal(err)
	}
	r.finish()
	if !r.store.record.clean || r.writing {
		t.Errorf("recorded %+v, writing %v", r.store.record, r.writing)
	}
	r.gate.written(r.now, nil) // of the final write
	r.endBatch()
	r.expect(time.Second, lock.Refused, wire.BusyShuttingDown)
}

func TestGateDoesNotStartWithoutItsFile(t *testing.T) {
	now := lock.Time{Mono: processAge, Wall: gateEpoch}
	if _, err := openGate(&recordStore{err: errDisk}, now, firstBoot(), 0); !errors.Is(err, errDisk) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if _, err := openGate(&readOnlyStore{}, now, firstBoot(), 0); !errors.Is(err, errDisk) {
		t.Errorf("a file that cannot be written: %v", err)
	}
}

type readOnlyStore struct{ recordStore }

func (s *readOnlyStore) write(stateRecord, uint64) error { return errDisk }
