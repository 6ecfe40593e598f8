package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// .ci/fuzz must fail on every finding, and must not fail when Go before 1.27 reports the end of -fuzztime as one
// (golang.org/issue/75804). A `go` that says what the real one has said stands in for it.
func TestFuzzScript(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	for _, tc := range []struct {
		name, output string
		passes       bool
	}{
		{"the end of the time", `fuzz: elapsed: 20s, execs: 720295 (36245/sec), new interesting: 1 (total: 169)
--- FAIL: FuzzA (20.03s)
    context deadline exceeded
FAIL
exit status 1
FAIL	example.test/a	20.051s
`, true},
		{"a finding that speaks of a deadline", `fuzz: elapsed: 0s, execs: 12 (0/sec), new interesting: 1 (total: 169)
--- FAIL: FuzzA (0.03s)
    --- FAIL: FuzzA (0.00s)
        a_test.go:3: context deadline exceeded
    
    Failing input written to testdata/fuzz/FuzzA/582528ddfad69eb5
FAIL
exit status 1
FAIL	example.test/a	0.051s
`, false},
		{"an input that hangs", `--- FAIL: FuzzA (10.03s)
    fuzzing process hung or terminated unexpectedly: exit status 2
    Failing input written to testdata/fuzz/FuzzA/582528ddfad69eb5
FAIL
exit status 1
FAIL	example.test/a	10.051s
`, false},
		{"a package that does not build", "FAIL	example.test/a [build failed]\nFAIL\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, content string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			write("said", tc.output)
			write("go", `#!/bin/sh
case "$*" in
"test -list"*) printf 'FuzzA\nok example.test/a 0.1s\n' ;;
*) cat "$(dirname "$0")/said"; exit 1 ;;
esac
`)
			cmd := exec.Command(bash, "../../.ci/fuzz")
			cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if passed := err == nil; passed != tc.passes {
				t.Errorf("passed: %v (%v), want %v; it printed:\n%s", passed, err, tc.passes, out)
			}
			if said := strings.Contains(string(out), "fuzz: FAILED example.test/a FuzzA"); said == tc.passes {
				t.Errorf("names the target as failed: %v, want %v; it printed:\n%s", said, !tc.passes, out)
			}
		})
	}
}
