package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// checkPurity finds what would make the outcome of a pure package depend on anything but its inputs. What
// needs names of packages and functions that are imported is settled by checkImports.
func checkPurity(p *goPackage) (problems []string) {
	found := func(n ast.Node, what string) {
		problems = append(problems, p.at(n.Pos(), "%s is pure: %s", p.dir, what))
	}
	for _, f := range p.files {
		if f.test {
			continue
		}
		names := importNames(f.ast)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found(n, "no goroutine")
			case *ast.ChanType:
				found(n, "no channel")
			case *ast.SelectStmt:
				found(n, "no select")
			case *ast.SendStmt:
				found(n, "no channel")
			case *ast.SelectorExpr:
				id, ok := n.X.(*ast.Ident)
				if !ok {
					break
				}
				switch pkg, name := names[id.Name], n.Sel.Name; {
				case pkg == "time" && (clockReads[name] || timers[name]):
					found(n, "no clock and no timer; `now` is a parameter")
				case pkg == "math/rand/v2" && token.IsExported(name) && !randConstructors[name] && p.isFunc(n.Sel):
					found(n, "no global random source; take a *rand.Rand")
				case pkg == "hash/maphash" && name == "MakeSeed":
					found(n, "no seed of one's own; take it as a parameter")
				}
			}
			return true
		})
	}
	for _, f := range p.typed {
		ast.Inspect(f, func(n ast.Node) bool {
			if loop, ok := n.(*ast.RangeStmt); ok {
				if _, isMap := p.under(loop.X).(*types.Map); isMap {
					found(n, "no range over a map, whose order differs from run to run")
				}
			}
			return true
		})
	}
	return problems
}

// under is the underlying type of e, nil where it is unknown.
func (p *goPackage) under(e ast.Expr) types.Type {
	if t := p.info.TypeOf(e); t != nil {
		return t.Underlying()
	}
	return nil
}

// isFunc reports whether id is used as a function. A name whose type is unknown here counts as one.
func (p *goPackage) isFunc(id *ast.Ident) bool {
	object := p.info.Uses[id]
	_, ok := object.(*types.Func)
	return object == nil || ok
}

// checkGlobals finds init functions and package-level variables that are, or could become, state. Allowed are
// sentinel errors, embedded files, assertions (var _ = ...), the linker's stamps, and tables that nothing in
// the package writes to. A pure package has no tables but arrays, which are values and cannot be aliased unseen.
func checkGlobals(p *goPackage) (problems []string) {
	for _, f := range p.files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				problems = append(problems, p.at(fn.Pos(), "no init(): build it where it is needed, or pass it in"))
			}
		}
	}
	written := p.writtenGlobals()
	for _, f := range p.typed {
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				value := spec.(*ast.ValueSpec)
				for _, name := range value.Names {
					if name.Name == "_" || embedded(gen, value) {
						continue
					}
					if what := p.judgeGlobal(name, value, written); what != "" {
						problems = append(problems, p.at(name.Pos(), "package-level variable %s: %s", name.Name, what))
					}
				}
			}
		}
	}
	return problems
}

// judgeGlobal says what is wrong with a package-level variable, or "".
func (p *goPackage) judgeGlobal(name *ast.Ident, value *ast.ValueSpec, written map[types.Object]bool) string {
	object := p.info.Defs[name]
	if written[object] {
		return "it is written to; state belongs into a struct that is handed around"
	}
	if types.Implements(object.Type(), errorInterface()) && len(value.Values) > 0 {
		return ""
	}
	if _, isArray := object.Type().Underlying().(*types.Array); pure[p.dir] && !isArray {
		return "a pure package has none but sentinel errors and arrays that nothing writes to"
	}
	switch t := object.Type().Underlying().(type) {
	case *types.Basic:
		if p.dir == "cmd/ticketing" && stamps[name.Name] {
			return ""
		}
		return "make it a constant"
	case *types.Slice, *types.Map, *types.Array, *types.Struct:
		if len(value.Values) == 0 {
			return "a table is written where it is declared"
		}
		return ""
	case *types.Pointer:
		if immutableTypes[types.TypeString(t, nil)] {
			return ""
		}
	}
	return "it could be state; put it into a struct that is handed around"
}

// writtenGlobals finds the package's variables that are assigned to, whose address is taken (a slice of an array
// is one), or on which a method with a pointer receiver is called.
func (p *goPackage) writtenGlobals() map[types.Object]bool {
	written := map[types.Object]bool{}
	mark := func(e ast.Expr) {
		if id := root(e); id != nil {
			written[p.info.Uses[id]] = true
		}
	}
	for _, f := range p.typed {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					mark(e)
				}
			case *ast.IncDecStmt:
				mark(n.X)
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					mark(n.Key)
					mark(n.Value)
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					mark(n.X)
				}
			case *ast.SliceExpr:
				if _, isArray := p.under(n.X).(*types.Array); isArray {
					mark(n.X)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear" || id.Name == "copy") {
					mark(n.Args[0])
				}
			case *ast.SelectorExpr:
				if p.takesAddress(n) {
					mark(n.X)
				}
			}
			return true
		})
	}
	delete(written, nil)
	return written
}

// takesAddress reports whether sel calls a method with a pointer receiver on something that is no pointer.
func (p *goPackage) takesAddress(sel *ast.SelectorExpr) bool {
	selection := p.info.Selections[sel]
	if selection == nil || selection.Kind() != types.MethodVal {
		return false
	}
	receiver := selection.Obj().(*types.Func).Signature().Recv().Type()
	_, wantsPointer := receiver.(*types.Pointer)
	_, hasPointer := p.under(sel.X).(*types.Pointer)
	return wantsPointer && !hasPointer
}

// root is the variable at the left end of a selector or index expression.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

func errorInterface() *types.Interface {
	return types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
}

// embedded reports whether a variable is filled by //go:embed.
func embedded(gen *ast.GenDecl, value *ast.ValueSpec) bool {
	for _, group := range []*ast.CommentGroup{gen.Doc, value.Doc} {
		if group == nil {
			continue
		}
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}
