package tlsconf

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func newServer(t *testing.T, files ServerFiles) *Reloader {
	t.Helper()
	r, err := NewServer(files)
	if err != nil {
		t.Fatal(err)
	}
	r.OnError = func(err error) { t.Errorf("unexpected trouble: %v", err) }
	return r
}

func TestVersions(t *testing.T) {
	server := newServer(t, serverFiles(t, t.TempDir(), newAuthority(t, "ca"), "server")).Config()
	tests := []struct {
		name     string
		min, max uint16
		want     uint16 // 0: refused
	}{
		{"1.3 where both have it", tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS13},
		{"1.2 for a client that has no more", tls.VersionTLS12, tls.VersionTLS12, tls.VersionTLS12},
		{"1.1 is refused", tls.VersionTLS10, tls.VersionTLS11, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := handshake(t, &tls.Config{InsecureSkipVerify: true, MinVersion: tt.min, MaxVersion: tt.max}, server)
			if (s.err() == nil) != (tt.want != 0) || s.client.Version != tt.want && tt.want != 0 {
				t.Errorf("version %#x, %v; want %#x", s.client.Version, s.err(), tt.want)
			}
		})
	}
}

func TestBadServerFiles(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	good := serverFiles(t, dir, ca, "server")
	_, otherKey := ca.issue(t, "other")
	file := func(name, text string) string { return write(t, filepath.Join(dir, name), []byte(text)) }
	cert, _ := os.ReadFile(good.Cert)
	missing := filepath.Join(dir, "missing.pem")
	otherKeyFile := file("other-key.pem", string(otherKey))
	half := file("half.pem", string(cert[:len(cert)/2]))
	encrypted := file("encrypted.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	tests := []struct {
		name  string
		files ServerFiles
		want  []string // parts of the error
	}{
		{"no key", ServerFiles{Cert: good.Cert}, []string{"a certificate and a key"}},
		{"no certificate", ServerFiles{Key: good.Key}, []string{"a certificate and a key"}},
		{"certificate missing", ServerFiles{Cert: missing, Key: good.Key}, []string{"TLS certificate", missing, "no such file"}},
		{"key missing", ServerFiles{Cert: good.Cert, Key: missing}, []string{"TLS key", missing, "no such file"}},
		{"key of another certificate", ServerFiles{Cert: good.Cert, Key: otherKeyFile}, []string{good.Cert, otherKeyFile, "belong together"}},
		{"certificate half written", ServerFiles{Cert: half, Key: good.Key}, []string{half, "no CERTIFICATE"}},
		{"certificate and key exchanged", ServerFiles{Cert: good.Key, Key: good.Cert}, []string{good.Key, "no CERTIFICATE"}},
		{"certificate given as key", ServerFiles{Cert: good.Cert, Key: good.Cert}, []string{"TLS key " + good.Cert, "no PRIVATE KEY"}},
		{"key encrypted", ServerFiles{Cert: good.Cert, Key: encrypted}, []string{encrypted, "decrypt it"}},
		{"client CA missing", ServerFiles{Cert: good.Cert, Key: good.Key, ClientCA: missing}, []string{"TLS client CA", missing}},
		{"client CA empty", ServerFiles{Cert: good.Cert, Key: good.Key, ClientCA: file("empty.pem", "")}, []string{"TLS client CA", "empty.pem", "no usable CERTIFICATE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewServer(tt.files)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "BEGIN") {
				t.Errorf("%q shows what is in a file", err)
			}
		})
	}
}

func TestClientCA(t *testing.T) {
	dir, ca, stranger := t.TempDir(), newAuthority(t, "ca"), newAuthority(t, "stranger")
	files := serverFiles(t, dir, ca, "server")
	files.ClientCA = write(t, filepath.Join(dir, "ca.pem"), ca.pem)
	server := newServer(t, files).Config()
	client := func(issuer *authority) *tls.Config {
		o := ClientOptions{CA: files.ClientCA}
		if issuer != nil {
			cert, key := issuer.issue(t, "client")
			o.Cert, o.Key = write(t, filepath.Join(dir, "client.pem"), cert), write(t, filepath.Join(dir, "client-key.pem"), key)
		}
		c, err := NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		c.ServerName = "server"
		return c
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			for _, tt := range []struct {
				name   string
				client *tls.Config
				ok     bool
			}{{"its own", client(ca), true}, {"a stranger's", client(stranger), false}, {"none", client(nil), false}} {
				tt.client.MaxVersion = version
				s := handshake(t, tt.client, server)
				if ok := s.clientErr == nil && s.serverErr == nil; ok != tt.ok {
					t.Errorf("certificate %s: client %v, server %v; want ok = %v", tt.name, s.clientErr, s.serverErr, tt.ok)
				}
			}
		})
	}
}

