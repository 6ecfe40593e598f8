package tlsconf

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
)

func TestClientChecksTheServer(t *testing.T) {
	dir, ca, stranger := t.TempDir(), newAuthority(t, "ca"), newAuthority(t, "stranger")
	server := newServer(t, serverFiles(t, dir, ca, "server")).Config()
	caFile := write(t, filepath.Join(dir, "ca.pem"), ca.pem)
	strangerFile := write(t, filepath.Join(dir, "stranger.pem"), stranger.pem)
	tests := []struct {
		name       string
		options    ClientOptions
		serverName string
		ok         bool
	}{
		{"the CA that signed", ClientOptions{CA: caFile}, "server", true},
		{"another name", ClientOptions{CA: caFile}, "other", false},
		{"another CA", ClientOptions{CA: strangerFile}, "server", false},
		{"the system's CAs", ClientOptions{}, "server", false},
		{"insecure", ClientOptions{Insecure: true}, "other", true},
		{"insecure wins over another CA", ClientOptions{CA: strangerFile, Insecure: true}, "other", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := NewClient(tt.options)
			if err != nil {
				t.Fatal(err)
			}
			c.ServerName = tt.serverName
			if s := handshake(t, c, server); (s.clientErr == nil) != tt.ok {
				t.Errorf("handshake: %v; want ok = %v", s.clientErr, tt.ok)
			}
		})
	}
	c, err := NewClient(ClientOptions{Insecure: true})
	if err != nil || c.MinVersion != tls.VersionTLS12 {
		t.Errorf("NewClient = %+v, %v; want TLS 1.2 at least", c, err)
	}
}

func TestBadClientFiles(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	good := serverFiles(t, dir, ca, "client")
	_, other := ca.issue(t, "other")
	otherKey := write(t, filepath.Join(dir, "other-key.pem"), other)
	missing := filepath.Join(dir, "missing.pem")
	tests := []struct {
		name    string
		options ClientOptions
		want    []string
	}{
		{"CA missing", ClientOptions{CA: missing}, []string{"TLS CA", missing}},
		{"CA is a key", ClientOptions{CA: good.Key}, []string{"TLS CA", good.Key, "no usable CERTIFICATE"}},
		{"certificate alone", ClientOptions{Cert: good.Cert}, []string{"together"}},
		{"key alone", ClientOptions{Key: good.Key}, []string{"together"}},
		{"certificate missing", ClientOptions{Cert: missing, Key: good.Key}, []string{"TLS certificate", missing}},
		{"key missing", ClientOptions{Cert: good.Cert, Key: missing}, []string{"TLS key", missing}},
		{"key of another", ClientOptions{Cert: good.Cert, Key: otherKey}, []string{good.Cert, otherKey, "belong together"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewClient(tt.options)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}
