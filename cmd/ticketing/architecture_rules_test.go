package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checkModules finds modules that go.mod may not require.
func checkModules(goMod string) (problems []string) {
	requires := regexp.MustCompile(`(?m)^(?:require\s+|\t)([a-z0-9.-]+\.[a-z]+/\S+)\s+v`)
	for _, m := range requires.FindAllStringSubmatch(goMod, -1) {
		if !slices.Contains(allowedModules, m[1]) {
			problems = append(problems, fmt.Sprintf("go.mod requires %s: what tests need goes into a nested module", m[1]))
		}
	}
	return problems
}

// checkFileName refuses names that say nothing of the subject.
func checkFileName(file string) []string {
	vague := regexp.MustCompile(`(^|[/_.])(utils?|common|helpers?|misc|manager2)([/_.]|$)`)
	if vague.MatchString(file) {
		return []string{file + ": the name does not say what is in it"}
	}
	return nil
}

// checkLeftovers finds notes of work that was left undone. The marks are put together here so that this file
// does not find itself.
func checkLeftovers(file, content string) (problems []string) {
	marks := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b|not imple` + `mented|unimple` + `mented`)
	for i, line := range strings.Split(content, "\n") {
		if m := marks.FindString(line); m != "" {
			problems = append(problems, fmt.Sprintf("%s:%d: %q: finish it or leave it out", file, i+1, m))
		}
	}
	return problems
}

// checkImports holds a package to its place in the order.
func checkImports(p *goPackage) (problems []string) {
	ours, known := mayImport[p.dir]
	if !known {
		return []string{p.dir + ": the package has no place in the import order (mayImport)"}
	}
	for _, f := range p.files {
		for _, spec := range f.ast.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			short, isOurs := strings.CutPrefix(imported, modulePath+"/")
			switch {
			case isOurs:
				allowed := slices.Contains(ours, short)
				if f.test {
					allowed = allowed || short == p.dir || slices.Contains(testsMayImport[p.dir], short)
				}
				if !allowed {
					problems = append(problems, p.at(spec.Pos(), "%s may not import %s", p.dir, short))
				}
			case pure[p.dir] && !f.test && !pureImports[imported]:
				problems = append(problems, p.at(spec.Pos(), "%s is pure and may not import %s", p.dir, imported))
			case strings.Contains(strings.Split(imported, "/")[0], ".") && !moduleAllowed(imported):
				problems = append(problems, p.at(spec.Pos(), "%s belongs to no allowed module", imported))
			}
		}
	}
	return problems
}

func moduleAllowed(imported string) bool {
	return slices.ContainsFunc(allowedModules, func(m string) bool {
		return imported == m || strings.HasPrefix(imported, m+"/")
	})
}

// checkCalls finds banned imports, functions and readings of the clock. It needs names only, so that it sees
// the files of every system and the tests too.
func checkCalls(p *goPackage) (problems []string) {
	clockPrefix, mayReadClock := clockFiles[p.dir]
	for _, f := range p.files {
		names := importNames(f.ast)
		for _, spec := range f.ast.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if b := findBan(imported, "", p.dir, f.test); b != nil {
				problems = append(problems, p.at(spec.Pos(), "%s is not used here: use %s", imported, b.instead))
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			id, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			pkg, name := names[id.Name], sel.Sel.Name
			if b := findBan(pkg, name, p.dir, f.test); b != nil {
				problems = append(problems, p.at(sel.Pos(), "%s.%s: use %s", id.Name, name, b.instead))
			}
			if pkg == "time" && clockReads[name] && !f.test && !(mayReadClock && strings.HasPrefix(f.name, clockPrefix)) {
				problems = append(problems, p.at(sel.Pos(), "time.%s: take `now` as a parameter; only server and client read clocks, each in clock*.go", name))
			}
			return true
		})
	}
	return problems
}

// findBan returns the ban that pkg.name breaks, or nil.
func findBan(pkg, name, dir string, test bool) *ban {
	for i := range bans {
		b := &bans[i]
		if b.pkg == pkg && b.name == name && (b.tests || !test) && !slices.Contains(b.except, dir) {
			return b
		}
	}
	return nil
}

// importNames maps the names that a file gives to its imports to their paths.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	version := regexp.MustCompile(`^v[0-9]+$`)
	for _, spec := range f.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(imported)
		if version.MatchString(name) {
			name = path.Base(path.Dir(imported))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}

// contracts are methods whose meaning is that of the interface they satisfy.
var contracts = map[string]bool{
	"Error": true, "Is": true, "Unwrap": true, "String": true, "LogValue": true,
	"Len": true, "Less": true, "Swap": true, "Push": true, "Pop": true, "ServeHTTP": true,
}

// checkDocs finds packages and exported names without a comment.
func checkDocs(p *goPackage) (problems []string) {
	documented := false
	var first *ast.File
	for _, f := range p.files {
		if f.test {
			continue
		}
		first = f.ast
		documented = documented || f.ast.Doc != nil
		for _, decl := range f.ast.Decls {
			problems = append(problems, p.undocumented(decl)...)
		}
	}
	if first != nil && !documented {
		problems = append(problems, p.at(first.Package, "package %s has no comment that says what it is", p.dir))
	}
	return problems
}

func (p *goPackage) undocumented(decl ast.Decl) (problems []string) {
	missing := func(name *ast.Ident) {
		problems = append(problems, p.at(name.Pos(), "%s is exported and has no comment (units, ranges, errors)", name.Name))
	}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		method := d.Recv != nil
		if d.Name.IsExported() && d.Doc == nil && !(method && (contracts[d.Name.Name] || !receiverExported(d))) {
			missing(d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					missing(s.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						missing(name)
					}
				}
			}
		}
	}
	return problems
}

func receiverExported(d *ast.FuncDecl) bool {
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			exported = exported || token.IsExported(id.Name)
		}
		return true
	})
	return exported
}
