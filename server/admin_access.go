package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
)

// adminAccess says which requests the admin endpoint answers.
type adminAccess struct {
	name  string                            // the host that is listened on
	token atomic.Pointer[[sha256.Size]byte] // digest of the admin token; nil: none is asked for
}

func (a *adminAccess) setToken(token Secret) {
	if token == "" {
		a.token.Store(nil)
		return
	}
	digest := sha256.Sum256([]byte(token))
	a.token.Store(&digest)
}

// required reports whether there is an admin token, which every request that passed has shown.
func (a *adminAccess) required() bool { return a.token.Load() != nil }

// granted reports whether r shows the admin token, if one is asked for. Digests are compared, so that neither the content nor the
// length of the token shows in the time it takes.
func (a *adminAccess) granted(r *http.Request) bool {
	want := a.token.Load()
	if want == nil {
		return true
	}
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		var ok bool
		if _, shown, ok = r.BasicAuth(); !ok {
			return false
		}
	}
	got := sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// hostAllowed reports whether a request for host is meant for this endpoint. Another site whose owner points its name here (DNS
// rebinding) can make a browser send requests, but only under that name. A request without a host is HTTP/1.0, which no browser speaks.
func (a *adminAccess) hostAllowed(host string) bool {
	if host == "" {
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	host = strings.TrimSuffix(host, ".")
	return strings.EqualFold(host, "localhost") || a.name != "" && strings.EqualFold(host, a.name)
}