func TestFilesAreFollowedAtMostOnceASecond(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	r := newServer(t, serverFiles(t, dir, ca, "first"))
	now := notBefore
	r.Now = func() time.Time { return now }
	config := r.Config()
	if got := servedName(t, config); got != "first" {
		t.Fatalf("serves %q", got)
	}
	serverFiles(t, dir, ca, "second")
	now = now.Add(reloadInterval - 1)
	if got := servedName(t, config); got != "first" {
		t.Errorf("serves %q less than a second after the last look", got)
	}
	now = now.Add(1)
	if got := servedName(t, config); got != "second" {
		t.Errorf("serves %q a second after the last look", got)
	}
	serverFiles(t, dir, ca, "third")
	now = now.Add(-time.Hour)
	if got := servedName(t, config); got != "third" {
		t.Errorf("serves %q after the clock was set back", got)
	}
}

func TestSymbolicLinkSwap(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	for _, version := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		serverFiles(t, filepath.Join(dir, version), ca, version)
		// The same modification time on both: only the contents tell them apart.
		for _, name := range []string{"cert.pem", "key.pem"} {
			if err := os.Chtimes(filepath.Join(dir, version, name), notBefore, notBefore); err != nil {
				t.Fatal(err)
			}
		}
	}
	link := filepath.Join(dir, "current")
	if err := os.Symlink("v1", link); err != nil {
		t.Fatal(err)
	}
	config := newServer(t, ServerFiles{Cert: filepath.Join(link, "cert.pem"), Key: filepath.Join(link, "key.pem")}).Config()
	if got := servedName(t, config); got != "v1" {
		t.Fatalf("serves %q", got)
	}
	if err := os.Symlink("v2", link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	if got := servedName(t, config); got != "v2" {
		t.Errorf("serves %q after the swap", got)
	}
}

func TestBadNewFilesKeepTheOld(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	files := serverFiles(t, dir, ca, "old")
	newCert, newKey := ca.issue(t, "new")
	r := newServer(t, files)
	var troubles []string
	r.OnError = func(err error) { troubles = append(troubles, err.Error()) }
	config := r.Config()

	steps := []struct {
		name    string
		do      func()
		serves  string
		trouble string // part of the one error that is new, "" for none
	}{
		{"nothing changed", func() {}, "old", ""},
		{"certificate half written", func() { write(t, files.Cert, newCert[:len(newCert)/2]) }, "old", "no CERTIFICATE"},
		{"still half written", func() {}, "old", ""},
		{"certificate whole, key not yet there", func() { write(t, files.Cert, newCert) }, "old", "belong together"},
		{"key removed", func() { os.Remove(files.Key) }, "old", "no such file"},
		{"key written", func() { write(t, files.Key, newKey) }, "new", ""},
		{"key removed again", func() { os.Remove(files.Key) }, "new", "no such file"},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			troubles = nil
			step.do()
			if got := servedName(t, config); got != step.serves {
				t.Errorf("serves %q; want %q", got, step.serves)
			}
			if want := min(len(step.trouble), 1); len(troubles) != want || want == 1 && !strings.Contains(troubles[0], step.trouble) {
				t.Errorf("told of %q; want %q", troubles, step.trouble)
			}
		})
	}
}

func TestReload(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	files := serverFiles(t, dir, ca, "first")
	r := newServer(t, files)
	r.Now = func() time.Time { return notBefore } // a handshake looks once, and then never again
	config := r.Config()
	servedName(t, config)

	serverFiles(t, dir, ca, "second")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := servedName(t, config); got != "second" {
		t.Errorf("serves %q after Reload", got)
	}
	write(t, files.Key, nil)
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), files.Key) {
		t.Errorf("Reload of an empty key: %v", err)
	}
	if got := servedName(t, config); got != "second" {
		t.Errorf("serves %q after a Reload that failed", got)
	}
	if got := r.NotAfter(); !got.Equal(notAfter) {
		t.Errorf("NotAfter = %v; want %v", got, notAfter)
	}
}

// A client whose CA is no longer accepted must not get in with what an earlier session left it.
func TestNoResumption(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	server := newServer(t, serverFiles(t, dir, ca, "server")).Config()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := &tls.Config{InsecureSkipVerify: true, MaxVersion: version, ServerName: "server", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		for range 2 {
			if s := handshake(t, client, server); s.err() != nil || s.server.DidResume {
				t.Errorf("%s: resumed %v, %v", tls.VersionName(version), s.server.DidResume, s.err())
			}
		}
	}
}

func TestHandshakesDuringReload(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	files := serverFiles(t, dir, ca, "server")
	r := newServer(t, files)
	r.OnError = nil // files are seen half written here
	config := r.Config()
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			var err error
			for range 10 {
				if s := handshake(t, &tls.Config{InsecureSkipVerify: true}, config); s.err() != nil {
					err = s.err()
				}
			}
			errs <- err
		}()
	}
	for range 20 {
		serverFiles(t, dir, ca, "server")
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
