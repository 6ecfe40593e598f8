package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is one parsed Go file.
type source struct {
	name string // base name
	ast  *ast.File
	test bool
}

// goPackage is one folder with Go files: all of them parsed, whatever system they are for, and those that are
// no tests and build on this system checked for types.
type goPackage struct {
	dir   string // below the module's root, with slashes
	fset  *token.FileSet
	files []source
	typed []*ast.File
	info  *types.Info
}

// text is a file that people read.
type text struct{ path, text string }

type sourceTree struct {
	packages []*goPackage
	texts    []text
}

// listed is the part of `go list -json` that is used here.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
}

// loadTree reads the module at root. Dependencies come as export data from the build cache, so that no more
// than the module's own source is checked for types.
func loadTree(root string) (*sourceTree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Standard", "./...")
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages: %w: %s", err, stderr.String())
	}
	exports := map[string]string{}
	builds := map[string][]string{} // files that build on this system, by folder
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		exports[l.ImportPath] = l.Export
		if !l.Standard {
			builds[l.Dir] = l.GoFiles
		}
	}

	tree := &sourceTree{}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			return tree.addText(root, path)
		}
		if path != root && skipDir(path) {
			return filepath.SkipDir
		}
		p, err := parseDir(fset, root, path)
		if err != nil || len(p.files) == 0 {
			return err
		}
		tree.packages = append(tree.packages, p)
		return p.check(imports, builds[path])
	})
	return tree, err
}

// skipDir leaves out what is no source of this module: hidden folders, test data, nested modules.
func skipDir(path string) bool {
	name := filepath.Base(path)
	if strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin" {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}

func (t *sourceTree) addText(root, path string) error {
	base := filepath.Base(path)
	switch filepath.Ext(base) {
	case ".go", ".md", ".service", ".env":
	default:
		if base != "Makefile" && base != "Dockerfile" {
			return nil
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	t.texts = append(t.texts, text{filepath.ToSlash(rel), string(content)})
	return nil
}

func parseDir(fset *token.FileSet, root, dir string) (*goPackage, error) {
	rel, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, err
	}
	p := &goPackage{dir: filepath.ToSlash(rel), fset: fset}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		short := p.dir + "/" + filepath.Base(name)
		f, err := parser.ParseFile(fset, short, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, source{filepath.Base(name), f, strings.HasSuffix(name, "_test.go")})
	}
	return p, nil
}

// check resolves the types of the files named in build.
func (p *goPackage) check(imports types.Importer, build []string) error {
	for _, f := range p.files {
		for _, name := range build {
			if f.name == name {
				p.typed = append(p.typed, f.ast)
			}
		}
	}
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	if len(p.typed) == 0 {
		return nil
	}
	config := types.Config{Importer: imports}
	if _, err := config.Check(modulePath+"/"+p.dir, p.fset, p.typed, p.info); err != nil {
		return fmt.Errorf("checking the types of %s: %w", p.dir, err)
	}
	return nil
}

// at writes a finding with its place.
func (p *goPackage) at(pos token.Pos, format string, args ...any) string {
	return p.fset.Position(pos).String() + ": " + fmt.Sprintf(format, args...)
}
