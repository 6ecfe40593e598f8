package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// parsePackage makes a package of one file, as loadTree would.
func parsePackage(t *testing.T, fset *token.FileSet, imports types.Importer, dir, name, src string) *goPackage {
	t.Helper()
	p := &goPackage{dir: dir, fset: fset}
	f, err := parser.ParseFile(p.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	p.files = []source{{name, f, strings.HasSuffix(name, "_test.go")}}
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	// Imports that are not there leave holes in the types, which the rules have to bear.
	config := types.Config{Importer: imports, Error: func(error) {}}
	_, _ = config.Check(dir, p.fset, []*ast.File{f}, p.info)
	p.typed = []*ast.File{f}
	return p
}

// TestArchitectureFindsBreaches proves that each rule can fail: every source breaks exactly one.
func TestArchitectureFindsBreaches(t *testing.T) {
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "source", nil)
	for _, c := range []struct {
		name  string
		check func(*goPackage) []string
		dir   string
		file  string // "x.go" unless told
		src   string
		want  string // part of the one finding; "" for none
	}{
		{name: "lock imports server", check: checkImports, dir: "lock", src: `import _ "ticketing.internal/server"`, want: "lock may not import server"},
		{name: "lock imports wire", check: checkImports, dir: "lock", src: `import _ "ticketing.internal/wire"`},
		{name: "client imports lock", check: checkImports, dir: "client", src: `import _ "ticketing.internal/lock"`, want: "client may not import lock"},
		{name: "a test of the client imports the server", check: checkImports, dir: "client", file: "x_test.go", src: `import _ "ticketing.internal/server"`},
		{name: "a test of wire imports the server", check: checkImports, dir: "wire", file: "x_test.go", src: `import _ "ticketing.internal/server"`, want: "wire may not import server"},
		{name: "package without a place", check: checkImports, dir: "cache", src: ``, want: "no place in the import order"},
		{name: "module that is not allowed", check: checkImports, dir: "server", src: `import _ "github.com/a/b"`, want: "no allowed module"},
		{name: "module with an allowed name as prefix", check: checkImports, dir: "server", src: `import _ "golang.org/x/system/unix"`, want: "no allowed module"},
		{name: "raft imports os", check: checkImports, dir: "raft", src: `import _ "os"`, want: "raft is pure and may not import os"},
		{name: "raft imports sync", check: checkImports, dir: "raft", src: `import _ "sync"`, want: "raft is pure and may not import sync"},

		{name: "goroutine", check: checkPurity, dir: "raft", src: `func f() { go f() }`, want: "no goroutine"},
		{name: "channel", check: checkPurity, dir: "raft", src: `type t struct{ c chan int }`, want: "no channel"},
		{name: "select", check: checkPurity, dir: "raft", src: `func f() { select {} }`, want: "no select"},
		{name: "clock", check: checkPurity, dir: "lock", src: `import "time"; func f() any { return time.Now() }`, want: "no clock"},
		{name: "clock as a value, package renamed", check: checkPurity, dir: "lock", src: `import t "time"; func f() any { return t.Now }`, want: "no clock"},
		{name: "timer", check: checkPurity, dir: "lock", src: `import "time"; func f() any { return time.NewTimer(1) }`, want: "no clock and no timer"},
		{name: "duration", check: checkPurity, dir: "lock", src: `import "time"; func f() time.Duration { return time.Second }`},
		{name: "global random source", check: checkPurity, dir: "raft", src: `import "math/rand/v2"; func f() int { return rand.IntN(3) }`, want: "no global random source"},
		{name: "injected random source", check: checkPurity, dir: "raft", src: `import "math/rand/v2"; func f(r *rand.Rand) int { return r.IntN(3) }`},
		{name: "hash seed of one's own", check: checkPurity, dir: "lock", src: `import "hash/maphash"; func f() any { return maphash.MakeSeed() }`, want: "no seed of one's own"},
		{name: "range over a map", check: checkPurity, dir: "lock", src: `func f(m map[int]int) { for range m {} }`, want: "no range over a map"},
		{name: "range over a named map", check: checkPurity, dir: "lock", src: `type t map[int]int; func f(m t) { for range m {} }`, want: "no range over a map"},
		{name: "range over a slice", check: checkPurity, dir: "lock", src: `func f(m []int) { for range m {} }`},

		{name: "init", check: checkGlobals, dir: "server", src: `func init() {}`, want: "no init()"},
		{name: "method named init", check: checkGlobals, dir: "server", src: `type t struct{}; func (t) init() {}`},
		{name: "variable without a value", check: checkGlobals, dir: "server", src: `var cache map[int]int`, want: "a table is written where it is declared"},
		{name: "map that is written to", check: checkGlobals, dir: "server", src: `var cache = map[int]int{}; func f() { cache[1] = 2 }`, want: "cache: it is written to"},
		{name: "map that is deleted from", check: checkGlobals, dir: "server", src: `var cache = map[int]int{1: 2}; func f() { delete(cache, 1) }`, want: "cache: it is written to"},
		{name: "counter", check: checkGlobals, dir: "server", src: `var t = struct{ n int }{}; func f() { t.n++ }`, want: "t: it is written to"},
		{name: "address taken", check: checkGlobals, dir: "server", src: `var t = [1]int{1}; func f() *int { return &t[0] }`, want: "t: it is written to"},
		{name: "pointer method", check: checkGlobals, dir: "server", src: `type m struct{}; func (*m) lock() {}; var mu = m{}; func f() { mu.lock() }`, want: "mu: it is written to"},
		{name: "pointer", check: checkGlobals, dir: "server", src: `var p = new(int)`, want: "it could be state"},
		{name: "number", check: checkGlobals, dir: "server", src: `var n = 3`, want: "make it a constant"},
		{name: "table", check: checkGlobals, dir: "server", src: `var table = map[string]int{"a": 1}; func f() int { return table["a"] }`},
		{name: "map in a pure package", check: checkGlobals, dir: "lock", src: `var table = map[int]int{1: 2}`, want: "a pure package has none but sentinel errors"},
		{name: "array in a pure package", check: checkGlobals, dir: "lock", src: `var names = [...]string{"a"}; func f() string { return names[0] }`},
		{name: "array in a pure package, sliced", check: checkGlobals, dir: "lock", src: `var names = [...]string{"a"}; func f() []string { return names[:] }`, want: "names: it is written to"},
		{name: "sentinel error", check: checkGlobals, dir: "lock", src: `import "errors"; var errA = errors.New("a")`},
		{name: "sentinel error that is replaced", check: checkGlobals, dir: "lock", src: `import "errors"; var errA = errors.New("a"); func f() { errA = nil }`, want: "errA: it is written to"},
		{name: "stamp of the linker", check: checkGlobals, dir: "cmd/ticketing", src: `var version = "devel"`},
		{name: "embedded file", check: checkGlobals, dir: "server", src: "import _ \"embed\"\n//go:embed x.go\nvar page string"},

		{name: "no package comment", check: checkDocs, dir: "server", src: `var a int`, want: "no comment that says what it is"},
		{name: "undocumented function", check: checkDocs, dir: "documented", src: `func F() {}`, want: "F is exported"},
		{name: "undocumented type", check: checkDocs, dir: "documented", src: `type T int`, want: "T is exported"},
		{name: "undocumented method", check: checkDocs, dir: "documented", src: "// T is.\ntype T int\nfunc (T) M() {}", want: "M is exported"},
		{name: "undocumented constant", check: checkDocs, dir: "documented", src: `const C = 1`, want: "C is exported"},
		{name: "constant with a line comment", check: checkDocs, dir: "documented", src: "const C = 1 // bytes"},
		{name: "method of an unexported type", check: checkDocs, dir: "documented", src: `type t int; func (t) M() {}`},
		{name: "method of a known interface", check: checkDocs, dir: "documented", src: "// T is.\ntype T int\nfunc (T) Error() string { return \"\" }"},

		{name: "sleeping test", check: checkCalls, dir: "lock", file: "x_test.go", src: `import "time"; func f() { time.Sleep(1) }`, want: "use testing/synctest"},
		{name: "clock in lock", check: checkCalls, dir: "lock", src: `import "time"; var _ = time.Now`, want: "take `now` as a parameter"},
		{name: "clock in the wrong file of server", check: checkCalls, dir: "server", file: "conn.go", src: `import "time"; var _ = time.Now`, want: "take `now` as a parameter"},
		{name: "clock in its file", check: checkCalls, dir: "server", file: "clock_other.go", src: `import "time"; var _ = time.Now`},
		{name: "old log package", check: checkCalls, dir: "server", src: `import _ "log"`, want: "use log/slog"},
		{name: "environment in server", check: checkCalls, dir: "server", src: `import "os"; func f() { os.Getenv("A") }`, want: "use the configuration"},
		{name: "environment in cmd", check: checkCalls, dir: "cmd/ticketing", src: `import "os"; func f() { os.Getenv("A") }`},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := "package x\n"
			if c.dir == "documented" {
				header = "// Package x is.\npackage x\n"
			}
			file := c.file
			if file == "" {
				file = "x.go"
			}
			got := c.check(parsePackage(t, fset, imports, c.dir, file, header+c.src))
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("found %q in sound code", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("found %q, want one finding with %q", got, c.want)
			}
		})
	}
}

