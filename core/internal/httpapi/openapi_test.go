package httpapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
)

// Every route that gin serves is in api-docs/core.json, and the other way round. A
// new one needs make api-docs.
func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../api-docs/core.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for path, operations := range document.Paths {
		for method := range operations {
			documented[strings.ToUpper(method)+" "+path] = true
		}
	}
	engine, ok := calltest.New(t).Handler.(*gin.Engine)
	if !ok {
		t.Fatal("the handler is not gin's any more: where are its routes?")
	}
	routed := map[string]bool{}
	for _, served := range engine.Routes() {
		routed[served.Method+" "+served.Path] = true
	}
	for _, served := range engine.Routes() {
		route := served.Method + " " + served.Path
		if served.Method == http.MethodHead && routed[http.MethodGet+" "+served.Path] {
			continue // as GET, without the body
		}
		if !documented[route] {
			t.Errorf("%s is not documented: make api-docs", route)
		}
		delete(documented, route)
	}
	for route := range documented {
		t.Errorf("%s is documented, and there is no such route", route)
	}
}
