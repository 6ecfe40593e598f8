package client

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestADeadlineIsToldInWords(t *testing.T) {
	if err := inWords(context.DeadlineExceeded, 1001*time.Millisecond); err.Error() != "gave up after 1s" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline: %v", err)
	}
	if err := inWords(context.Canceled, time.Second); err != context.Canceled {
		t.Errorf("a cancelled context: %v", err)
	}
}
