package tlsconf

import (
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

// lasting writes a certificate that a has issued, valid from and to so long after the beginning of 2030, and its key.
func lasting(t *testing.T, dir string, a *authority, from, to time.Duration) ServerFiles {
	t.Helper()
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	_, private, cert := a.sign(t, &x509.Certificate{SerialNumber: big.NewInt(3), NotBefore: begin.Add(from), NotAfter: begin.Add(to), IsCA: true, BasicConstraintsValid: true})
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return ServerFiles{Cert: write(t, filepath.Join(dir, "cert.pem"), cert), Key: write(t, filepath.Join(dir, "key.pem"), key)}
}

func TestDates(t *testing.T) {
	ca := newAuthority(t, "ca")
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		from, to time.Duration
		want     string
	}{
		"valid for long":             {-100 * day, 15 * day, ""},
		"the last days":              {-100 * day, 13 * day, "expires at 2030-01-14T00:00:00Z"},
		"expired":                    {-100 * day, -time.Second, "expired at 2029-12-31T23:59:59Z"},
		"not valid yet":              {time.Hour, 100 * day, "is not valid before 2030-01-01T01:00:00Z"},
		"made for a day, just begun": {-time.Hour, 23 * time.Hour, ""},
		"made for a day, its end":    {-20 * time.Hour, 4 * time.Hour, "expires at 2030-01-01T04:00:00Z"},
	} {
		files := lasting(t, t.TempDir(), ca, test.from, test.to)
		want := ""
		if test.want != "" {
			want = "TLS certificate " + files.Cert + " " + test.want
		}
		if got := newServer(t, files).Dates(now); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// An intermediate that has expired ends the chain, and of CAs the one that lasts longest counts.
func TestDatesOfChainsAndCAs(t *testing.T) {
	ca, now := newAuthority(t, "ca"), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	old, young := lasting(t, t.TempDir(), ca, -100*day, -day), lasting(t, t.TempDir(), ca, -100*day, 100*day)
	join := func(files ...string) string {
		var all []byte
		for _, f := range files {
			text, err := readFile("a certificate", f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		return write(t, filepath.Join(t.TempDir(), "joined.pem"), all)
	}
	for _, test := range []struct {
		name     string
		cert, ca []string
		want     []string
	}{
		{"an old intermediate", []string{young.Cert, old.Cert}, nil, []string{"TLS certificate", "expired at 2029-12-31T00:00:00Z"}},
		{"an old CA", []string{young.Cert}, []string{old.Cert}, []string{"TLS client CA", "expired at 2029-12-31T00:00:00Z"}},
		{"an old CA and a new one", []string{young.Cert}, []string{old.Cert, young.Cert}, nil},
	} {
		files := ServerFiles{Cert: join(test.cert...), Key: young.Key}
		if test.ca != nil {
			files.ClientCA = join(test.ca...)
		}
		got := newServer(t, files).Dates(now)
		if (got == "") != (test.want == nil) || slices.ContainsFunc(test.want, func(part string) bool { return !strings.Contains(got, part) }) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// Who runs the server is told at each reload, and of handshakes by the first that finds something else to say.
func TestTellDates(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	r := newServer(t, lasting(t, dir, ca, -100*day, 20*day))
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var told []string
	r.Now = func() time.Time { return now }
	r.OnDates = func(text string) { told = append(told, text[strings.LastIndex(text, " e")+1:]) }
	later := func(d time.Duration) { now = now.Add(d) }
	reload := func() {
		if err := r.Reload(); err != nil {
			t.Error(err)
		}
	}
	r.TellDates()
	later(10 * day)
	r.look()
	later(time.Minute)
	r.look()
	reload()
	later(20 * day)
	r.look()
	lasting(t, dir, ca, -100*day, 1000*day)
	reload()
	r.look()
	if want := []string{"expires at 2030-01-21T00:00:00Z", "expires at 2030-01-21T00:00:00Z", "expired at 2030-01-21T00:00:00Z"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
