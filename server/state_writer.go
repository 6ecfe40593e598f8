package server

import "context"

// diskWrite is a write that takes as long as the disk takes: a stateWrite or a markerWrite.
type diskWrite interface{ run() error }

// stateWriter runs writes of the state file in a goroutine of its own: a disk can take any time, and the engine must not wait for it.
type stateWriter struct {
	writes chan diskWrite
	done   chan struct{}
}

// startStateWriter starts the goroutine, which ends with stop. It calls written, without the engine's lock, after each write.
func startStateWriter(written func(error)) *stateWriter {
	w := &stateWriter{
		writes: make(chan diskWrite, 2), // a gate has at most one under way and the final one, a node one
		done:   make(chan struct{}),
	}
	go func() {
		defer close(w.done)
		for write := range w.writes {
			written(write.run())
		}
	}()
	return w
}

// start begins a write. It does not block, because callers have at most one write under way.
func (w *stateWriter) start(write diskWrite) { w.writes <- write }

// stop returns when every write that was started is done. If ctx ends first it returns ctx's error and leaves a write that hangs
// behind. Nothing may be started after it.
func (w *stateWriter) stop(ctx context.Context) error {
	close(w.writes)
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
