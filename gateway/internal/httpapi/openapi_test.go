package httpapi_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
)

// documented has the descriptions of all operations of a document, by route.
func documented(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			Description string `json:"description"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	routes := map[string]string{}
	for path, operations := range document.Paths {
		for method, operation := range operations {
			routes[strings.ToUpper(method)+" "+path] = operation.Description
		}
	}
	return routes
}

// pages are routes for people: they are not part of the API.
func pages() []string {
	return []string{"GET /", "GET /docs", "GET /docs/", "GET /docs/{file}", "GET /problems/{code}"}
}

// Every route that gin serves, but for pages, is in api-docs/gateway.json, and the other way round.
// A new one: annotate its handler, and make api-docs.
func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	engine, ok := newDoor(t).server.Handler().(*gin.Engine)
	if !ok {
		t.Fatal("the handler is not gin's any more: where are its routes?")
	}
	documents := documented(t, "../docs/gateway.json")
	served := map[string]bool{}
	all := engine.Routes()
	slices.SortFunc(all, func(a, b gin.RouteInfo) int { return strings.Compare(a.Method, b.Method) }) // GET before HEAD
	for _, one := range all {
		segments := strings.Split(one.Path, "/")
		for i, segment := range segments {
			if name, ok := strings.CutPrefix(segment, ":"); ok {
				segments[i] = "{" + name + "}"
			}
		}
		route := one.Method + " " + strings.Join(segments, "/")
		served[route] = true
		if get, ok := strings.CutPrefix(route, "HEAD "); ok && served["GET "+get] {
			delete(served, route) // each GET has one, TestHead says what it does
			continue
		}
		if _, ok := documents[route]; !ok && !slices.Contains(pages(), route) {
			t.Errorf("%s is not documented: annotate its handler, then make api-docs", route)
		}
	}
	for route := range documents {
		if !served[route] {
			t.Errorf("%s is documented, and there is no such route", route)
		}
	}
}

// What a document says of who may call is what the door does.
func TestDocumentsSayWhoMayCall(t *testing.T) {
	t.Parallel()
	for route, description := range documented(t, "../docs/gateway.json") {
		rule := table[route]
		want := "Needs a key with the scope `" + rule.scope + "`"
		if rule.or != "" {
			want += " or `" + rule.or + "`"
		}
		switch {
		case rule.public:
			want = "Needs no key"
		case rule.linked:
			want = "Needs no key: the token is one"
		case rule.operator:
			want = "Needs the operator key"
		case rule.scope == "-" && rule.platform:
			want = "Any key is accepted"
		case rule.scope == "-":
			want = "Any key of a tenant is accepted"
		case rule.platform:
			want += ", or a platform key"
		case rule.unbound:
			want += ", bound to no user"
		}
		if !strings.HasSuffix(description, "\n\n"+want+".") {
			t.Errorf("%s: the document should end with %q: %s", route, want, description)
		}
	}
}
