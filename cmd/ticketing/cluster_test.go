package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestPeersHaveADefaultPort(t *testing.T) {
	peers := []string{"10.0.0.1", "node", "::1", "[::1]", "node:7", "[::1]:7"}
	want := []string{"10.0.0.1:5325", "node:5325", "[::1]:5325", "[::1]:5325", "node:7", "[::1]:7"}
	if err := checkPeers(peers); err != nil || !slices.Equal(peers, want) {
		t.Errorf("%q, %v; want %q", peers, err, want)
	}
	for _, wrong := range []string{"a b", "node:", "node:x", "0.0.0.0"} {
		if err := checkPeers([]string{wrong}); err == nil || !strings.Contains(err.Error(), strconv.Quote(wrong)) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// Secrets are split as the nodes split them: one in a file may hold a comma.
func TestClusterSecretsAreReadAsNodesReadThem(t *testing.T) {
	const first, second = "the first, of 16 bytes", "the second of 16 bytes"
	path := filepath.Join(t.TempDir(), "secret")
	for name, test := range map[string]struct {
		variable, file string
		want           string // with | between them
		code           int
	}{
		"one":                   {variable: second, want: second},
		"two":                   {variable: second + "," + second, want: second + "|" + second},
		"an empty one":          {variable: second + ",", code: exitConfig},
		"a short one":           {variable: "short", code: exitConfig},
		"none":                  {code: exitConfig},
		"a file":                {file: first + "\n", want: first},
		"a file of two":         {file: first + "\r\n" + second + "\r\n", want: first + "|" + second},
		"a file without an end": {file: first + "\n" + second, want: first + "|" + second},
		"a file, short":         {file: first + "\nshort\n", code: exitConfig},
	} {
		p := &process{environ: []string{"TICKETING_CLUSTER_SECRET=" + test.variable}}
		if test.file != "" {
			if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			p.environ = []string{"TICKETING_CLUSTER_SECRET_FILE=" + path}
		}
		secrets, err := p.clusterSecrets()
		var got []string
		for _, s := range secrets {
			got = append(got, string(s))
		}
		if strings.Join(got, "|") != test.want || exitCode(err) != test.code || err != nil && !strings.Contains(err.Error(), "TICKETING_CLUSTER_SECRET") {
			t.Errorf("%s: %q, exit code %d, %v", name, got, exitCode(err), err)
		}
	}
}
