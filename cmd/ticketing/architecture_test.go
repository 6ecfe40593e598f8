package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestArchitecture holds the rules of docs/architecture.md against the whole module. It is policy: a finding
// is answered by changing the code, not the tables in architecture_policy_test.go.
func TestArchitecture(t *testing.T) {
	root := filepath.Join("..", "..")
	tree, err := loadTree(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.packages) == 0 {
		t.Fatal("no package found: the test would pass without looking at anything")
	}
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}

	t.Run("modules", func(t *testing.T) { report(t, checkModules(string(goMod))) })
	t.Run("file names and leftovers", func(t *testing.T) {
		for _, file := range tree.texts {
			report(t, checkFileName(file.path))
			report(t, checkLeftovers(file.path, file.text))
		}
	})
	for _, p := range tree.packages {
		t.Run(p.dir, func(t *testing.T) {
			report(t, checkImports(p))
			report(t, checkDocs(p))
			report(t, checkCalls(p))
			report(t, checkGlobals(p))
			if pure[p.dir] {
				report(t, checkPurity(p))
			}
		})
	}
}

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(strings.TrimPrefix(p, "../../"))
	}
}
