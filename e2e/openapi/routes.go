package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	gotypes "go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// route is a line of core's table of probes, or of the table of operations.
type route struct{ path, method, tag, access string }

// annotator copies core's handlers, and says in their comments what the code says already: the comment's
// text is the summary and the description; the table of operations has the path, the group and the access,
// and the handler's types are the request, with its paging, and the answer.
type annotator struct {
	root  string
	files *token.FileSet
	types types
	// operations are those of shared/server/hop by their names in Go, routes those of core by their handlers.
	operations, routes map[string]route
}

// annotate copies the folders of core's handlers to folders in out, ready for swag. The first has the tables of routes.
func annotate(root string, sources []string, out string) (copies []string, err error) {
	found, err := readTypes(root, wireFolders()...)
	if err != nil {
		return nil, err
	}
	a := &annotator{root: root, files: token.NewFileSet(), types: found, operations: map[string]route{}, routes: map[string]route{}}
	wire, err := a.parse("shared/server/hop")
	if err != nil {
		return nil, err
	}
	access := map[string]string{}
	for _, file := range wire {
		maps.Copy(access, constants(file))
	}
	for _, file := range wire {
		a.operation(file, access)
	}
	for _, source := range sources {
		handlers, err := a.parse(source)
		if err != nil {
			return nil, err
		}
		for _, file := range handlers {
			if err := a.tables(file); err != nil {
				return nil, err
			}
		}
		folder := filepath.Join(out, filepath.Base(source))
		if err := a.copy(handlers, folder); err != nil {
			return nil, err
		}
		copies = append(copies, folder)
	}
	if len(a.routes) > 0 {
		return nil, fmt.Errorf("routes without a handler that has a comment: %q", slices.Sorted(maps.Keys(a.routes)))
	}
	return copies, nil
}

// copy writes files with completed comments to a new folder.
func (a *annotator) copy(files map[string]*ast.File, folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for name, file := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if text, err = a.complete(file, text); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (a *annotator) parse(folder string) (map[string]*ast.File, error) {
	names, err := filepath.Glob(filepath.Join(a.root, folder, "*.go"))
	if err != nil {
		return nil, err
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if files[name], err = parser.ParseFile(a.files, name, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// constants are a file's constants that are text.
func constants(file *ast.File) map[string]string {
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if text, err := strconv.Unquote(gotypes.ExprString(spec.Values[0])); err == nil {
				found[spec.Names[0].Name] = text
			}
		}
		return true
	})
	return found
}

// operation reads the lines of the table of operations: GetJob = read[ID, api.Job]("get-job", ForTenant).
func (a *annotator) operation(file *ast.File, access map[string]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		ast.Inspect(spec.Values[0], func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			if name, err := strconv.Unquote(gotypes.ExprString(call.Args[0])); err == nil {
				a.operations[spec.Names[0].Name] = route{
					path: "/internal/v1/" + name, method: "post", tag: a.heading(file, spec), access: access[gotypes.ExprString(call.Args[1])],
				}
			}
			return false
		})
		return false
	})
}

// methodOf gives the method of one of core's handlers' types that a declaration is.
func methodOf(d ast.Decl) *ast.FuncDecl {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv == nil || !slices.Contains([]string{"*Server", "*Operations", "*Administration"}, gotypes.ExprString(f.Recv.List[0].Type)) {
		return nil
	}
	return f
}

// handlerOf is the name of the handler in a line: a method of the server, s, or of what serves items, o or a.
func handlerOf(line ast.Node) string {
	return cmp.Or(selected(line, "s"), selected(line, "o"), selected(line, "a"))
}

// isList says that an expression is the whole table.
func isList(n ast.Node) bool {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return false
	}
	_, ok = literal.Type.(*ast.ArrayType)
	return ok
}

// tables reads the tables of routes of a file.
func (a *annotator) tables(file *ast.File) (err error) {
	for _, d := range file.Decls {
		f := methodOf(d)
		if f == nil || f.Name.Name != "routes" && f.Name.Name != "probes" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch line := n.(type) {
			case *ast.KeyValueExpr:
				a.routes[handlerOf(line.Value)] = route{path: strings.Trim(gotypes.ExprString(line.Key), `"`), method: "get", tag: "Health", access: "public"}
			case *ast.CallExpr, *ast.CompositeLit:
				if op := selected(n, "hop"); op != "" && handlerOf(n) != "" && !isList(n) {
					made, ok := a.operations[op]
					if !ok || made.access == "" || made.tag == "" {
						err = fmt.Errorf("hop.%s is no line of the table of operations, or there is no comment over its block", op)
					}
					a.routes[handlerOf(n)] = made
					return false
				}
			}
			return err == nil
		})
	}
	return err
}

