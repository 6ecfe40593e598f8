package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// secretValue is a variable whose content is never shown, and which a file can hold instead: one secret, or a list of them.
type secretValue struct {
	one    *Secret   // nil for a list
	list   *[]Secret // nil for one
	file   *string   // the file that they came from
	min    int       // bytes of each
	prefix string    // of a credential
}

// parse reads the content of the variable itself.
func (v secretValue) parse(text string) error {
	*v.file = ""
	if v.one != nil {
		return v.take([]string{text})
	}
	return v.take(strings.Split(text, ","))
}

// load reads the content of the file that the variable X_FILE names.
func (v secretValue) load(path string, read fileReader) error {
	content, err := read(path)
	if err != nil {
		return fmt.Errorf("%w; a readable file with %s is allowed", err, v.lines())
	}
	lines := splitSecrets(string(content))
	if len(lines) == 0 || v.one != nil && len(lines) > 1 {
		return fmt.Errorf("%d lines; a file with %s is allowed", len(lines), v.lines())
	}
	if err := v.take(lines); err != nil {
		return err
	}
	*v.file = path
	return nil
}

func (v secretValue) lines() string {
	if v.one != nil {
		return "one line"
	}
	return "one secret a line"
}

// take stores secrets, none of which may be empty.
func (v secretValue) take(texts []string) error {
	secrets := make([]Secret, len(texts))
	for i, text := range texts {
		if text == "" {
			return fmt.Errorf("secret %d of %d is empty; at least one byte each is allowed", i+1, len(texts))
		}
		secrets[i] = Secret(text)
	}
	if v.one != nil {
		*v.one = secrets[0]
	} else {
		*v.list = secrets
	}
	return nil
}

func (v secretValue) secrets() []Secret {
	switch {
	case v.list != nil:
		return *v.list
	case *v.one != "":
		return []Secret{*v.one}
	}
	return nil
}

func (v secretValue) check() error {
	secrets := v.secrets()
	for i, s := range secrets {
		switch {
		case s == "":
			return fmt.Errorf("secret %d of %d is empty; at least one byte each is allowed", i+1, len(secrets))
		case len(s) < v.min:
			return fmt.Errorf("secret %d of %d is too short; at least %d bytes each are allowed", i+1, len(secrets), v.min)
		case !isCredential(string(s), v.prefix):
			return fmt.Errorf("a credential %s<payload>.<mac> is allowed", v.prefix)
		}
	}
	return nil
}

// isCredential reports whether text has the form of a credential that begins with prefix; the empty prefix asks for none.
func isCredential(text, prefix string) bool {
	if prefix == "" {
		return true
	}
	body, ok := strings.CutPrefix(text, prefix)
	payload, mac, found := strings.Cut(body, ".")
	return ok && found && payload != "" && mac != "" && !strings.Contains(mac, ".")
}

// String says how many secrets there are, and where they came from.
func (v secretValue) String() string {
	n := len(v.secrets())
	if n == 0 {
		return ""
	}
	text := maskedSecret
	if n > 1 {
		text = fmt.Sprintf("(%d secrets)", n)
	}
	if *v.file != "" {
		text += fmt.Sprintf(" from %q", *v.file)
	}
	return text
}

// splitSecrets takes the lines of a file, without the LF or CRLF that ends each.
func splitSecrets(content string) (lines []string) {
	for content != "" {
		line, rest, ended := strings.Cut(content, "\n")
		if ended {
			line = strings.TrimSuffix(line, "\r")
		}
		lines = append(lines, line)
		content = rest
	}
	return lines
}

// fileReader returns the content of a secret's file.
type fileReader func(path string) ([]byte, error)

// maxSecretFile is more than any list of secrets needs, in bytes.
const maxSecretFile = 64 << 10

// readSecretFile is fileReader on real files. It takes regular files only: a pipe would hold the start up, and be empty at the
// next reading.
func readSecretFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if len(content) > maxSecretFile {
		return nil, fmt.Errorf("longer than %s", formatSize(maxSecretFile))
	}
	return content, nil
}

// withoutPath drops the path from err, which the message around it names already.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// ReloadSecrets reads the secrets that came from files again. On an error, which names what is wrong, c stays as it is.
func (c *Config) ReloadSecrets() error { return c.reloadSecrets(readSecretFile) }

func (c *Config) reloadSecrets(read fileReader) error {
	fresh := *c
	problems := &ConfigError{}
	for _, v := range fresh.variables() {
		s, ok := v.value.(secretValue)
		// A credential counts at the start alone, and its file may well be gone.
		if !ok || *s.file == "" || s.prefix != "" {
			continue
		}
		if err := s.load(*s.file, read); err != nil {
			problems.add("%s_FILE=%q: %v", v.name, *s.file, err)
		}
	}
	fresh.checkAll(problems)
	if err := problems.orNil(); err != nil {
		return err
	}
	*c = fresh
	return nil
}
