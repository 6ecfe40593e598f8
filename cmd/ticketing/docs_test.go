package main

import (
	"bytes"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ticketing.internal/wire"
)

// readTree returns the files below the repository's root that pattern matches by base name.
func readTree(t *testing.T, pattern string) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if ok, _ := filepath.Match(pattern, entry.Name()); !ok {
			return nil
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no file matches %s", pattern)
	}
	return files
}

// anchors are the names by which the headings of a page can be linked to.
func anchors(page string) (names []string) {
	drop := regexp.MustCompile(`[^a-z0-9 _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		names = append(names, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}

func TestDocumentationLinksLeadSomewhere(t *testing.T) {
	pages := readTree(t, "*.md")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for path, page := range pages {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			} else if anchor != "" && !slices.Contains(anchors(pages[target]), anchor) {
				t.Errorf("%s links to %s, which has no such heading", path, m[1])
			}
		}
	}
}

// variables are the TICKETING_ names in text. One that names the file of a secret counts as the secret; a mere beginning, as in
// TICKETING_TLS_*, is none.
func variables(text string) map[string]bool {
	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`TICKETING_[A-Z_]+`).FindAllString(text, -1) {
		if !strings.HasSuffix(name, "_") {
			names[strings.TrimSuffix(name, "_FILE")] = true
		}
	}
	return names
}

func TestOperationsNamesEveryVariableAndCommand(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := variables(string(page))
	known := map[string]bool{}
	for path, source := range readTree(t, "*.go") {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, filepath.Join("..", "..", "interop")) {
			continue
		}
		for name := range variables(source) {
			known[name] = true
			if !documented[name] {
				t.Errorf("%s knows %s; docs/operations.md does not", path, name)
			}
		}
	}
	for name := range documented {
		if !known[name] {
			t.Errorf("docs/operations.md names %s, which nothing reads", name)
		}
	}
	for _, name := range commandNames() {
		if !strings.Contains(string(page), "`ticketing "+name) {
			t.Errorf("docs/operations.md does not name the command %s", name)
		}
	}
}

// TestProtocolExamples holds the bytes of docs/protocol.md against the codec. Its indented lines of hex are, in this order,
// an acquire, its grant, the release, its reply; of v1, then of v0.
func TestProtocolExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("order-1234")
	const token = 0x000100000000002a
	want := [][]byte{
		wire.AppendRequest(nil, &wire.Request{Op: wire.OpAcquire, Wait: 5000, Lease: 30000, Owner: 7, Key: key}),
		wire.AppendReply(nil, &wire.Reply{Op: wire.OpGranted, Millis: 3, Owner: 7, Token: token}),
		wire.AppendRequest(nil, &wire.Request{Op: wire.OpRelease, Owner: 7, Token: token, Key: key}),
		wire.AppendReply(nil, &wire.Reply{Op: wire.OpReleased, Owner: 7, Token: token}),
		wire.AppendLegacyRequest(nil, &wire.LegacyRequest{Op: wire.OpAcquire, WaitSeconds: 5, LeaseSeconds: 30, Key: key}),
		wire.AppendLegacyReply(nil, &wire.LegacyReply{Op: wire.OpGranted, Token: token, Text: key}),
		wire.AppendLegacyRequest(nil, &wire.LegacyRequest{Op: wire.OpRelease, Key: key}),
		wire.AppendLegacyReply(nil, &wire.LegacyReply{Op: wire.OpReleased, Text: key}),
	}
	lines := regexp.MustCompile(`(?m)^    [0-9a-f][0-9a-f ]+$`).FindAll(page, -1)
	if len(lines) != len(want) {
		t.Fatalf("%d lines of hex, want %d", len(lines), len(want))
	}
	for i, line := range lines {
		got, err := hex.DecodeString(strings.ReplaceAll(string(line), " ", ""))
		if err != nil || !bytes.Equal(got, want[i]) {
			t.Errorf("line %d: %s (%v), want %x", i+1, bytes.TrimSpace(line), err, want[i])
		}
	}
}
