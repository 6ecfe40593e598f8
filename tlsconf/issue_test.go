package tlsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var notBefore, notAfter = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: notBefore, NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key, a.pem = a.sign(t, template)
	return a
}

// issue returns a certificate for name and its key, in PEM.
func (a *authority) issue(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	_, private, cert := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: notBefore, NotAfter: notAfter,
		DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// sign signs template with a, or with the new key itself where a has none yet.
func (a *authority) sign(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serverFiles writes a certificate of a for name, and its key, into dir.
func serverFiles(t *testing.T, dir string, a *authority, name string) ServerFiles {
	t.Helper()
	cert, key := a.issue(t, name)
	return ServerFiles{Cert: write(t, filepath.Join(dir, "cert.pem"), cert), Key: write(t, filepath.Join(dir, "key.pem"), key)}
}

// session is what both ends make of one handshake.
type session struct {
	client, server       tls.ConnectionState
	clientErr, serverErr error
}

// handshake connects both configurations over loopback. A byte goes from the server to the client behind the
// handshake, for in TLS 1.3 the client learns only by reading that its certificate was refused.
func handshake(t *testing.T, client, server *tls.Config) (s session) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	left, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	right, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, srv := tls.Client(left, client), tls.Server(right, server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer right.Close()
		if s.serverErr = srv.Handshake(); s.serverErr == nil {
			s.server = srv.ConnectionState()
			srv.Write([]byte("x"))
		}
	}()
	_, s.clientErr = io.ReadFull(c, make([]byte, 1))
	s.client = c.ConnectionState()
	left.Close()
	<-done
	return s
}

func (s session) err() error { return errors.Join(s.clientErr, s.serverErr) }

// servedName returns the name in the certificate that a server with this configuration shows.
func servedName(t *testing.T, server *tls.Config) string {
	t.Helper()
	s := handshake(t, &tls.Config{InsecureSkipVerify: true}, server)
	if s.err() != nil {
		t.Fatal(s.err())
	}
	return s.client.PeerCertificates[0].Subject.CommonName
}
