package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const longSecret = "0123456789abcdef"

// secretFiles is a fileReader over a map.
func secretFiles(files map[string]string) fileReader {
	return func(path string) ([]byte, error) {
		content, ok := files[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(content), nil
	}
}

func problemsOf(t *testing.T, err error) []string {
	t.Helper()
	var c *ConfigError
	if err != nil && (!errors.As(err, &c) || ExitCode(err) != exitConfig) {
		t.Fatalf("not a configuration error: %v", err)
	}
	if c == nil {
		return nil
	}
	return c.Problems
}

func TestEmptyEnvironmentGivesTheDefaults(t *testing.T) {
	c, err := ConfigFromEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", c), fmt.Sprintf("%+v", DefaultConfig()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if tokens := c.clientTokens(); len(tokens) != 1 || len(tokens[0]) != 0 {
		t.Errorf("tokens %q", tokens)
	}
	if c.AdvertisedAddr() != "127.0.0.1:5225" {
		t.Errorf("advertised: %s", c.AdvertisedAddr())
	}
}

func TestEveryVariable(t *testing.T) {
	c, err := configFromEnv([]string{
		"TICKETING_LISTEN=[::]:7000",
		"TICKETING_ADVERTISE=locks.example:7000",
		"TICKETING_TOKEN=0123456789abcdef,fedcba9876543210",
		"TICKETING_ALLOW_EMPTY_TOKEN=yes",
		"TICKETING_TLS_CERT=/c", "TICKETING_TLS_KEY=/k", "TICKETING_TLS_CLIENT_CA=/ca",
		"TICKETING_LEGACY=off",
		"TICKETING_ADMIN_LISTEN=off",
		"TICKETING_ADMIN_TOKEN=with,comma",
		"TICKETING_STATE_DIR=/var/lib/ticketing",
		"TICKETING_ALLOW_VOLATILE_STATE_DIR=yes",
		"TICKETING_TOKEN_FLOOR=4611686018427387904",
		"TICKETING_MAX_CONNECTIONS=1", "TICKETING_MAX_KEYS=2", "TICKETING_MAX_WAITERS=3", "TICKETING_MAX_WAITERS_PER_KEY=4",
		"TICKETING_MAX_IN_FLIGHT=5", "TICKETING_MAX_BUFFERED=6MiB",
		"TICKETING_IDLE_TIMEOUT=1s", "TICKETING_DRAIN_TIMEOUT=0s",
		"TICKETING_LOG_LEVEL=debug", "TICKETING_LOG_FORMAT=json",
		"NOTIFY_SOCKET=@systemd", "WATCHDOG_USEC=20000000",
		"PATH=/bin",
	}, secretFiles(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Listen, want.Advertise = "[::]:7000", "locks.example:7000"
	want.Tokens, want.AllowEmptyToken = []Secret{"0123456789abcdef", "fedcba9876543210"}, true
	want.TLSCert, want.TLSKey, want.TLSClientCA, want.Legacy = "/c", "/k", "/ca", false
	want.AdminListen, want.AdminToken = "", "with,comma"
	want.StateDir, want.AllowVolatileStateDir, want.TokenFloor = "/var/lib/ticketing", true, 1<<62
	want.MaxConnections, want.MaxKeys, want.MaxWaiters, want.MaxWaitersPerKey, want.MaxInFlight, want.MaxBuffered = 1, 2, 3, 4, 5, 6<<20
	want.IdleTimeout, want.DrainTimeout = time.Second, 0
	want.LogLevel, want.LogFormat = "debug", "json"
	want.NotifySocket, want.Watchdog = "@systemd", 20*time.Second
	if got, want := fmt.Sprintf("%+v", c), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if !slices.Equal(c.Tokens, want.Tokens) || c.AdminToken != want.AdminToken {
		t.Errorf("the secrets were read as %d of them and %q", len(c.Tokens), string(c.AdminToken))
	}
}

// Each bad value: what the one problem says. The value is shown, but for secrets.
func TestBadValues(t *testing.T) {
	for entry, says := range map[string]string{
		"TICKETING_LISTEN=5225":                      `TICKETING_LISTEN="5225": host:port is allowed`,
		"TICKETING_LISTEN=127.0.0.1:65536":           `="127.0.0.1:65536": host:port`,
		"TICKETING_LISTEN=bad host:1":                `="bad host:1": host:port`,
		"TICKETING_ADMIN_LISTEN=no":                  `="no": host:port is allowed, such as 127.0.0.1:5225, [::1]:5225 or :5225, or off`,
		"TICKETING_ADMIN_LISTEN=127.0.0.1:5225":      "two different addresses",
		"TICKETING_ADMIN_LISTEN=:5425":               "TICKETING_ADMIN_TOKEN: required",
		"TICKETING_ADVERTISE=:5225":                  "with a host and a port",
		"TICKETING_ADVERTISE=0.0.0.0:5225":           "with a host and a port",
		"TICKETING_ADVERTISE=host:0":                 "with a host and a port",
		"TICKETING_ALLOW_EMPTY_TOKEN=true":           `="true": yes or no is allowed`,
		"TICKETING_LEGACY=yes":                       `="yes": on or off is allowed`,
		"TICKETING_TLS_CERT=/cert":                   `TICKETING_TLS_CERT="/cert" and TICKETING_TLS_KEY="": both or neither`,
		"TICKETING_TLS_CLIENT_CA=/ca":                "with TICKETING_TLS_CERT and TICKETING_TLS_KEY only",
		"TICKETING_TOKEN_FLOOR=-1":                   `="-1": a number from 0 to 4611686018427387904`,
		"TICKETING_TOKEN_FLOOR=4611686018427387905":  "a number from 0 to 4611686018427387904",
		"TICKETING_TOKEN_FLOOR=99999999999999999999": "a number from 0 to 4611686018427387904",
		"TICKETING_MAX_CONNECTIONS=0":                `="0": a number from 1 to 1000000 is allowed`,
		"TICKETING_MAX_KEYS=1e6":                     `="1e6": a number from 1 to 100000000`,
		"TICKETING_MAX_WAITERS=100000001":            "a number from 1 to",
		"TICKETING_MAX_WAITERS_PER_KEY= 5":           `=" 5": a number`,
		"TICKETING_MAX_IN_FLIGHT=0x10":               `="0x10": a number`,
		"TICKETING_MAX_BUFFERED=256MB":               `="256MB": a size from 1MiB to 1024GiB is allowed, in bytes or with KiB, MiB or GiB`,
		"TICKETING_MAX_BUFFERED=9999999999999GiB":    "a size from",
		"TICKETING_MAX_BUFFERED=1":                   "a size from",
		"TICKETING_IDLE_TIMEOUT=20":                  `="20": a duration from 1s to 1h0m0s is allowed, such as 500ms or 20s`,
		"TICKETING_IDLE_TIMEOUT=999ms":               `="999ms": a duration from 1s`,
		"TICKETING_DRAIN_TIMEOUT=-1s":                "a duration from 0s",
		"TICKETING_LOG_LEVEL=INFO":                   `="INFO": one of debug, info, warn, error is allowed`,
		"TICKETING_LOG_FORMAT=xml":                   "one of text, json",
		"TICKETING_STATE_DIR=a\x00b":                 "the path of a file",
		"TICKETING_TOKEN=a,,b":                       "TICKETING_TOKEN: secret 2 of 3 is empty",
		"TICKETING_TOKEN=a,":                         "TICKETING_TOKEN: secret 2 of 2 is empty",
		"TICKETING_TOKN=x":                           `"TICKETING_TOKN": unknown variable; the nearest that is known is TICKETING_TOKEN`,
		"TICKETING_LISTEN_FILE=x":                    "unknown variable; TICKETING_LISTEN is no secret",
		"TICKETING_=x":                               "unknown variable",
		"TICKETING_STATEDIR=x":                       "is TICKETING_STATE_DIR",
		"TICKETING_ADMIN_TOKEN_FIL=x":                "is TICKETING_ADMIN_TOKEN_FILE",
		"TICKETING_PORT=tcp://10.0.0.1:5225":         "enableServiceLinks: false",
		"TICKETING_SERVICE_HOST=10.0.0.1":            "enableServiceLinks: false",
		"TICKETING_TOKEN_FILE=/no/such/secret":       `TICKETING_TOKEN_FILE="/no/such/secret": no such file or directory; a readable file with one secret a line is allowed`,
	} {
		_, err := ConfigFromEnv([]string{entry})
		problems := problemsOf(t, err)
		if len(problems) != 1 || !strings.Contains(problems[0], says) {
			t.Errorf("%s: %q; want one that says %q", entry, problems, says)
		}
	}
}

func TestCertificatesThatCannotBeRead(t *testing.T) {
	_, err := ConfigFromEnv([]string{"TICKETING_TLS_CERT=/no/such.crt", "TICKETING_TLS_KEY=/no/such.key", "TICKETING_LEGACY=maybe"})
	if p := problemsOf(t, err); len(p) != 2 || !strings.Contains(p[1], `TICKETING_TLS_CERT="/no/such.crt"`) || !strings.Contains(p[1], "no such file") {
		t.Errorf("%q", p)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := ConfigFromEnv([]string{
		"TICKETING_LISTEN=:5225", "TICKETING_TOKEN=short-secret", "TICKETING_MAX_KEYS=none", "TICKETING_LEGACY=maybe", "TICKETING_WRONG=1",
		"TICKETING_ADMIN_LISTEN=0.0.0.0:5425", "TICKETING_IDLE_TIMEOUT=1",
	})
	problems := problemsOf(t, err)
	if len(problems) != 6 {
		t.Errorf("%d problems: %q", len(problems), problems)
	}
	for _, name := range []string{"TICKETING_TOKEN", "TICKETING_MAX_KEYS", "TICKETING_LEGACY", "TICKETING_WRONG", "TICKETING_ADMIN_TOKEN", "TICKETING_IDLE_TIMEOUT"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "short-secret") {
		t.Errorf("a secret shows: %v", err)
	}
}

func TestTokenOutsideLoopback(t *testing.T) {
	for name, test := range map[string]struct {
		env  []string
		says string // empty: allowed
	}{
		"none":                           {[]string{"TICKETING_LISTEN=:5225"}, "TICKETING_TOKEN: required"},
		"none, and allowed":              {[]string{"TICKETING_LISTEN=:5225", "TICKETING_ALLOW_EMPTY_TOKEN=yes"}, ""},
		"15 bytes":                       {[]string{"TICKETING_LISTEN=:5225", "TICKETING_TOKEN=" + longSecret[1:]}, "secret 1 of 1 is too short"},
		"15 bytes, the empty is allowed": {[]string{"TICKETING_LISTEN=:5225", "TICKETING_TOKEN=" + longSecret[1:], "TICKETING_ALLOW_EMPTY_TOKEN=yes"}, "too short"},
		"16 bytes":                       {[]string{"TICKETING_LISTEN=:5225", "TICKETING_TOKEN=" + longSecret}, ""},
		"the second is short":            {[]string{"TICKETING_LISTEN=:5225", "TICKETING_TOKEN=" + longSecret + ",x"}, "secret 2 of 2 is too short"},
		"short on loopback":              {[]string{"TICKETING_LISTEN=127.9.9.9:5225", "TICKETING_TOKEN=x"}, ""},
		"short on IPv6 loopback":         {[]string{"TICKETING_LISTEN=[::1]:5225", "TICKETING_TOKEN=x"}, ""},
		"short on mapped loopback":       {[]string{"TICKETING_LISTEN=[::ffff:127.0.0.1]:5225", "TICKETING_TOKEN=x"}, ""},
		"short on localhost":             {[]string{"TICKETING_LISTEN=LocalHost:5225", "TICKETING_TOKEN=x"}, ""},
		"a name may be anywhere":         {[]string{"TICKETING_LISTEN=localhost.example:5225", "TICKETING_TOKEN=x"}, "too short"},
		"admin outside":                  {[]string{"TICKETING_ADMIN_LISTEN=[::]:5425"}, "TICKETING_ADMIN_TOKEN: required"},
		"admin outside, with a token":    {[]string{"TICKETING_ADMIN_LISTEN=[::]:5425", "TICKETING_ADMIN_TOKEN=x"}, ""},
	} {
		_, err := ConfigFromEnv(test.env)
		problems := problemsOf(t, err)
		if test.says == "" && err != nil || test.says != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.says)) {
			t.Errorf("%s: %q; want %q", name, problems, test.says)
		}
	}
}

func TestSecretFiles(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		tokens  []Secret
		says    string
	}{
		"one line":                {"secret", []Secret{"secret"}, ""},
		"one line, LF":            {"secret\n", []Secret{"secret"}, ""},
		"one line, CRLF":          {"secret\r\n", []Secret{"secret"}, ""},
		"only one LF is trimmed":  {"secret\n\n", nil, "secret 2 of 2 is empty"},
		"a CR alone stays":        {"secret\r", []Secret{"secret\r"}, ""},
		"blanks and commas stay":  {" a,b \n", []Secret{" a,b "}, ""},
		"several":                 {"one\ntwo\r\nthree", []Secret{"one", "two", "three"}, ""},
		"an empty line between":   {"one\n\ntwo\n", nil, "secret 2 of 3 is empty"},
		"an empty file":           {"", nil, "0 lines; a file with one secret a line is allowed"},
		"an empty line":           {"\n", nil, "secret 1 of 1 is empty"},
		"bytes that are not text": {"\xff\x00\n", []Secret{"\xff\x00"}, ""},
	} {
		c, err := configFromEnv([]string{"TICKETING_TOKEN_FILE=/f"}, secretFiles(map[string]string{"/f": test.content}))
		problems := problemsOf(t, err)
		switch {
		case test.says != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.says)):
			t.Errorf("%s: %q; want %q", name, problems, test.says)
		case test.says == "" && (err != nil || !slices.Equal(c.Tokens, test.tokens)):
			t.Errorf("%s: %d secrets, %v", name, len(c.Tokens), err)
		}
	}
}

