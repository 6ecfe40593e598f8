package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ticketing.internal/wire"
)

// writeCertificate makes a self-signed certificate for 127.0.0.1 and returns its files and a pool that trusts it.
func writeCertificate(t *testing.T) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	return writeCertificateUntil(t, time.Now().Add(time.Hour))
}

// writeCertificateUntil does the same with one that ends at notAfter.
func writeCertificateUntil(t *testing.T, notAfter time.Time) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", raw), trust
}

// startTLS runs a server with a certificate, and returns what a client needs to trust it.
func startTLS(t *testing.T, adjust func(*Config)) (*testServer, *tls.Config) {
	t.Helper()
	cert, key, trust := writeCertificate(t)
	ts := startServer(t, func(c *Config) {
		c.TLSCert, c.TLSKey = cert, key
		if adjust != nil {
			adjust(c)
		}
	})
	return ts, &tls.Config{RootCAs: trust, ServerName: "127.0.0.1"}
}

func TestTLSSessionsQueueLikeOthers(t *testing.T) {
	ts, trust := startTLS(t, nil)
	a, b := ts.dialTLS(t, trust).login("", "a"), ts.dialTLS(t, trust).login("", "b")
	a.send(acquire(1, "k", 0, 30_000))
	held := a.expect(wire.OpGranted, 0, 1)
	b.send(join(acquire(2, "k", 60_000, 30_000), ping(3)))
	b.expect(wire.OpPong, 0, 3)
	a.send(release(1, held.Token, "k"))
	a.expect(wire.OpReleased, 0, 1)
	b.expect(wire.OpGranted, 0, 2)
}

// A timer that only a stream has set must wake the keeper of time.
func TestTLSWaitEnds(t *testing.T) {
	ts, trust := startTLS(t, nil)
	a, b := ts.dialTLS(t, trust).login("", "a"), ts.dialTLS(t, trust).login("", "b")
	a.send(acquire(1, "k", 0, 30_000))
	a.expect(wire.OpGranted, 0, 1)
	b.send(acquire(2, "k", 30, 30_000))
	b.expect(wire.OpTimeout, 0, 2)
}

// A relay that ends TLS on both sides has another exporter on each: the proof does not hold.
func TestTLSProofIsBoundToTheSession(t *testing.T) {
	ts, trust := startTLS(t, nil)
	c := ts.dialTLS(t, trust)
	c.binding = make([]byte, 32)
	c.send(c.hello("", "relay"))
	c.expect(wire.OpError, uint16(wire.AuthFailed), 0)
	c.expectEnd()
}

func TestTLSWithoutExporterServesV0Only(t *testing.T) {
	ts, trust := startTLS(t, nil)
	trust.MaxVersion = tls.VersionTLS12
	nc, err := tls.Dial("tcp", ts.Addr().String(), trust)
	if err != nil {
		t.Fatal(err)
	}
	state := nc.ConnectionState()
	if _, err := state.ExportKeyingMaterial("EXPORTER-ticketing-v1", nil, 32); err != nil {
		c := newTestClient(t, nc)
		c.send(c.hello("", "x"))
		c.expect(wire.OpError, uint16(wire.UnsupportedVersion), 0)
		return
	}
	// This TLS 1.2 has extended master secret, hence an exporter: v1 is served.
	nc.Close()
	ts.dialTLS(t, trust).login("", "x")
}

func TestPlaintextToTLSGetsALogLine(t *testing.T) {
	ts, _ := startTLS(t, nil)
	nc, err := net.Dial("tcp", ts.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	fmt.Fprintf(nc, "hello, is there a lock server?\n")
	ts.waitLog(t, "speaks plaintext to this port, which is TLS")
	await(t, "the end of the connection", func() bool { n, _, _ := ts.admission.load(); return n == 0 })
}

func TestTLSLegacyKeepAliveAndMalformed(t *testing.T) {
	ts, trust := startTLS(t, func(c *Config) { c.IdleTimeout = 200 * time.Millisecond })
	c := ts.dialTLS(t, trust).login("", "x")
	c.expectEnd() // silent for too long
	c = ts.dialTLS(t, trust).login("", "x")
	c.send(join(ping(1), []byte{0xff}, make([]byte, 23)))
	c.expect(wire.OpPong, 0, 1)
	c.expect(wire.OpError, uint16(wire.Malformed), 0)
	c.expectEnd()
}

func TestTLSConnectionsLeaveNothing(t *testing.T) {
	ts, trust := startTLS(t, nil)
	for range 20 {
		c := ts.dialTLS(t, trust).login("", "x")
		c.send(acquire(1, "k", 60_000, 30_000))
		c.Close()
	}
	await(t, "the end of all connections", func() bool { n, _, _ := ts.admission.load(); return n == 0 && ts.stats().Waiters == 0 })
}
