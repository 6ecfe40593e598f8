package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned writes a certificate for 127.0.0.1 and more, which is its own CA, and returns its files.
func selfSigned(t *testing.T, more ...net.IP) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: append(more, net.IPv4(127, 0, 0, 1)),
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER)
}

func TestCommandsOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	stranger, _ := selfSigned(t)
	s := startTestServer(t, "TICKETING_TLS_CERT="+cert, "TICKETING_TLS_KEY="+key)
	url := strings.Replace(admin(s), "http://", "https://", 1)
	s.run("acquire", "--wait", "100ms", "k").said(t, "plaintext to a TLS port", exitUnreachable, "is it the client port? if the server speaks TLS, set TLS")
	for _, c := range []struct {
		name    string
		environ string
		args    []string
		code    int
	}{
		{"CA by flag", "", []string{"acquire", "--tls-ca", cert, "flag"}, exitOK},
		{"CA by variable", "TICKETING_TLS_CA=" + cert, []string{"acquire", "variable"}, exitOK},
		{"flag over variable", "TICKETING_TLS_CA=" + stranger, []string{"acquire", "--tls-ca", cert, "over"}, exitOK},
		{"unchecked", "", []string{"acquire", "--tls-insecure", "unchecked"}, exitOK},
		{"another CA", "", []string{"acquire", "--tls-ca", stranger, "--wait", "1s", "k"}, exitAuth},
		{"lock", "TICKETING_TLS_CA=" + cert, []string{"lock", "lock", "--", "true"}, exitOK},
		{"status", "", []string{"status", "--tls-ca", cert, "--admin", url}, exitOK},
		{"status, another CA", "", []string{"status", "--tls-ca", stranger, "--admin", url}, exitAuth},
		{"status, plaintext", "", []string{"status"}, exitUnreachable},
		{"bench", "TICKETING_TLS_CA=" + cert, []string{"bench"}, exitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, append(append([]string(nil), s.environ...), c.environ), c.args...).expect(t, c.code)
		})
	}
}
