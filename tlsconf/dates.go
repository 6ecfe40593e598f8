package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"
)

// expiryNotice is how long before its end a certificate is worth a warning, if that is in the last quarter of its life: one that
// is made for a day is renewed within the day.
const expiryNotice = 14 * 24 * time.Hour

// Dates says what is wrong at now with the dates of the certificates in use, naming files and dates: one that has expired,
// is about to, or is not valid yet. It returns "" if nothing is. Of client CAs the one that lasts longest counts.
func (r *Reloader) Dates(now time.Time) string {
	c := r.current.Load()
	var said []string
	for _, part := range []struct {
		what, path string
		valid      validity
	}{{"TLS certificate", r.files.Cert, c.chainValid}, {"TLS client CA", r.files.ClientCA, c.clientCAValid}} {
		if part.path == "" {
			continue
		}
		if text := part.valid.trouble(now); text != "" {
			said = append(said, part.what+" "+part.path+" "+text)
		}
	}
	return strings.Join(said, ", and ")
}

// TellDates tells OnDates what Dates says now, if it says anything.
func (r *Reloader) TellDates() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = ""
	r.tellDates()
}

// tellDates tells OnDates what it has not been told last. Called with mu held.
func (r *Reloader) tellDates() {
	if r.Now == nil || r.OnDates == nil {
		return
	}
	text := r.Dates(r.Now())
	if text != "" && text != r.told {
		r.OnDates(text)
	}
	r.told = text
}

// validity is the time in which something is valid.
type validity struct{ notBefore, notAfter time.Time }

// trouble says what is wrong with v at now, as the end of a sentence; "" if nothing is.
func (v validity) trouble(now time.Time) string {
	date := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case now.After(v.notAfter):
		return "expired at " + date(v.notAfter)
	case now.Before(v.notBefore):
		return "is not valid before " + date(v.notBefore)
	case v.notAfter.Sub(now) < min(expiryNotice, v.notAfter.Sub(v.notBefore)/4):
		return "expires at " + date(v.notAfter)
	}
	return ""
}

// chainValidity is when a certificate and the intermediates behind it are all valid.
func chainValidity(pair *tls.Certificate) validity {
	v := validity{pair.Leaf.NotBefore, pair.Leaf.NotAfter}
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			continue // it serves nobody, but the others do
		}
		if c.NotBefore.After(v.notBefore) {
			v.notBefore = c.NotBefore
		}
		if c.NotAfter.Before(v.notAfter) {
			v.notAfter = c.NotAfter
		}
	}
	return v
}

// lastingValidity is when that one of cas is valid that lasts longest: while CAs change, the old one is in the file with the new.
func lastingValidity(cas []*x509.Certificate) (v validity) {
	for _, c := range cas {
		if c.NotAfter.After(v.notAfter) {
			v = validity{c.NotBefore, c.NotAfter}
		}
	}
	return v
}
