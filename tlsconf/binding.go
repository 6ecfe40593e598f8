package tlsconf

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// ExporterLabel is the label of the TLS exporter (RFC 5705, RFC 8446 section 7.5) that binds proofs to a session.
const ExporterLabel = "EXPORTER-ticketing-v1"

const bindingSize = 32

// ErrNoBinding says that a TLS session cannot bind a proof. The version 1 protocol is refused on it.
var ErrNoBinding = errors.New("the TLS session has no exporter; use TLS 1.3, or 1.2 with extended master secret")

// Binding returns the 32 bytes that enter the proofs on a TLS connection whose handshake is complete. The error wraps
// ErrNoBinding: TLS 1.2 without extended master secret (RFC 7627) would give a relay the same bytes on both of its sides.
func Binding(state tls.ConnectionState) ([]byte, error) {
	if !state.HandshakeComplete {
		return nil, fmt.Errorf("%w: the handshake is not complete", ErrNoBinding)
	}
	b, err := state.ExportKeyingMaterial(ExporterLabel, nil, bindingSize)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoBinding, err)
	}
	return b, nil
}
