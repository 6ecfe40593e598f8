package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAcquireAndRelease(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	first := s.run("acquire", "order-1").expect(t, exitOK).stdout
	token, owner, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(first, "token=")), " owner=")
	if !ok {
		t.Fatalf("acquire prints %q", first)
	}
	s.run("acquire", "--wait", "0s", "order-1").expect(t, exitNotGranted)
	s.run("acquire", "order-1", "--wait=50ms").expect(t, exitNotGranted)
	s.run("release", "--owner", owner, "--token", "1", "order-1").expect(t, exitNegative)
	s.run("release", "order-1", "--owner", owner, "--token", token).expect(t, exitOK)
	s.run("release", "--owner", owner, "--token", token, "order-1").expect(t, exitNegative)

	second := s.acquire("order-1", "--lease", "30s")
	if second.Key != "order-1" || atoi(t, second.Token) <= atoi(t, token) {
		t.Errorf("the second grant %+v follows token %s", second, token)
	}
	if left := time.Until(second.Deadline); left < 20*time.Second || left > 30*time.Second {
		t.Errorf("a lease of 30 s has its deadline in %v", left)
	}
}

func atoi(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestExitCodesOfClientCommands(t *testing.T) {
	s := startTestServer(t)
	unreachable := "TICKETING_ADDRS=127.0.0.1:1"
	cases := []struct {
		name    string
		environ []string
		args    []string
		code    int
		says    string
	}{
		{"wrong token", []string{"TICKETING_TOKEN=wrong"}, []string{"acquire", "k"}, exitAuth, "auth"},
		{"wrong token, lock", []string{"TICKETING_TOKEN=wrong"}, []string{"lock", "k", "--", "true"}, exitAuth, "auth"},
		{"wrong token, bench", []string{"TICKETING_TOKEN=wrong"}, []string{"bench", "--duration", "1s"}, exitAuth, "auth_failed"},
		{"no server", []string{unreachable}, []string{"acquire", "--wait", "100ms", "k"}, exitUnreachable, "127.0.0.1:1"},
		{"no server, flag", nil, []string{"acquire", "--addr", "127.0.0.1:1", "--wait", "0s", "k"}, exitUnreachable, "127.0.0.1:1"},
		{"no server, bench", []string{unreachable}, []string{"bench"}, exitUnreachable, "127.0.0.1:1"},
		{"no admin endpoint", []string{"TICKETING_ADMIN_ADDRS=http://127.0.0.1:1"}, []string{"status"}, exitUnreachable, "127.0.0.1:1"},
		{"no admin endpoint, keys", nil, []string{"keys", "--admin", "127.0.0.1:1"}, exitUnreachable, "what --admin or TICKETING_ADMIN_ADDRS names"},
		{"one admin endpoint of two", nil, []string{"status", "--admin", "http://127.0.0.1:1", "--admin", admin(s)}, exitNegative, ""},
		{"bad key", nil, []string{"acquire", "a key"}, exitUsage, "key"},
		{"bad lease", nil, []string{"acquire", "--lease", "1h", "k"}, exitUsage, "lease"},
		{"bad wait", nil, []string{"acquire", "--wait", "-1s", "k"}, exitUsage, "wait"},
		{"no key", nil, []string{"acquire"}, exitUsage, "KEY"},
		{"two keys", nil, []string{"acquire", "k", "l"}, exitUsage, "KEY"},
		{"not a duration", nil, []string{"acquire", "--wait", "10", "k"}, exitUsage, "duration"},
		{"flag without value", nil, []string{"acquire", "k", "--wait"}, exitUsage, "--wait"},
		{"unknown flag", nil, []string{"acquire", "--leese", "1s", "k"}, exitUsage, "did you mean --lease"},
		{"unknown command", nil, []string{"aquire", "k"}, exitUsage, "did you mean acquire"},
		{"no owner", nil, []string{"release", "k", "--token", "7"}, exitUsage, "--owner"},
		{"owner 0", nil, []string{"release", "k", "--token", "7", "--owner", "0"}, exitUsage, "--owner"},
		{"force and token", nil, []string{"release", "k", "--token", "7", "--owner", "7", "--force"}, exitUsage, "--force"},
		{"lock without --", nil, []string{"lock", "k", "true"}, exitUsage, "--"},
		{"lock without a command", nil, []string{"lock", "k", "--"}, exitUsage, "--"},
		{"lock, no such command", nil, []string{"lock", "k", "--", "/nowhere/command"}, exitNotFound, "/nowhere/command"},
		{"lock, not executable", nil, []string{"lock", "k", "--", "/etc/passwd"}, exitNotExecutable, "/etc/passwd"},
		{"of a later version", nil, []string{"demo"}, exitUsage, "not in this version"},
		{"no secret of the cluster", nil, []string{"cluster", "init"}, exitConfig, "TICKETING_CLUSTER_SECRET"},
		{"token file that is not there", []string{"TICKETING_TOKEN=", "TICKETING_TOKEN_FILE=/nowhere/token"}, []string{"acquire", "k"}, exitConfig, "TICKETING_TOKEN_FILE"},
		{"CA file that is not there", nil, []string{"acquire", "--tls-ca", "/nowhere/ca", "k"}, exitConfig, "/nowhere/ca"},
		{"TLS to a plaintext port", nil, []string{"acquire", "--tls-insecure", "--wait", "100ms", "k"}, exitUnreachable, "TLS"},
		{"admin URL", nil, []string{"status", "--admin", "ftp://x"}, exitUsage, "ftp://x"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, append(append([]string(nil), s.environ...), c.environ...), c.args...).expect(t, c.code)
			if !strings.Contains(got.stderr, c.says) {
				t.Errorf("stderr does not say %q: %s", c.says, got.stderr)
			}
		})
	}
}

