package server

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

const variablePrefix = "TICKETING_"

// ConfigFromEnv reads the configuration from environ, entries NAME=value as os.Environ returns them. An empty value counts as not
// set. The error is a *ConfigError with everything that is wrong.
func ConfigFromEnv(environ []string) (Config, error) {
	c, err := configFromEnv(environ, readSecretFile)
	problems := &ConfigError{}
	errors.As(err, &problems)
	c.checkCertificates(problems)
	return c, problems.orNil()
}

func configFromEnv(environ []string, read fileReader) (Config, error) {
	c := DefaultConfig()
	problems := &ConfigError{}
	env := environment(environ)
	known := clientVariables()
	for _, v := range c.variables() {
		given := c.readVariable(v, env, read, problems)
		if v.cluster && given {
			c.Cluster.given = append(c.Cluster.given, v.name)
		}
		known = append(known, v.name)
		if _, ok := v.value.(secretValue); ok {
			known = append(known, v.name+"_FILE")
		}
	}
	for _, name := range env.names() {
		if !slices.Contains(known, name) {
			problems.add("%q: unknown variable; %s", name, hint(name, known))
		}
	}
	c.readServiceManager(env)
	c.checkAll(problems)
	return c, problems.orNil()
}

// readVariable sets the field of v from the environment, and reports whether it was given.
func (c *Config) readVariable(v variable, env settings, read fileReader, problems *ConfigError) (given bool) {
	text := env[v.name]
	secret, isSecret := v.value.(secretValue)
	if !isSecret {
		if text == "" {
			return false
		}
		if err := v.value.parse(text); err != nil {
			problems.add("%s=%q: %v", v.name, text, err)
		}
		return true
	}
	path := env[v.name+"_FILE"]
	switch {
	case text != "" && path != "":
		problems.add("%s and %s_FILE=%q: both are set; one of them is allowed", v.name, v.name, path)
	case text != "":
		if err := secret.parse(text); err != nil {
			problems.add("%s: %v", v.name, err)
		}
	case path != "":
		if err := secret.load(path, read); err != nil {
			problems.add("%s_FILE=%q: %v", v.name, path, err)
		}
	default:
		return false
	}
	return true
}

// readServiceManager reads what systemd passes. A value that does not parse is ignored: it is no reason not to start.
func (c *Config) readServiceManager(env settings) {
	c.NotifySocket = env["NOTIFY_SOCKET"]
	if us, err := strconv.ParseUint(env["WATCHDOG_USEC"], 10, 40); err == nil {
		c.Watchdog = time.Duration(us) * time.Microsecond
	}
}

// settings are the variables of an environment that are not empty.
type settings map[string]string

// environment takes environ apart. Of a name that is there twice the first counts, as it does for getenv(3).
func environment(environ []string) settings {
	env := settings{}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if _, twice := env[name]; !twice && text != "" {
			env[name] = text
		}
	}
	return env
}

// names are those of the variables that are meant for this program, in order.
func (s settings) names() (names []string) {
	for name := range s {
		if strings.HasPrefix(name, variablePrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
