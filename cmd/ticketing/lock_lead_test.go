package main

import (
	"testing"
	"time"
)

func TestTermLead(t *testing.T) {
	tests := []struct{ lease, left, want time.Duration }{
		{200 * time.Second, 197 * time.Second, 20 * time.Second},
		{5 * time.Second, 4900 * time.Millisecond, time.Second},
		{time.Second, 940 * time.Millisecond, 440 * time.Millisecond}, // half of the lease is over then
		{time.Second, 300 * time.Millisecond, 0},                      // the grant came late
	}
	for _, tt := range tests {
		if got := termLead(tt.lease, tt.left); got != tt.want {
			t.Errorf("with %v of %v left SIGTERM comes %v before the deadline, not %v", tt.left, tt.lease, got, tt.want)
		}
	}
}