func TestSecretGivenTwice(t *testing.T) {
	files := secretFiles(map[string]string{"/f": "one\ntwo\n"})
	_, err := configFromEnv([]string{"TICKETING_TOKEN=a", "TICKETING_TOKEN_FILE=/f"}, files)
	if p := problemsOf(t, err); len(p) != 1 || !strings.Contains(p[0], "both are set") {
		t.Errorf("%q", p)
	}
	if _, err := configFromEnv([]string{"TICKETING_TOKEN=", "TICKETING_TOKEN_FILE=/f"}, files); err != nil {
		t.Errorf("an empty variable counts as set: %v", err)
	}
	_, err = configFromEnv([]string{"TICKETING_ADMIN_TOKEN_FILE=/f"}, files)
	if p := problemsOf(t, err); len(p) != 1 || !strings.Contains(p[0], "2 lines; a file with one line") {
		t.Errorf("two lines for the one admin token: %q", p)
	}
}

func TestSecretFilesOnDisk(t *testing.T) {
	dir := t.TempDir()
	path := func(name, content string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if c, err := ConfigFromEnv([]string{"TICKETING_TOKEN_FILE=" + path("token", "a\nb\n")}); err != nil || !slices.Equal(c.Tokens, []Secret{"a", "b"}) {
		t.Errorf("%d secrets, %v", len(c.Tokens), err)
	}
	for file, says := range map[string]string{
		dir: "not a regular file", "/dev/zero": "not a regular file", path("huge", strings.Repeat("x", maxSecretFile+1)): "longer than 64KiB",
	} {
		_, err := ConfigFromEnv([]string{"TICKETING_TOKEN_FILE=" + file})
		if p := problemsOf(t, err); len(p) != 1 || !strings.Contains(p[0], says) {
			t.Errorf("%s: %q", file, p)
		}
	}
	if os.Geteuid() == 0 {
		t.Log("as root every file is readable: one that is not is left out")
		return
	}
	secret := path("unreadable", "x")
	os.Chmod(secret, 0)
	_, err := ConfigFromEnv([]string{"TICKETING_TOKEN_FILE=" + secret})
	if p := problemsOf(t, err); len(p) != 1 || !strings.Contains(p[0], "permission denied") {
		t.Errorf("unreadable: %q", p)
	}
}

func TestReloadSecrets(t *testing.T) {
	files := map[string]string{"/t": "one\n", "/a": "admin\n"}
	c, err := configFromEnv([]string{"TICKETING_TOKEN_FILE=/t", "TICKETING_ADMIN_TOKEN_FILE=/a"}, secretFiles(files))
	if err != nil {
		t.Fatal(err)
	}
	files["/t"] = "one\ntwo\n"
	if err := c.reloadSecrets(secretFiles(files)); err != nil || !slices.Equal(c.Tokens, []Secret{"one", "two"}) {
		t.Errorf("after a rotation: %d secrets, %v", len(c.Tokens), err)
	}
	files["/t"] = "three\n"
	delete(files, "/a")
	err = c.reloadSecrets(secretFiles(files))
	if p := problemsOf(t, err); len(p) != 1 || !strings.Contains(p[0], `TICKETING_ADMIN_TOKEN_FILE="/a"`) {
		t.Errorf("with a file that is missing: %q", p)
	}
	if !slices.Equal(c.Tokens, []Secret{"one", "two"}) || c.AdminToken != "admin" {
		t.Error("half of the secrets were replaced")
	}

	// What the environment itself holds cannot change.
	c, _ = ConfigFromEnv([]string{"TICKETING_TOKEN=fixed"})
	if err := c.ReloadSecrets(); err != nil || !slices.Equal(c.Tokens, []Secret{"fixed"}) {
		t.Errorf("from the environment: %d secrets, %v", len(c.Tokens), err)
	}
}

// Rotation must not weaken what a start would have refused.
func TestReloadSecretsChecksAgain(t *testing.T) {
	files := map[string]string{"/t": longSecret}
	c, err := configFromEnv([]string{"TICKETING_LISTEN=:5225", "TICKETING_TOKEN_FILE=/t"}, secretFiles(files))
	if err != nil {
		t.Fatal(err)
	}
	files["/t"] = "short"
	err = c.reloadSecrets(secretFiles(files))
	if p := problemsOf(t, err); len(p) != 1 || !strings.Contains(p[0], "too short") {
		t.Errorf("a short secret: %q", p)
	}
	if !slices.Equal(c.Tokens, []Secret{longSecret}) {
		t.Error("the short secret is in force")
	}
}

func TestClientVariablesAreIgnored(t *testing.T) {
	var env []string
	for _, name := range clientVariables() {
		env = append(env, name+"=anything")
	}
	if _, err := ConfigFromEnv(env); err != nil {
		t.Error(err)
	}
}

func FuzzConfigFromEnv(f *testing.F) {
	f.Add("TICKETING_LISTEN=:5225\nTICKETING_TOKEN_FILE=/f", "one\ntwo\r\n")
	f.Add("TICKETING_MAX_BUFFERED=1GiB\nTICKETING_IDLE_TIMEOUT=1h\nTICKETING_WRONG", "")
	f.Add("TICKETING_TOKEN=s3cr3t-marker-0123456789,\nTICKETING_ADMIN_LISTEN=[::1%eth0]:1", "x")
	f.Add("TICKETING_PEERS=a:1,b:2\nTICKETING_JOIN=tkj1.a.b\nTICKETING_SEAT=3", "x")
	f.Fuzz(func(t *testing.T, environ, file string) {
		read := secretFiles(map[string]string{"/f": file})
		c, err := configFromEnv(strings.Split(environ, "\n"), read)
		var described strings.Builder
		c.Describe(&described, time.Now())
		if err != nil {
			if p := problemsOf(t, err); len(p) == 0 {
				t.Fatal("an error without a problem")
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("accepted, and then refused: %v", err)
		}
		// What is described reads back as the same configuration.
		again := DefaultConfig()
		texts := c.variables()
		for i, v := range again.variables() {
			if _, secret := v.value.(secretValue); secret || texts[i].value.String() == "" {
				continue
			}
			if err := v.value.parse(texts[i].value.String()); err != nil {
				t.Fatalf("%s=%q does not read back: %v", v.name, texts[i].value, err)
			}
			if got, want := v.value.String(), texts[i].value.String(); got != want {
				t.Fatalf("%s=%q reads back as %q", v.name, want, got)
			}
		}
		if strings.Contains(described.String(), "s3cr3t-marker") {
			t.Fatalf("a secret shows:\n%s", described.String())
		}
	})
}
