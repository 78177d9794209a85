package httpapi_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// A name in a path that nothing can have is 400 with the rule, at each route of the document: users choose names, and
// 404 sent them to look for what they had mistyped. An id that is malformed is as one that is not known.
func TestMalformedNamesInPaths(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/gateway.json")
	if err != nil {
		t.Fatal(err)
	}
	type parameter struct {
		Ref      string `json:"$ref"`
		Name, In string
		Schema   struct{ Pattern string }
	}
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody any
			Parameters  []parameter
		}
		Components struct{ Parameters map[string]parameter }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	d := newDoor(t)
	tenant, tried := d.key(api.Scopes()...), map[string]int{}
	for path, item := range document.Paths {
		key := tenant
		if strings.HasPrefix(path, "/v1/admin/") {
			key = operatorKey
		}
		for method, operation := range item {
			body := ""
			if operation.RequestBody != nil {
				body = "{}"
			}
			for _, one := range operation.Parameters {
				if name, ok := strings.CutPrefix(one.Ref, "#/components/parameters/"); ok {
					one = document.Components.Parameters[name]
				}
				if one.In != "path" || one.Schema.Pattern == "" {
					continue
				}
				tried[one.Name]++
				rule := regexp.MustCompile(one.Schema.Pattern)
				for name, escaped := range map[string]string{
					"-": "-", "a b": "a%20b", "é": "%C3%A9", "a\x00": "a%00", "\xff": "%ff", "a/b": "a%2Fb", "a\n": "a%0A", strings.Repeat("x", 129): strings.Repeat("x", 129),
				} {
					if rule.MatchString(name) { // a worker's may have spaces
						continue
					}
					target := strings.ReplaceAll(path, "{"+one.Name+"}", escaped)
					p := d.do(strings.ToUpper(method), target, key, body).refused(t, 400, problem.InvalidRequest)
					if len(p.Errors) != 1 || p.Errors[0].Field != one.Name || !strings.HasPrefix(p.Errors[0].Message, "must be 1 to 128 ") {
						t.Errorf("%s %s: errors %v", method, target, p.Errors)
					}
				}
			}
		}
	}
	for _, name := range []string{"name", "type", "worker_id", "user"} {
		if tried[name] < 1 {
			t.Errorf("%d routes have a {%s}", tried[name], name)
		}
	}
}