func TestArchitectureFindsModules(t *testing.T) {
	allowed := "module m\n\ngo 1.26\n\nrequire (\n\tgolang.org/x/sys v0.1.0\n\tgolang.org/x/crypto v0.1.0 // indirect\n)\n"
	if got := checkModules(allowed); len(got) != 0 {
		t.Errorf("found %q in sound code", got)
	}
	for _, goMod := range []string{
		"module m\n\nrequire github.com/lib/pq v1.0.0\n",
		"module m\n\nrequire (\n\tgolang.org/x/sys v0.1.0\n\tgolang.org/x/text v0.1.0 // indirect\n)\n",
	} {
		if got := checkModules(goMod); len(got) != 1 {
			t.Errorf("found %q in %q, want one module", got, goMod)
		}
	}
}

func TestArchitectureFindsNamesAndLeftovers(t *testing.T) {
	for file, want := range map[string]int{
		"server/conn.go": 0, "server/commonality.go": 0, "server/util.go": 1, "server/lock_helpers_test.go": 1, "common/x.go": 1,
	} {
		if got := checkFileName(file); len(got) != want {
			t.Errorf("%s: found %q, want %d", file, got, want)
		}
	}
	for content, want := range map[string]int{
		"a hack in lower case is a word\n": 0, "// TO" + "DO(x): more\n": 1, "a\nb FIX" + "ME c\n": 1, "errors.New(\"not imple" + "mented\")": 1,
	} {
		if got := checkLeftovers("x.go", content); len(got) != want {
			t.Errorf("%q: found %q, want %d", content, got, want)
		}
	}
}
