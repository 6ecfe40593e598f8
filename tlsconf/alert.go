package tlsconf

import (
	"errors"
	"net"
)

// IsAlert reports whether err says that the other side ended the TLS session with an alert: it refused our certificate, or the lack of
// one. In TLS 1.3 that comes with the first read. crypto/tls marks such an error by its operation alone.
func IsAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
