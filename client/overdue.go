package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// overdue is a context.DeadlineExceeded that says how long there was.
type overdue time.Duration

// Error says how long.
func (o overdue) Error() string {
	return fmt.Sprintf("gave up after %v", time.Duration(o).Round(10*time.Millisecond))
}

func (o overdue) Unwrap() error { return context.DeadlineExceeded }

// inWords returns the error of a context that is over, which had so long.
func inWords(err error, had time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return overdue(had)
	}
	return err
}
