package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// variable returns the value of an environment variable, "" if it is not set.
func (p *process) variable(name string) string {
	for _, e := range p.environ {
		if n, value, ok := strings.Cut(e, "="); ok && n == name {
			return value
		}
	}
	return ""
}

// secret returns the value of a variable, or else the content of the file that the variable name_FILE names.
func (p *process) secret(name string) (string, error) {
	value, path := p.variable(name), p.variable(name+"_FILE")
	if path == "" {
		return value, nil
	}
	if value != "" {
		return "", withExit(exitConfig, fmt.Errorf("%s and %s_FILE are both set: unset one", name, name))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", withExit(exitConfig, fmt.Errorf("reading %s_FILE: %w", name, err))
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

// withoutVariables returns environ without the named variables.
func withoutVariables(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}
