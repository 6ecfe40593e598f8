package client

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"ticketing.internal/wire"
)

func TestAddresses(t *testing.T) {
	tests := map[string]string{ // "" for an error
		"host:1234":         "host:1234",
		"host":              "host:5225",
		"10.0.0.1":          "10.0.0.1:5225",
		"10.0.0.1:1":        "10.0.0.1:1",
		"::1":               "[::1]:5225",
		"[::1]":             "[::1]:5225",
		"[::1]:7000":        "[::1]:7000",
		"fe80::1%eth0":      "[fe80::1%eth0]:5225",
		"[fe80::1%eth0]:80": "[fe80::1%eth0]:80",
		"":                  "",
		":5225":             "",
		"host:0":            "",
		"host:65536":        "",
		"host:http":         "",
		"a:b:c":             "",
		"http://host:80":    "",
		"a b:1":             "",
		"::1:":              "",
	}
	for in, want := range tests {
		got, err := address(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q gives %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestConfigProblemsAreToldAtOnce(t *testing.T) {
	_, err := New(Config{
		Addrs:  []string{"host:99999", "ok:1", "a b"},
		Name:   "two\nlines",
		Domain: "0123",
	})
	if !errors.Is(err, ErrInvalid) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{`"host:99999"`, `"a b"`, `"two\nlines"`, `"0123"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := New(Config{}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "no address") {
		t.Errorf("without addresses: %v", err)
	}
	for _, bad := range []string{strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("g", 32), strings.Repeat("0", 64)} {
		if _, err := New(Config{Addrs: []string{"a"}, Domain: bad}); !errors.Is(err, ErrInvalid) {
			t.Errorf("domain %q: %v", bad, err)
		}
	}
	if _, err := New(Config{Addrs: []string{"a"}, Name: strings.Repeat("n", 65)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a name of 65 bytes: %v", err)
	}
}

func TestSettings(t *testing.T) {
	s, err := newSettings(Config{Addrs: []string{"a", "a:5225", "b:1", "a"}, Domain: strings.Repeat("0F", 16)})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.addrs, []string{"a:5225", "b:1"}) {
		t.Errorf("addresses %q", s.addrs)
	}
	if s.domain.String() != strings.Repeat("0f", 16) {
		t.Errorf("domain %v", s.domain)
	}
	if !wire.ValidName(s.name) || !strings.Contains(string(s.name), "@") || !strings.HasSuffix(string(s.name), "]") {
		t.Errorf("default name %q", s.name)
	}
}

func TestDefaultNameFits(t *testing.T) {
	args := os.Args
	defer func() { os.Args = args }()
	for _, program := range []string{"", strings.Repeat("p", 200), "/bin/" + strings.Repeat("ä", 100), "a\x01b", "a\xff"} {
		os.Args = []string{program}
		if name := defaultName(); !wire.ValidName(name) || len(name) == 0 {
			t.Errorf("program %q gives name %q", program, name)
		}
	}
	os.Args = nil
	if name := defaultName(); !wire.ValidName(name) {
		t.Errorf("no program gives name %q", name)
	}
}

func TestFromEnv(t *testing.T) {
	files := map[string]string{"/token": "first\r\nsecond\n", "/empty": ""}
	read := func(name string) ([]byte, error) {
		if content, ok := files[name]; ok {
			return []byte(content), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	tests := []struct {
		name string
		env  map[string]string
		want func(Config) bool
		errs []string // what the error must name; nil for none
	}{
		{name: "nothing set", want: func(c Config) bool {
			return slices.Equal(c.Addrs, []string{"127.0.0.1:5225"}) && c.Token == "" && c.Name == "" && c.TLS == nil
		}},
		{name: "everything of plaintext", env: map[string]string{
			"TICKETING_ADDRS": "a:1, b , [::1]:3", "TICKETING_TOKEN": "secret", "TICKETING_NAME": "me"},
			want: func(c Config) bool {
				return slices.Equal(c.Addrs, []string{"a:1", "b", "[::1]:3"}) && c.Token == "secret" && c.Name == "me"
			}},
		{name: "a server's list of tokens", env: map[string]string{"TICKETING_TOKEN": "new,old"},
			want: func(c Config) bool { return c.Token == "new" }},
		{name: "a file", env: map[string]string{"TICKETING_TOKEN_FILE": "/token"},
			want: func(c Config) bool { return c.Token == "first" }},
		{name: "an empty file", env: map[string]string{"TICKETING_TOKEN_FILE": "/empty"},
			want: func(c Config) bool { return c.Token == "" }},
		{name: "insecure TLS", env: map[string]string{"TICKETING_TLS_INSECURE": "yes"},
			want: func(c Config) bool { return c.TLS != nil && c.TLS.InsecureSkipVerify }},
		{name: "TLS said no", env: map[string]string{"TICKETING_TLS_INSECURE": "no"}, want: func(c Config) bool { return c.TLS == nil }},
		{name: "both tokens", env: map[string]string{"TICKETING_TOKEN": "hush", "TICKETING_TOKEN_FILE": "/token"},
			errs: []string{"TICKETING_TOKEN_FILE"}},
		{name: "several problems", env: map[string]string{
			"TICKETING_ADDRS": "a:99999", "TICKETING_TOKEN_FILE": "/none", "TICKETING_TLS_CA": "/none.pem", "TICKETING_TLS_INSECURE": "perhaps"},
			errs: []string{"TICKETING_ADDRS", "TICKETING_TOKEN_FILE", "TICKETING_TLS_CA", "TICKETING_TLS_INSECURE"}},
		{name: "a certificate without a key", env: map[string]string{"TICKETING_TLS_CLIENT_CERT": "/c.pem"},
			errs: []string{"TICKETING_TLS_CLIENT_KEY"}},
		{name: "an empty address", env: map[string]string{"TICKETING_ADDRS": "a:1,"}, errs: []string{"TICKETING_ADDRS"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lookup := func(name string) (string, bool) {
				v, ok := tt.env[name]
				return v, ok
			}
			cfg, err := fromEnv(lookup, read)
			if tt.errs == nil {
				if err != nil || !tt.want(cfg) {
					t.Errorf("got %+v, %v", cfg, err)
				}
				return
			}
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v", err)
			}
			for _, name := range tt.errs {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%v does not name %s", err, name)
				}
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("%v holds a secret", err)
			}
		})
	}
}

func TestFromEnvReadsTheEnvironment(t *testing.T) {
	t.Setenv("TICKETING_ADDRS", "here:1")
	if cfg, err := FromEnv(); err != nil || !slices.Equal(cfg.Addrs, []string{"here:1"}) {
		t.Errorf("got %+v, %v", cfg, err)
	}
}
