package server

import (
	"context"
	"fmt"

	"ticketing.internal/lock"
)

// alone is the authority of a standalone server. Its gate lets a command pass at once, unless the state file must be written first.
type alone struct {
	*gate
	engine *engine
	file   *stateFile   // nil without a state directory
	writer *stateWriter // from begin on
	self   shard        // for batches of its own
}

// openAlone reads what the previous process left in file, which is nil without a state directory.
func openAlone(cfg *Config, c *clock, file *stateFile) (*alone, error) {
	a := &alone{file: file, self: shard{wake: func() {}}}
	var store stateStore
	if file != nil {
		store = file
	}
	boot, err := readBootID()
	if err == nil {
		a.gate, err = openGate(store, c.now(), boot, cfg.TokenFloor)
	}
	return a, err
}

// decide implements authority.
func (a *alone) decide(now lock.Time) {
	if write, ok := a.advance(now, a.engine.manager); ok {
		a.writer.start(write)
	}
}

// vouch implements authority.
func (a *alone) vouch(first, now int64) error { return a.settle(first, now) }

// deadline implements authority. None is needed: even an idle loop comes round often enough to retry a failed write.
func (a *alone) deadline() int64 { return never }

// describe implements authority.
func (a *alone) describe(s *Status) { s.Mode, s.Role = "standalone", "standalone" }

// afterBatch implements authority.
func (a *alone) afterBatch() {}

// begin implements authority.
func (a *alone) begin(func(error)) {
	a.writer = startStateWriter(func(err error) {
		a.engine.batch(&a.self, func(now lock.Time) {
			a.written(now, err)
			a.engine.noteReadiness(now.Mono)
		})
	})
}

// handOver implements authority. There is nobody to hand over to.
func (a *alone) handOver(context.Context) {}

// end implements authority. It writes the state file's last record, which covers every grant.
func (a *alone) end(ctx context.Context) error {
	var last stateWrite
	var keep bool
	a.engine.batch(&a.self, func(now lock.Time) {
		end, _ := a.engine.manager.LatestLeaseEnd()
		last, keep = a.final(now, end)
	})
	if keep {
		a.writer.start(last)
	}
	if err := a.writer.stop(ctx); err != nil {
		return fmt.Errorf("writing the state file at the end: %w; the next start will wait for leases to end", err)
	}
	return nil
}

// reload implements authority.
func (a *alone) reload(*Config) error { return nil }

// release implements authority.
func (a *alone) release() {
	if a.file != nil {
		a.file.close()
	}
}