// selected is the first name in n that is selected of a package or a receiver.
func selected(n ast.Node, of string) (name string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && name == "" && gotypes.ExprString(s.X) == of {
			name = s.Sel.Name
		}
		return name == ""
	})
	return name
}

// heading is the last comment over a line that has its own line.
func (a *annotator) heading(file *ast.File, line ast.Node) (text string) {
	at := a.files.Position(line.Pos())
	for _, group := range file.Comments {
		if c := a.files.Position(group.Pos()); c.Line < at.Line && c.Column == at.Column {
			text = strings.TrimSpace(group.Text())
		}
	}
	return text
}

// complete puts the annotations of a file's handlers at the ends of their comments.
func (a *annotator) complete(file *ast.File, text []byte) ([]byte, error) {
	var out bytes.Buffer
	from := 0
	for _, d := range file.Decls {
		f := methodOf(d)
		if f == nil || f.Doc == nil {
			continue
		}
		r, ok := a.routes[f.Name.Name]
		if !ok {
			continue
		}
		delete(a.routes, f.Name.Name)
		lines, err := a.annotations(f, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name.Name, err)
		}
		end := a.files.Position(f.Doc.End()).Offset
		out.Write(text[from:end])
		for _, line := range lines {
			out.WriteString("\n//\t@" + line)
		}
		from = end
	}
	out.Write(text[from:])
	return out.Bytes(), nil
}

func (a *annotator) annotations(f *ast.FuncDecl, r route) ([]string, error) {
	comment := f.Doc.Text()
	said := func(annotation string) bool {
		return slices.ContainsFunc(strings.Split(comment, "\n"), func(line string) bool {
			return strings.HasPrefix(strings.Join(strings.Fields(line), " "), "@"+annotation)
		})
	}
	summary, description := sentences(f.Name.Name, comment)
	lines := []string{"Summary " + summary, "Tags " + r.tag, "Router " + r.path + " [" + r.method + "]"}
	if !said("ID ") {
		lines = append(lines, "ID "+idOf(r.path))
	}
	if description != "" {
		lines = append(lines, "Description "+description)
	}
	if said(accessExtension) {
		return nil, fmt.Errorf("the table of operations has its %s", accessExtension)
	}
	lines = append(lines, accessExtension+" "+strconv.Quote(r.access))
	if r.method == "get" {
		return lines, nil
	}
	request, answer := signature(f)
	lines = append(lines, `Param envelope body hop.Envelope[`+request+`] true "The callers' requests."`)
	if !said("Success 200") {
		lines = append(lines, `Success 200 {object} hop.Results[`+answer+`] "An answer for each item."`)
	}
	if !said(examplePrefix) {
		example := "none {}"
		name, _, _ := strings.Cut(request, "[")
		if _, pages := a.types[name[strings.LastIndexByte(name, '.')+1:]]["page_size"]; pages {
			example = `first {"page_size": 50}`
		}
		lines = append(lines, examplePrefix+example)
	}
	return lines, nil
}

// sentences gives the first sentence of a comment, and the others.
func sentences(name, comment string) (summary, description string) {
	text, _, _ := strings.Cut(comment, "\n\n")
	text = strings.TrimPrefix(strings.Join(strings.Fields(text), " "), name+" ")
	summary, description, _ = strings.Cut(text, ". ")
	first := []rune(strings.TrimSuffix(summary, "."))
	first[0] = unicode.ToUpper(first[0])
	return string(first), description
}

// idOf is a path's last words: jobDeletions.
func idOf(path string) (id string) {
	words := strings.FieldsFunc(strings.TrimPrefix(path, "/internal/v1/"), func(r rune) bool { return r == '-' || r == '/' })
	for i, word := range words {
		if i > 0 {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		id += word
	}
	return id
}

// signature gives the types of a handler's request and answer.
func signature(f *ast.FuncDecl) (request, answer string) {
	inner := func(e ast.Expr, generic string) string {
		text := strings.TrimPrefix(gotypes.ExprString(e), "[]")
		if held, ok := strings.CutPrefix(text, generic+"["); ok {
			text = strings.TrimSuffix(held, "]")
		}
		if text == "struct{}" {
			return "any"
		}
		return text
	}
	params := f.Type.Params.List
	return inner(params[len(params)-1].Type, "hop.Item"), inner(f.Type.Results.List[0].Type, "hop.Result")
}
