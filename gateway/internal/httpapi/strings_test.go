package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// schema is as much of a JSON schema as finds its strings.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Additional json.RawMessage   `json:"additionalProperties"`
	Items      *schema           `json:"items"`
	AllOf      []schema          `json:"allOf"`
}

// shapes is the part of api-docs/gateway.json that says what requests look like. It is
// written from the types of shared/api.
type shapes struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Ref    string `json:"$ref"`
			Name   string `json:"name"`
			In     string `json:"in"`
			Schema schema `json:"schema"`
		} `json:"parameters"`
		RequestBody *struct {
			Content map[string]struct {
				Schema   schema `json:"schema"`
				Examples map[string]struct {
					Value any `json:"value"`
				} `json:"examples"`
			} `json:"content"`
		} `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

// stringsOf lists the paths of a schema's string fields; a step is a name, or "0" for
// a list's first entry.
func (s *shapes) stringsOf(of schema, at []string) [][]string {
	if name, ok := strings.CutPrefix(of.Ref, "#/components/schemas/"); ok {
		of = s.Components.Schemas[name]
	}
	var all [][]string
	for _, part := range of.AllOf {
		all = append(all, s.stringsOf(part, at)...)
	}
	switch {
	case of.Type == "string":
		return append(all, at)
	case of.Items != nil:
		return append(all, s.stringsOf(*of.Items, append(slices.Clip(at), "0"))...)
	}
	for name, property := range of.Properties {
		all = append(all, s.stringsOf(property, append(slices.Clip(at), name))...)
	}
	var more schema
	if json.Unmarshal(of.Additional, &more) == nil {
		all = append(all, s.stringsOf(more, append(slices.Clip(at), "k"))...)
	}
	return all
}

// with puts a string into a copy of a body.
func with(body any, at []string, text string) any {
	if len(at) == 0 {
		return text
	}
	if at[0] == "0" {
		list, _ := body.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		return []any{with(list[0], at[1:], text)} // alone: the other items of a batch are good
	}
	object := map[string]any{}
	if given, ok := body.(map[string]any); ok {
		maps.Copy(object, given)
	}
	object[at[0]] = with(object[at[0]], at[1:], text)
	return object
}

// pathName is how problems name a path.
func pathName(at []string) string {
	return strings.ReplaceAll(strings.Join(at, "."), ".0", "[0]")
}

// Every string that a request may have, in body, query or path, is refused where it
// holds what PostgreSQL cannot, and the field is named. The core here would take it.
func TestStringsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/gateway.json")
	if err != nil {
		t.Fatal(err)
	}
	var document shapes
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	d := newDoor(t)
	key := d.key(api.Scopes()...)
	bodies, parameters := 0, 0
	for path, operations := range document.Paths {
		for method, operation := range operations {
			method, known := strings.ToUpper(method), table[strings.ToUpper(method)+" "+path]
			who := key
			if known.operator {
				who = operatorKey
			}
			good := strings.NewReplacer("{id}", jobID, "{worker_id}", "w", "{user}", "ada", "{name}", "q", "{key_id}", "abcdefghijkl", "{file}", "x").Replace(path)
			for _, p := range operation.Parameters {
				parameters++
				switch {
				case p.In == "query":
					name := p.Name
					if p.Schema.Type == "object" {
						name += ".k"
					}
					for _, value := range []string{"a\x00b", "\xed\xa0\x80"} {
						got := d.do(method, good+"?"+name+"="+url.QueryEscape(value), who, "")
						d.names(method+" "+path+"?"+name, got.refused(t, 400, problem.InvalidRequest), name)
					}
				case p.In == "path" || strings.HasPrefix(p.Ref, "#/components/parameters/"):
					for _, value := range []string{"a%00b", "%ed%a0%80"} {
						odd := strings.NewReplacer("{"+p.Name+"}", value).Replace(path)
						odd = strings.NewReplacer("{id}", value, "{worker_id}", value, "{user}", value, "{name}", value).Replace(odd)
						if odd != path {
							status := 404
							if !strings.Contains(path, "{id}") && !strings.Contains(path, "{key_id}") { // it has a name
								status = 400
							}
							d.do(method, odd, who, "").refusedAs(t, method+" "+odd, status)
						}
					}
				}
			}
			if operation.RequestBody == nil {
				continue
			}
			content := operation.RequestBody.Content["application/json"]
			for _, at := range document.stringsOf(content.Schema, nil) {
				for _, example := range content.Examples {
					bodies++
					d.refusesStrings(method, path, good, who, example.Value, at)
				}
			}
		}
	}
	if bodies < 50 || parameters < 50 {
		t.Errorf("only %d fields and %d parameters: where are the rest?", bodies, parameters)
	}
}

// refusesStrings sends a body with each kind of bad string in one field.
func (d *door) refusesStrings(method, path, at, who string, example any, field []string) {
	d.t.Helper()
	const place = "the place of a bad string"
	body, err := json.Marshal(with(example, field, place))
	if err != nil {
		d.t.Fatal(err)
	}
	what := fmt.Sprintf("%s %s %s", method, path, pathName(field))
	surrogate := d.do(method, at, who, strings.Replace(string(body), place, `a\ud800b`, 1))
	d.names(what, surrogate.refused(d.t, 400, problem.InvalidJSON), pathName(field))

	if field[len(field)-1] != "k" && len(field) > 1 && field[len(field)-2] == "error" {
		return // error texts lose them
	}
	got := d.do(method, at, who, strings.Replace(string(body), place, `a\u0000b`, 1))
	if got.status == http.StatusOK { // each item by itself
		var answer struct {
			Results []struct {
				Status  int              `json:"status"`
				Problem *problem.Problem `json:"problem"`
			} `json:"results"`
		}
		if err := json.Unmarshal(got.body, &answer); err != nil || len(answer.Results) == 0 || answer.Results[0].Problem == nil {
			d.t.Errorf("%s: %s", what, got.body)
			return
		}
		if p := answer.Results[0].Problem; field[len(field)-1] != "job_id" || len(field) > 3 { // a malformed id is 404
			d.names(what, *p, pathName(field))
		} else if p.Status != http.StatusNotFound {
			d.t.Errorf("%s: %s", what, got.body)
		}
		return
	}
	d.names(what, got.refusedAs(d.t, what, 400), pathName(field))
}

// names checks that a problem is about a field.
func (d *door) names(what string, p problem.Problem, field string) {
	d.t.Helper()
	for _, wrong := range p.Errors {
		if wrong.Field == field || strings.HasSuffix(field, ".k") && strings.HasPrefix(field, wrong.Field) {
			return
		}
	}
	d.t.Errorf("%s: %+v does not name %s", what, p.Errors, field)
}

// refusedAs checks the status of a problem.
func (a answer) refusedAs(t *testing.T, what string, status int) problem.Problem {
	t.Helper()
	p := a.problem(t)
	if a.status != status {
		t.Errorf("%s: status %d, want %d: %s", what, a.status, status, a.body)
	}
	return p
}

// A list is not kept beyond what any may have: its text is short, its entries are not.
func TestLongListsAreNotKept(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("submit", "work", "manage")
	many := func(entry string, n int) string { return strings.TrimSuffix(strings.Repeat(entry+",", n), ",") }
	for path, body := range map[string]string{
		"/v1/jobs/batch":           `{"jobs":[` + many("{}", 100_000) + `]}`,
		"/v1/outcomes":             `{"outcomes":[` + many("{}", 100_000) + `]}`,
		"/v1/jobs":                 `{"type":"a","tags":[` + many(`"a"`, 100_000) + `]}`,
		"/v1/dead-letters/redrive": `{"ids":[` + many(`"a"`, 100_000) + `]}`,
		"/v1/workers/w/heartbeat":  `{"leases":[` + many("{}", 100_000) + `]}`,
	} {
		if p := d.do("POST", path, key, body).refused(t, 400, problem.InvalidRequest); len(p.Errors) == 0 || len(p.Errors) > 2100 {
			t.Errorf("%s: %d errors", path, len(p.Errors))
		}
	}
	d.do("POST", "/v1/jobs/batch", key, `{"jobs":[`+many("{}", 2000)+`,!]}`).refused(t, 400, problem.InvalidJSON)
	metadata := make([]string, 1000)
	for i := range metadata {
		metadata[i] = fmt.Sprintf(`"k%d":"v"`, i)
	}
	d.do("POST", "/v1/jobs", key, `{"type":"a","metadata":{`+strings.Join(metadata, ",")+`}}`).refused(t, 400, problem.InvalidRequest)
}

// HEAD is GET without the body.
func TestHead(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read", "manage")
	for _, route := range d.server.Routes() {
		path, ok := strings.CutPrefix(route, "GET ")
		if !ok {
			continue
		}
		who := key
		if table[route].operator {
			who = operatorKey
		}
		path = strings.NewReplacer("{id}", jobID, "{name}", "q", "{file}", "gateway.json").Replace(path)
		get, head := d.do("GET", path, who, ""), d.do("HEAD", path, who, "")
		if head.status != get.status || len(head.body) != 0 {
			t.Errorf("HEAD %s: status %d and %d bytes, GET has %d", path, head.status, len(head.body), get.status)
		}
		for _, name := range []string{"Content-Type", "Cache-Control", "ETag", "Location"} {
			if head.header.Get(name) != get.header.Get(name) {
				t.Errorf("HEAD %s: %s %q, GET has %q", path, name, head.header.Get(name), get.header.Get(name))
			}
		}
	}
}