// admin returns the URL of the server's admin endpoint.
func admin(s *testServer) string {
	return strings.TrimPrefix(s.environ[2], "TICKETING_ADMIN_ADDRS=")
}

func TestAcquireGivesBackWhatItCannotPrint(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full: ", err)
	}
	defer full.Close()
	cmd := prepare(t, s.environ, "acquire", "k")
	cmd.Stdout = full
	if err := cmd.Run(); err == nil {
		t.Error("a token that could not be printed is no error")
	}
	s.acquire("k", "--wait", "0s")
}

func TestAcquireLeavesTheQueueWhenInterrupted(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	s.acquire("k")
	waiting := s.start("acquire", "--wait", "1h", "k")
	eventually(t, "it waits", func() bool { return s.waiters() == 1 })
	waiting.signal(syscall.SIGINT)
	waiting.wait().expect(t, exitNotGranted)
	if s.waiters() != 0 {
		t.Error("it still waits")
	}
}

func TestProcessesGetALockInTheOrderOfAsking(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	first := s.acquire("k")
	var queue []*running
	for i := range 3 {
		queue = append(queue, s.start("acquire", "--wait", "1m", "--json", "k"))
		eventually(t, "it waits", func() bool { return s.waiters() == i+1 })
	}
	held := first
	for _, next := range queue {
		s.run("release", "--owner", held.Owner, "--token", held.Token, "k").expect(t, exitOK)
		out := next.wait().expect(t, exitOK).stdout
		var g grant
		if err := json.Unmarshal([]byte(out), &g); err != nil {
			t.Fatal(err)
		}
		if atoi(t, g.Token) <= atoi(t, held.Token) {
			t.Errorf("token %s after %s", g.Token, held.Token)
		}
		held = g
	}
}

