package server

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// Dates of certificates that are wrong are told where an operator looks: at the start, at a reload, and by --check.
func TestCertificateDatesAreTold(t *testing.T) {
	ended := time.Now().Add(-time.Minute).Truncate(time.Second)
	cert, key, _ := writeCertificateUntil(t, ended)
	want := "TICKETING_TLS_CERT: TLS certificate " + cert + " expired at " + ended.UTC().Format(time.RFC3339)
	ts := startServer(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	said := func(n int) {
		t.Helper()
		if got := strings.Count(ts.log.String(), want); got != n {
			t.Errorf("%q is logged %d times, want %d", want, got, n)
		}
	}
	said(1)
	if err := ts.Reload(); err != nil {
		t.Fatal(err)
	}
	said(2)

	var out bytes.Buffer
	ts.cfg.Describe(&out, time.Now())
	if !strings.Contains(out.String(), "warning: "+want) {
		t.Errorf("--check does not say %q:\n%s", want, out.String())
	}

	freshCert, freshKey, _ := writeCertificate(t)
	for from, to := range map[string]string{freshCert: cert, freshKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := ts.Reload(); err != nil {
		t.Fatal(err)
	}
	said(2)
}

func TestCertificateWarningsOfThePeerPort(t *testing.T) {
	now := time.Now()
	cert, key, _ := writeCertificateUntil(t, now.Add(time.Hour))
	c := DefaultConfig()
	c.Cluster.TLSCert, c.Cluster.TLSKey, c.Cluster.TLSCA = cert, key, cert
	for at, want := range map[time.Time]string{
		now:                       "",
		now.Add(50 * time.Minute): "expires at",
		now.Add(2 * time.Hour):    "expired at",
		now.Add(-2 * time.Hour):   "is not valid before",
	} {
		got := strings.Join(c.CertificateWarnings(at), "\n")
		if want == "" && got != "" || want != "" && (!strings.HasPrefix(got, "TICKETING_PEER_TLS_CERT: TLS certificate "+cert+" "+want) || !strings.Contains(got, "TLS client CA "+cert+" "+want)) {
			t.Errorf("%v from now: %q, want %q", at.Sub(now), got, want)
		}
	}
}
