package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestServerStopsOnSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := startTestServer(t)
			s.signal(sig)
			s.wait().expect(t, exitOK)
		})
	}
}

func TestServerWaitsForHoldersAndNotAfterASecondSignal(t *testing.T) {
	t.Parallel()
	s := startTestServer(t, "TICKETING_DRAIN_TIMEOUT=1h")
	holder := s.start("lock", "held", "--", "sh", "-c", "echo started; exec sleep 100")
	if holder.line() != "started" {
		t.Fatal("the holder did not start")
	}
	s.signal(syscall.SIGTERM)
	eventually(t, "the server drains", func() bool { return strings.Contains(s.stderr.String(), "stopping") })
	select {
	case <-s.ended:
		t.Fatal("the server did not wait for the holder")
	default:
	}
	s.signal(syscall.SIGTERM)
	s.wait()
}

func TestServerRefusesToStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	cases := []struct {
		name    string
		environ []string
		args    []string
		code    int
		says    []string
	}{
		{"port in use", []string{"TICKETING_LISTEN=" + taken.Addr().String(), "TICKETING_ADMIN_LISTEN=off"}, nil, exitNegative,
			[]string{"TICKETING_LISTEN", "address already in use"}},
		{"admin port in use", []string{"TICKETING_LISTEN=127.0.0.1:0", "TICKETING_ADMIN_LISTEN=" + taken.Addr().String()}, nil, exitNegative,
			[]string{"TICKETING_ADMIN_LISTEN", "address already in use"}},
		{"several bad values", []string{"TICKETING_MAX_KEYS=none", "TICKETING_LEGACY=maybe"}, nil, exitConfig,
			[]string{"TICKETING_MAX_KEYS", "none", "TICKETING_LEGACY", "maybe"}},
		{"unknown variable", []string{"TICKETING_LISTNE=127.0.0.1:0"}, nil, exitConfig, []string{"TICKETING_LISTNE", "TICKETING_LISTEN"}},
		{"token file that is not there", []string{"TICKETING_TOKEN_FILE=/nowhere/token"}, nil, exitConfig, []string{"TICKETING_TOKEN", "/nowhere/token"}},
		{"check of a node without a credential", []string{"TICKETING_SEAT=1", "TICKETING_PEER_LISTEN=127.0.0.1:0", "TICKETING_CLUSTER_SECRET=a secret of this cluster",
			"TICKETING_STATE_DIR=" + t.TempDir(), "TICKETING_ALLOW_VOLATILE_STATE_DIR=yes"}, []string{"server", "--check"}, exitConfig, []string{"needs a credential"}},
		{"unknown flag", nil, []string{"server", "--chek"}, exitUsage, []string{"--chek", "--check"}},
		{"unknown argument", nil, []string{"server", "now"}, exitUsage, []string{`"now"`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, c.environ, c.args...).expect(t, c.code)
			for _, s := range c.says {
				if !strings.Contains(got.stderr, s) {
					t.Errorf("stderr does not say %q: %s", s, got.stderr)
				}
			}
		})
	}
}

func TestServerCheckShowsNoSecret(t *testing.T) {
	t.Parallel()
	got := run(t, []string{"TICKETING_TOKEN=" + testToken, "TICKETING_MAX_KEYS=77"}, "server", "--check").expect(t, exitOK)
	if strings.Contains(got.stdout, testToken) || !strings.Contains(got.stdout, "77") {
		t.Errorf("--check prints:\n%s", got.stdout)
	}
}

func TestServerReadsTokensAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	write := func(secret string) {
		if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("the first secret of this test")
	s := startTestServer(t, "TICKETING_TOKEN=", "TICKETING_TOKEN_FILE="+path)
	with := func(secret string) outcome {
		return run(t, append(s.environ, "TICKETING_TOKEN="+secret), "release", "--owner", "1", "--token", "1", "nothing")
	}
	with("the first secret of this test").expect(t, exitNegative)
	with("another secret of this test").expect(t, exitAuth)
	write("another secret of this test")
	s.signal(syscall.SIGHUP)
	eventually(t, "the server reads its secret again", func() bool { return strings.Contains(s.stderr.String(), "reloaded") })
	with("another secret of this test").expect(t, exitNegative)
	with("the first secret of this test").expect(t, exitAuth)
}

// A server whose stdout and stderr are a pipe that nobody reads any more goes on.
func TestServerOutlivesItsLog(t *testing.T) {
	t.Parallel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := prepare(t, []string{"TICKETING_LISTEN=127.0.0.1:0", "TICKETING_ADMIN_LISTEN=off"})
	cmd.Stderr, cmd.Stdout = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	var log [64]byte
	out.Read(log[:])
	out.Close()
	cmd.Process.Signal(syscall.SIGHUP) // writes a line
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("exit code %d: %v", code, cmd.ProcessState)
	}
}
