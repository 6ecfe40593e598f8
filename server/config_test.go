package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestSecretsDoNotShow(t *testing.T) {
	c := DefaultConfig()
	c.Tokens, c.AdminToken = []Secret{"hunter2hunter2", "hunter3hunter3"}, "hunter4hunter4"
	c.Cluster.Secrets = []Secret{"hunter5hunter5"}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%08b"} {
		fmt.Fprintf(&out, verb+"\n", c)
		fmt.Fprintf(&out, verb+"\n", c.AdminToken)
		fmt.Fprintf(&out, verb+"\n", &c.AdminToken)
	}
	json.NewEncoder(&out).Encode(c)
	for _, format := range []string{"text", "json"} {
		NewLogger(&out, "info", format).Info("configured", "config", c, "token", c.AdminToken, "tokens", c.Tokens)
	}
	c.Describe(&out, time.Now())
	shown := strings.ToLower(out.String())
	for _, leak := range []string{"hunter", fmt.Sprintf("%x", "hunter"), "aHVudGVy", "104 117 110"} {
		if strings.Contains(shown, strings.ToLower(leak)) {
			t.Errorf("%q shows in\n%s", leak, shown)
		}
	}
}

func TestDescribe(t *testing.T) {
	c, err := configFromEnv([]string{"TICKETING_LISTEN=:5225", "TICKETING_TOKEN_FILE=/run/token", "TICKETING_MAX_KEYS=10", "TICKETING_ADMIN_LISTEN=off"},
		secretFiles(map[string]string{"/run/token": longSecret + "\n" + longSecret}))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.Describe(&out, time.Now())
	lines := strings.Split(out.String(), "\n")
	for _, want := range []string{
		"TICKETING_LISTEN :5225",
		"TICKETING_ADVERTISE :5225 (default)",
		`TICKETING_TOKEN (2 secrets) from "/run/token"`,
		"TICKETING_ADMIN_TOKEN - (default)",
		"TICKETING_ADMIN_LISTEN off",
		"TICKETING_MAX_BUFFERED 256MiB (default)",
		"TICKETING_IDLE_TIMEOUT 20s (default)",
		"TICKETING_MAX_KEYS 10",
	} {
		found := false
		for _, line := range lines {
			found = found || strings.Join(strings.Fields(line), " ") == want
		}
		if !found {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "SEAT") {
		t.Errorf("a standalone server is described with a seat:\n%s", out.String())
	}
}

func TestWarnings(t *testing.T) {
	const stateDir = "TICKETING_STATE_DIR=/var/lib/ticketing"
	for name, test := range map[string]struct {
		env  []string
		want []string
	}{
		"the defaults":        {nil, []string{"no TICKETING_STATE_DIR"}},
		"all well":            {[]string{stateDir, "TICKETING_TOKEN=" + longSecret}, nil},
		"a short token":       {[]string{stateDir, "TICKETING_TOKEN=x"}, []string{"secret 1 of 1 is shorter than 16 bytes"}},
		"a short admin token": {[]string{stateDir, "TICKETING_ADMIN_TOKEN=x"}, []string{"TICKETING_ADMIN_TOKEN is shorter"}},
		"plaintext outside": {[]string{stateDir, "TICKETING_LISTEN=:1", "TICKETING_TOKEN=" + longSecret},
			[]string{"TICKETING_LISTEN=:1 is plaintext", "v0"}},
		"plaintext admin outside": {[]string{stateDir, "TICKETING_ADMIN_LISTEN=:1", "TICKETING_ADMIN_TOKEN=" + longSecret},
			[]string{"TICKETING_ADMIN_LISTEN=:1 is plaintext"}},
		"TLS outside": {[]string{stateDir, "TICKETING_LISTEN=:1", "TICKETING_TOKEN=" + longSecret, "TICKETING_TLS_CERT=/c", "TICKETING_TLS_KEY=/k"},
			[]string{"v0"}},
		"TLS outside, no v0": {[]string{stateDir, "TICKETING_LISTEN=:1", "TICKETING_TOKEN=" + longSecret, "TICKETING_TLS_CERT=/c", "TICKETING_TLS_KEY=/k",
			"TICKETING_LEGACY=off"}, nil},
		"no token outside": {[]string{stateDir, "TICKETING_LISTEN=:1", "TICKETING_ALLOW_EMPTY_TOKEN=yes", "TICKETING_LEGACY=off"},
			[]string{"is plaintext", "there is no TICKETING_TOKEN"}},
	} {
		c, err := configFromEnv(test.env, secretFiles(nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := c.Warnings()
		ok := len(got) == len(test.want)
		for i := range min(len(got), len(test.want)) {
			ok = ok && strings.Contains(got[i], test.want[i]) && !strings.Contains(got[i], "\n")
		}
		if !ok {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
}

func TestExitCode(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"none":              {nil, 0},
		"any":               {errors.New("listen: address already in use"), 1},
		"configuration":     {fmt.Errorf("starting: %w", &ConfigError{Problems: []string{"x"}}), 78},
		"directory in use":  {fmt.Errorf("starting: %w", newStateError("/d", "open", errStateLocked)), 78},
		"disk full":         {newStateError("/d", "write", wire.BusyOverloaded), 1},
		"several, one of 1": {errors.Join(errors.New("x"), &ConfigError{Problems: []string{"x"}}), 78},
	} {
		if got := ExitCode(test.err); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestConfigErrorListsItsProblems(t *testing.T) {
	one, two := &ConfigError{Problems: []string{"a"}}, &ConfigError{Problems: []string{"a", "b"}}
	if one.Error() != "configuration: a" || two.Error() != "configuration: 2 problems:\n  a\n  b" {
		t.Errorf("%q, %q", one, two)
	}
}

func TestValidateOfAConfigMadeByHand(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	c.Listen, c.MaxKeys, c.Tokens, c.Advertise, c.LogLevel = "", 0, []Secret{"a", ""}, strings.Repeat("a", 252)+":123", ""
	problems := problemsOf(t, c.Validate())
	for _, name := range []string{"TICKETING_LISTEN", "TICKETING_MAX_KEYS", "TICKETING_TOKEN", "TICKETING_ADVERTISE", "TICKETING_LOG_LEVEL"} {
		if !strings.Contains(strings.Join(problems, "\n"), name) {
			t.Errorf("%s is not named in %q", name, problems)
		}
	}
}

var _ slog.Handler = adminTrouble{}