func TestStatusAndKeys(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	escape := "\u009b31m\u202ered" // a terminal would obey
	s.acquire("plain-key")
	s.acquire(escape)
	s.start("acquire", "--wait", "1m", "plain-key")
	eventually(t, "one waits", func() bool { return s.waiters() == 1 })

	status := s.run("status").expect(t, exitOK).stdout
	for _, line := range []string{"version      v0.0.0-test", "role         standalone", "ready        yes", "held keys    2", "waiters      1"} {
		if !strings.Contains(status, line) {
			t.Errorf("status lacks %q:\n%s", line, status)
		}
	}
	table := s.run("keys").expect(t, exitOK).stdout
	if strings.ContainsAny(table, "\u009b\u202e") {
		t.Errorf("a key reaches the terminal as it is: %q", table)
	}
	if !strings.Contains(table, `"plain-key"`) || !strings.Contains(table, strconv.Quote(escape)) {
		t.Errorf("keys prints:\n%s", table)
	}
	var list struct {
		Keys []struct {
			Key, Owner, Name string
			Token            *string
			Waiters          int
		}
	}
	decode := func(args ...string) {
		t.Helper()
		list.Keys = nil
		out := s.run(append([]string{"keys", "--json"}, args...)...).expect(t, exitOK).stdout
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	decode("--prefix", "plain")
	if len(list.Keys) != 1 || list.Keys[0].Waiters != 1 || !strings.HasPrefix(list.Keys[0].Name, "ticketing@") {
		t.Errorf("keys --prefix plain: %+v", list.Keys)
	}
	if list.Keys[0].Token != nil {
		t.Error("a token is shown without the admin token")
	}
	decode("--held-longer", "1h")
	if len(list.Keys) != 0 {
		t.Errorf("held for an hour: %+v", list.Keys)
	}
	decode("--limit", "1")
	if len(list.Keys) != 1 {
		t.Errorf("--limit 1: %+v", list.Keys)
	}
	s.run("release", "--force", "plain-key").expect(t, exitConfig) // without an admin token
}

func TestKeysReadsEveryPage(t *testing.T) {
	t.Parallel()
	s := startTestServer(t)
	held := s.start("bench", "--hold", "2500", "--lease", "20s", "--in-flight", "64")
	defer held.Process.Kill()
	var list struct{ Keys []heldKey }
	eventually(t, "2500 keys are held", func() bool {
		list.Keys = nil
		out := s.run("keys", "--json").expect(t, exitOK).stdout
		return json.Unmarshal([]byte(out), &list) == nil && len(list.Keys) >= 2500
	})
	seen := map[string]bool{}
	for _, k := range list.Keys {
		if seen[k.Key] {
			t.Errorf("%q is listed twice", k.Key)
		}
		seen[k.Key] = true
	}
}

func TestReleaseByForce(t *testing.T) {
	t.Parallel()
	s := startTestServer(t, "TICKETING_ADMIN_TOKEN=the admin's secret of the tests")
	s.run("status").expect(t, exitAuth)
	s.environ = append(s.environ, "TICKETING_ADMIN_TOKEN=the admin's secret of the tests")
	held := s.acquire("stuck")
	s.acquire("stuck-too")
	got := s.run("release", "--force", "stuck").expect(t, exitOK)
	for _, s := range []string{`"stuck"`, held.Owner, held.Token, "released"} {
		if !strings.Contains(got.stdout, s) {
			t.Errorf("release --force does not show %q:\n%s", s, got.stdout)
		}
	}
	s.run("release", "--force", "stuck").expect(t, exitNegative)
	s.acquire("stuck", "--wait", "0s")
	s.run("acquire", "--wait", "0s", "stuck-too").expect(t, exitNotGranted)
}

func TestHelpDescribesEveryCommand(t *testing.T) {
	t.Parallel()
	all := run(t, nil, "help").expect(t, exitOK).stdout
	for _, c := range commands() {
		if !strings.Contains(all, "\n  "+c.name+" ") {
			t.Errorf("help does not list %s", c.name)
		}
		one := run(t, nil, "help", c.name).expect(t, exitOK).stdout
		for _, name := range flagNames(c.flags) {
			if !strings.Contains(one, "--"+name) {
				t.Errorf("help %s does not show --%s", c.name, name)
			}
		}
		for _, section := range []string{"Usage: ticketing " + c.name, "Exit codes:", "Example:"} {
			if !strings.Contains(one, section) {
				t.Errorf("help %s has no %q", c.name, section)
			}
		}
		if other := run(t, nil, c.name, "--help").expect(t, exitOK).stdout; other != one {
			t.Errorf("%s --help differs from help %s", c.name, c.name)
		}
	}
	for _, name := range []string{"demo", "lock-guard", "lock-launch", "bench-echo"} {
		if strings.Contains(all, "  "+name) {
			t.Errorf("help lists %s", name)
		}
	}
}

func TestVersionAndGenToken(t *testing.T) {
	t.Parallel()
	if got := run(t, nil, "version").expect(t, exitOK).stdout; !strings.Contains(got, "v0.0.0-test") {
		t.Errorf("version prints %q", got)
	}
	var b build
	if err := json.Unmarshal([]byte(run(t, nil, "--version", "--json").expect(t, exitOK).stdout), &b); err != nil || b.Version != "v0.0.0-test" {
		t.Errorf("version --json: %+v %v", b, err)
	}
	one, two := run(t, nil, "gen-token").expect(t, exitOK).stdout, run(t, nil, "gen-token").expect(t, exitOK).stdout
	if len(one) != 44 || one == two {
		t.Errorf("gen-token prints %q and %q", one, two)
	}
}
