package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"

	"ticketing.internal/client"
	"ticketing.internal/wire"
)

func TestExitCode(t *testing.T) {
	busy := func(code wire.Busy) error { return &client.BusyError{Key: "k", Code: code} }
	cases := []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, exitOK},
		{"usage", usageError("no"), exitUsage},
		{"given, wrapped", fmt.Errorf("x: %w", withExit(exitLeaseOver, errors.New("y"))), exitLeaseOver},
		{"a plain code", exitWith(143), 143},
		{"timed out", client.ErrTimeout, exitNotGranted},
		{"no leader", busy(wire.BusyNoLeader), exitUnreachable},
		{"not the leader", busy(wire.BusyNotLeader), exitUnreachable},
		{"shutting down", busy(wire.BusyShuttingDown), exitNotGranted},
		{"recovering", busy(wire.BusyRecovering), exitNotGranted},
		{"no leader, for the token is wrong", &client.BusyError{Code: wire.BusyNoLeader, Cause: client.ErrAuth}, exitAuth},
		{"unknown outcome", &client.IndeterminateError{Key: "k", Cause: context.Canceled}, exitIndeterminate},
		{"release unconfirmed", client.ErrUnconfirmed, exitIndeterminate},
		{"authentication", fmt.Errorf("x: %w", client.ErrAuth), exitAuth},
		{"certificate", fmt.Errorf("x: %w", x509.UnknownAuthorityError{}), exitAuth},
		{"argument", fmt.Errorf("x: %w", client.ErrInvalid), exitUsage},
		{"anything else", errors.New("x"), exitNegative},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := exitCode(c.err); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
		})
	}
	if got := exitWith(exitOK); got != nil {
		t.Errorf("exit code 0 is the error %v", got)
	}
}
