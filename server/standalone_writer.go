package server

import "context"

// stateWriter runs the gate's writes in a goroutine of its own: a disk can take any time, and the engine takes none.
type stateWriter struct {
	writes chan stateWrite
	done   chan struct{}
}

// startStateWriter starts the goroutine, which ends with stop. It calls written, without the engine's lock, after each write.
func startStateWriter(written func(error)) *stateWriter {
	w := &stateWriter{
		writes: make(chan stateWrite, 2), // the gate has one under way, and the final one
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

// start begins a write that the gate asked for. It does not block, since the gate asks for one at a time.
func (w *stateWriter) start(write stateWrite) { w.writes <- write }

// stop returns when what was started is done, or with ctx's error before that, leaving a hanging disk behind.
// Nothing may be started any more.
func (w *stateWriter) stop(ctx context.Context) error {
	close(w.writes)
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
