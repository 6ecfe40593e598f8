package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestStateWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordStore{}
		var outcomes []error
		w := startStateWriter(func(err error) { outcomes = append(outcomes, err) })
		w.start(stateWrite{record: exampleState(), order: 1, store: store})
		synctest.Wait()
		store.err = errDisk
		w.start(stateWrite{order: 2, store: store})
		if err := w.stop(t.Context()); err != nil {
			t.Error(err)
		}
		if len(outcomes) != 2 || outcomes[0] != nil || !errors.Is(outcomes[1], errDisk) || store.record != exampleState() {
			t.Errorf("outcomes %v, recorded %+v", outcomes, store.record)
		}
	})
}

// hangingStore is a disk that does not come back until it is told to.
type hangingStore struct {
	recordStore
	back chan struct{}
}

func (s *hangingStore) write(r stateRecord, order uint64) error {
	<-s.back
	return s.recordStore.write(r, order)
}

// With one write hanging, the final one can still be handed over, and stop gives up in time.
func TestStateWriterLeavesAHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hangingStore{back: make(chan struct{})}
		w := startStateWriter(func(error) {})
		for order := range uint64(2) {
			w.start(stateWrite{order: order + 1, store: store})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		started := time.Now()
		if err := w.stop(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(started) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(started))
		}
		close(store.back)
	})
}
