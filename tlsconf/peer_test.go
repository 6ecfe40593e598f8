package tlsconf

import (
	"path/filepath"
	"testing"
)

func TestPeersCheckEachOther(t *testing.T) {
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	peer := func(signer, trusted *authority) *Reloader {
		dir := t.TempDir()
		files := serverFiles(t, dir, signer, "node")
		files.ClientCA = write(t, filepath.Join(dir, "ca.pem"), trusted.pem)
		return newServer(t, files)
	}
	tests := []struct {
		name             string
		dialer, acceptor *Reloader
		host             string
		ok               bool
	}{
		{"one CA", peer(ca, ca), peer(ca, ca), "node", true},
		{"another host", peer(ca, ca), peer(ca, ca), "other", false},
		{"the dialing side is of another CA", peer(stranger, ca), peer(ca, ca), "node", false},
		{"the accepting side is of another CA", peer(ca, ca), peer(stranger, ca), "node", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := handshake(t, tt.dialer.PeerClient(tt.host), tt.acceptor.Config()).err(); (err == nil) != tt.ok {
				t.Errorf("%v; want ok = %v", err, tt.ok)
			}
		})
	}
}

func TestPeerFollowsItsFiles(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	files := serverFiles(t, dir, ca, "old")
	files.ClientCA = write(t, filepath.Join(dir, "ca.pem"), ca.pem)
	r := newServer(t, files)
	serverFiles(t, dir, ca, "new")
	if name := r.PeerClient("x").Certificates[0].Leaf.Subject.CommonName; name != "new" {
		t.Errorf("shows the certificate of %q", name)
	}
}
