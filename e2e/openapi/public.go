package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	gotypes "go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// publicRoute is a line of the gateway's table of routes.
type publicRoute struct {
	method, path, access string
	// pages says that it is a page of a list, keyed that it takes an Idempotency-Key.
	pages, keyed bool
}

// tagOf is the tag of the routes whose path begins with /v1 and a word. The comment of a route with another has its own.
func tagOf() map[string]string {
	return map[string]string{
		"admin": "Admin", "audit": "Self", "bulk": "Jobs", "claims": "Workers", "dead-letters": "Dead letters", "jobs": "Jobs", "keys": "Keys",
		"limits": "Queues", "openapi": "Job types", "outcomes": "Workers", "queues": "Queues", "redrives": "Dead letters",
		"schedules": "Schedules", "sessions": "Self", "signal-links": "Jobs", "stats": "Queues", "types": "Job types", "usage": "Queues",
		"budgets": "Queues", "webhooks": "Webhooks", "whoami": "Self", "workers": "Workers", "workflows": "Workflows",
	}
}

// accessOf is the x-access of a column of the gateway's table. The comment of a route with another has its own.
func accessOf() map[string]string {
	return map[string]string{
		"public": "public", "anyKey": "key", "anyTenantKey": "tenant key", "operatorOnly": "operator", "signalLink": "signal link",
		"submit": "submit", "read": "read", "manage": "manage", "work": "work platform",
		"readTenant": "read unbound", "manageTenant": "manage unbound", "admin": "admin unbound", "readWorkers": "read platform",
		"ofKey(read)": "read", "ofKey(submit)": "submit", "ofKey(anyTenantKey)": "tenant key",
		"allowPlatform(allowScope(read, api.ScopeWork))": "read or work",
	}
}

// annotatePublic copies the folders of the gateway's handlers to folders in out, and says in their comments what the table
// of routes says already: method and path, access, tag, the path's parameters, those of a page and the Idempotency-Key. A
// handler's name is the operation's, and its first sentence the summary: "GetJob reads a job." is "Read a job".
func annotatePublic(root string, sources []string, out string) (copies []string, err error) {
	routes, err := publicRoutes(filepath.Join(root, sources[0], "routes.go"))
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		folder := filepath.Join(out, filepath.Base(source))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, err
		}
		copies = append(copies, folder)
		names, err := filepath.Glob(filepath.Join(root, source, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			if err := annotateFile(name, filepath.Join(folder, filepath.Base(name)), routes); err != nil {
				return nil, err
			}
		}
	}
	return copies, nil
}

// publicRoutes reads the table of routes: its lines by their handlers.
func publicRoutes(name string) (map[string]publicRoute, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	routes := map[string]publicRoute{}
	ast.Inspect(file, func(n ast.Node) bool {
		line, ok := n.(*ast.CompositeLit)
		if !ok || line.Type != nil || len(line.Elts) != 8 {
			return true
		}
		handler := selected(line.Elts[7], "h") + selected(line.Elts[7], "s")
		method, _ := strconv.Unquote(gotypes.ExprString(line.Elts[0]))
		path, _ := strconv.Unquote(gotypes.ExprString(line.Elts[1]))
		routes[handler] = publicRoute{
			method: strings.ToLower(method), path: path, access: accessOf()[gotypes.ExprString(line.Elts[2])],
			pages: strings.HasPrefix(gotypes.ExprString(line.Elts[5]), "page("), keyed: gotypes.ExprString(line.Elts[6]) != `""`,
		}
		return false
	})
	if len(routes) == 0 {
		return nil, fmt.Errorf("%s has no routes", name)
	}
	return routes, nil
}

func annotateFile(name, to string, routes map[string]publicRoute) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var out strings.Builder
	from := 0
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Doc == nil || !strings.Contains(f.Doc.Text(), "@Success") {
			continue
		}
		r, ok := routes[f.Name.Name]
		if !ok {
			continue
		}
		start, end := files.Position(f.Doc.Pos()).Offset, files.Position(f.Doc.End()).Offset
		out.Write(text[from:start])
		out.WriteString(strings.Join(r.annotated(f, strings.Split(string(text[start:end]), "\n")), "\n"))
		from = end
	}
	out.Write(text[from:])
	return os.WriteFile(to, []byte(out.String()), 0o600)
}

// annotated adds to a handler's comment what it does not say itself.
func (r publicRoute) annotated(f *ast.FuncDecl, lines []string) []string {
	said := func(words ...string) bool {
		return slices.ContainsFunc(lines, func(line string) bool {
			fields := strings.Fields(strings.TrimPrefix(line, "//"))
			return len(fields) >= len(words) && slices.Equal(fields[:len(words)], words)
		})
	}
	var head, before, after, end []string
	add := func(to *[]string, annotation string, words ...string) {
		if !said(words...) {
			*to = append(*to, "//\t@"+annotation)
		}
	}
	name := []rune(f.Name.Name)
	add(&head, "Summary "+summary(f), "@Summary")
	add(&head, "ID "+strings.ToLower(string(name[:1]))+string(name[1:]), "@ID")
	if parts := strings.Split(r.path, "/"); len(parts) > 2 {
		add(&head, "Tags "+tagOf()[parts[2]], "@Tags")
	}
	for _, name := range pathParameters(r.path) {
		add(&before, "Param "+name[0]+" path string true "+name[1], "@Param", name[0])
	}
	if r.pages {
		add(&after, `Param page_size query int false "Maximum number of items."`, "@Param", "page_size")
		add(&after, "Param page_token query string false \"`next_page_token` of the previous page.\"", "@Param", "page_token")
	}
	if r.keyed {
		add(&after, `Param Idempotency-Key header string false "1 to 255 visible ASCII characters, with or without quotes; kept for at least 24 hours."`, "@Param", "Idempotency-Key")
	}
	if r.access != "" {
		add(&end, "x-access "+strconv.Quote(r.access), "@x-access")
	}
	add(&end, "Router "+r.path+" ["+r.method+"]", "@Router")
	answers := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "@Success") })
	first := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "@Param") || strings.Contains(line, "@Success") })
	return slices.Concat(lines[:first], head, before, lines[first:answers], after, lines[answers:], end)
}

// summary makes the first sentence of a handler's comment a title: of "GetJob reads a job." it is "Read a job".
func summary(f *ast.FuncDecl) string {
	sentence, _ := sentences(f.Name.Name, f.Doc.Text())
	verb, rest, _ := strings.Cut(sentence, " ")
	if stem, ok := strings.CutSuffix(verb, "ies"); ok {
		return stem + "y " + rest
	}
	return strings.TrimSuffix(verb, "s") + " " + rest
}

// pathParameters are a path's, with what is said of each: of /v1/jobs/{id} it is the job's id.
func pathParameters(path string) (named [][2]string) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		name, ok := strings.CutPrefix(part, "{")
		if !ok {
			continue
		}
		name, thing := strings.TrimSuffix(name, "}"), strings.TrimSuffix(parts[i-1], "s")
		switch name {
		case "id":
			named = append(named, [2]string{name, `"The ` + thing + `'s id." Format(uuid)`})
		case "key_id":
			named = append(named, [2]string{name, `"The key's id: its part between the second and the third underscore."`})
		case "token":
			named = append(named, [2]string{name, `"The link's token: the last part of its URL."`})
		case "type":
			named = append(named, [2]string{name, `"The type."`})
		default:
			named = append(named, [2]string{name, `"The ` + thing + `'s name."`})
		}
	}
	return named
}
