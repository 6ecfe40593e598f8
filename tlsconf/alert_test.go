package tlsconf

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"testing"
)

func TestIsAlert(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	go tls.Server(there, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("none")
	}}).Handshake()
	err := tls.Client(here, &tls.Config{InsecureSkipVerify: true}).Handshake()
	if err == nil || !IsAlert(fmt.Errorf("connect: %w", err)) {
		t.Errorf("%v is no alert", err)
	}
	for _, err := range []error{nil, net.ErrClosed, &net.OpError{Op: "read", Err: net.ErrClosed}} {
		if IsAlert(err) {
			t.Errorf("%v is an alert", err)
		}
	}
}
