package tlsconf

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os/exec"
	"testing"
)

func TestBinding(t *testing.T) {
	server := newServer(t, serverFiles(t, t.TempDir(), newAuthority(t, "ca"), "server")).Config()
	seen := map[string]bool{}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for range 2 {
			s := handshake(t, &tls.Config{InsecureSkipVerify: true, MaxVersion: version}, server)
			if s.err() != nil {
				t.Fatal(s.err())
			}
			left, err := Binding(s.client)
			if err != nil {
				t.Fatal(err)
			}
			right, err := Binding(s.server)
			if err != nil || !bytes.Equal(left, right) || len(left) != bindingSize {
				t.Errorf("%s: client has %x, server %x, %v", tls.VersionName(version), left, right, err)
			}
			if seen[string(left)] {
				t.Errorf("%s: two sessions have the same binding", tls.VersionName(version))
			}
			seen[string(left)] = true
			other, err := s.client.ExportKeyingMaterial(ExporterLabel+"x", nil, bindingSize)
			if err != nil || bytes.Equal(other, left) {
				t.Errorf("another label gives %x, %v", other, err)
			}
		}
	}
}

func TestNoBinding(t *testing.T) {
	if b, err := Binding(tls.ConnectionState{}); !errors.Is(err, ErrNoBinding) || b != nil {
		t.Errorf("before the handshake: %x, %v", b, err)
	}
	server := newServer(t, serverFiles(t, t.TempDir(), newAuthority(t, "ca"), "server")).Config()
	client := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, Renegotiation: tls.RenegotiateOnceAsClient}
	if b, err := Binding(handshake(t, client, server).client); !errors.Is(err, ErrNoBinding) || b != nil {
		t.Errorf("on a session that may be renegotiated: %x, %v", b, err)
	}
}

// withoutExtendedMasterSecret is a client that Go cannot be: TLS 1.2 as before RFC 7627. Bit 0 of the options is
// SSL_OP_NO_EXTENDED_MASTER_SECRET (OpenSSL 3).
const withoutExtendedMasterSecret = `
import socket, ssl, sys
c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
c.maximum_version = ssl.TLSVersion.TLSv1_2
c.options |= int(sys.argv[2])
s = c.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10))
s.recv(1)
`

func TestNoBindingWithoutExtendedMasterSecret(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3 with OpenSSL 3 for a TLS 1.2 client without extended master secret")
	}
	config := newServer(t, serverFiles(t, t.TempDir(), newAuthority(t, "ca"), "server")).Config()
	for option, want := range map[string]error{"0": nil, "1": ErrNoBinding} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		cmd := exec.CommandContext(t.Context(), python, "-c", withoutExtendedMasterSecret, port, option)
		done := make(chan error, 1)
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Logf("python3: %s", out)
				l.Close()
			}
			done <- err
		}()
		conn, err := l.Accept()
		if err != nil {
			t.Fatalf("the client did not connect: %v", <-done)
		}
		server := tls.Server(conn, config)
		if err := server.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, err := Binding(server.ConnectionState()); !errors.Is(err, want) || (b == nil) != (want != nil) {
			t.Errorf("options %s: %x, %v; want %v", option, b, err, want)
		}
		server.Close()
		<-done
	}
}
