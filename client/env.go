package client

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"ticketing.internal/tlsconf"
)

// FromEnv returns a Config from the environment:
//
//	TICKETING_ADDRS                the servers, comma-separated; default 127.0.0.1:5225
//	TICKETING_TOKEN, _TOKEN_FILE   the secret; of several (comma-separated, in the file one a line) the first
//	TICKETING_NAME                 Config.Name
//	TICKETING_TLS_CA               PEM file of the authorities that the servers' certificates come from
//	TICKETING_TLS_CLIENT_CERT, _KEY   PEM files of this client's certificate
//	TICKETING_TLS_INSECURE         yes: the server's certificate is not checked (the token still is)
//
// Any of the variables of TLS turns it on. Errors name the variable, never a secret, all of them at once, and wrap
// ErrInvalid.
func FromEnv() (Config, error) { return fromEnv(os.LookupEnv, os.ReadFile) }

func fromEnv(lookup func(string) (string, bool), readFile func(string) ([]byte, error)) (Config, error) {
	var problems []error
	invalid := func(name, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %w: "+format, append([]any{name, ErrInvalid}, args...)...))
	}
	get := func(name string) string {
		value, _ := lookup(name)
		return value
	}

	cfg := Config{Addrs: []string{"127.0.0.1:" + defaultPort}, Name: get("TICKETING_NAME")}
	if list := get("TICKETING_ADDRS"); list != "" {
		cfg.Addrs = strings.Split(list, ",")
		for i, a := range cfg.Addrs {
			cfg.Addrs[i] = strings.TrimSpace(a)
			if _, err := address(cfg.Addrs[i]); err != nil {
				invalid("TICKETING_ADDRS", "%q: %v", a, err)
			}
		}
	}

	token, inline := lookup("TICKETING_TOKEN")
	cfg.Token, _, _ = strings.Cut(token, ",")
	if file, ok := lookup("TICKETING_TOKEN_FILE"); ok {
		content, err := readFile(file)
		switch {
		case inline:
			invalid("TICKETING_TOKEN_FILE", "TICKETING_TOKEN is set too; set one of the two")
		case err != nil:
			invalid("TICKETING_TOKEN_FILE", "%v", err)
		default:
			line, _, _ := strings.Cut(string(content), "\n")
			cfg.Token = strings.TrimSuffix(line, "\r")
		}
	}

	options := tlsconf.ClientOptions{
		CA:   get("TICKETING_TLS_CA"),
		Cert: get("TICKETING_TLS_CLIENT_CERT"),
		Key:  get("TICKETING_TLS_CLIENT_KEY"),
	}
	switch v := get("TICKETING_TLS_INSECURE"); v {
	case "", "no":
	case "yes":
		options.Insecure = true
	default:
		invalid("TICKETING_TLS_INSECURE", "%q: want yes or no", v)
	}
	if (options.Cert == "") != (options.Key == "") {
		invalid("TICKETING_TLS_CLIENT_CERT", "certificate and TICKETING_TLS_CLIENT_KEY go together; set both or neither")
	} else if options != (tlsconf.ClientOptions{}) {
		var err error
		if cfg.TLS, err = tlsconf.NewClient(options); err != nil {
			invalid("TICKETING_TLS_CA, TICKETING_TLS_CLIENT_CERT, TICKETING_TLS_CLIENT_KEY", "%v", err)
		}
	}
	return cfg, errors.Join(problems...)
}
