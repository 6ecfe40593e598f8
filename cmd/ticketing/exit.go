package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"ticketing.internal/client"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// Exit codes, after sysexits.h where it has one. docs/operations.md lists them.
const (
	exitOK            = 0
	exitNegative      = 1  // a negative answer, or a start that failed
	exitUsage         = 64 // the command line is wrong
	exitUnreachable   = 69 // no server reachable, or none that leads
	exitLeaseOver     = 70 // lock: the lease ran out and the command was ended
	exitNotGranted    = 75 // timed out, or refused by a server that is busy
	exitIndeterminate = 76 // the outcome is unknown, or a release unconfirmed
	exitAuth          = 77 // authentication or certificate
	exitConfig        = 78 // environment or files
	exitNotExecutable = 126
	exitNotFound      = 127
)

// exitError is an error with its exit code. Without an err nothing is printed: the code is the answer.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// withExit gives an error its exit code.
func withExit(code int, err error) error { return &exitError{code, err} }

// exitWith is a plain exit code as an error.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code, nil}
}

func usageError(format string, args ...any) error {
	return withExit(exitUsage, fmt.Errorf(format, args...))
}

// exitCode returns the code that tells a script what err is.
func exitCode(err error) int {
	var known *exitError
	var busy *client.BusyError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &known):
		return known.code
	case errors.Is(err, client.ErrAuth), isCertificate(err):
		return exitAuth
	case errors.Is(err, client.ErrIndeterminate), errors.Is(err, client.ErrUnconfirmed):
		return exitIndeterminate
	case errors.Is(err, client.ErrTimeout):
		return exitNotGranted
	case errors.As(err, &busy):
		if busy.Code == wire.BusyNoLeader || busy.Code == wire.BusyNotLeader {
			return exitUnreachable
		}
		return exitNotGranted
	case errors.Is(err, client.ErrInvalid):
		return exitUsage
	}
	return exitNegative
}

// joinUnreachable makes one error of those of all addresses. If all were out of reach it adds what to check; otherwise the first
// other error gives the exit code.
func joinUnreachable(problems []error, look string) error {
	for _, err := range problems {
		if c := exitCode(err); c != exitUnreachable {
			return withExit(c, errors.Join(problems...))
		}
	}
	return withExit(exitUnreachable, fmt.Errorf("%w\n%s", errors.Join(problems...), look))
}

// isCertificate reports whether a TLS handshake failed because of a certificate, of either side.
func isCertificate(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &certificate) || errors.As(err, &authority) || tlsconf.IsAlert(err)
}
