package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// said is what swag would say of one route.
const said = `{"swagger":"2.0","info":{"title":"t","version":"1"},
"paths":{"/v1/jobs/{id}/complete":{"post":{"summary":"s","description":"d","operationId":"snoozeJob","tags":["Workers"],
  "parameters":[{"name":"id","in":"path","required":true,"type":"string"},{"name":"body","in":"body","schema":{"$ref":"#/definitions/api.FailRequest"}}],
  "responses":{"200":{"description":"ok","schema":{"$ref":"#/definitions/api.Page-api_Attempt"}}}, EXTENSIONS }}},
"definitions":{
  "api.FailRequest":{"type":"object","properties":{"lease_token":{"type":"string"},"error":{"$ref":"#/definitions/api.JobError"},"permanent":{"type":"boolean"}}},
  "api.JobError":{"type":"object","properties":{"type":{"type":"string"},"message":{"type":"string"},"stack":{"type":"string"}}},
  "api.Attempt":{"type":"object","properties":{"attempt":{"type":"integer"},"error":{"$ref":"#/definitions/api.JobError"},"worker_id":{"type":"string"}}},
  "api.Page-api_Attempt":{"type":"object","properties":{"items":{"type":"array","items":{"$ref":"#/definitions/api.Attempt"}},"next_page_token":{"type":"string"}}},
  "problem.Problem":{"type":"object","properties":{"code":{"type":"string"}}}}}`

func generate(t *testing.T, extensions string) (*openapi3.T, error) {
	t.Helper()
	text, _, err := document(t.Context(), "../..", services()[0], []byte(strings.Replace(said, "EXTENSIONS", extensions, 1)))
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(text)
}

const good = `"x-access":"work platform","x-problems":["lease_lost"],"x-example-permanent":{"lease_token":"x","permanent":true}`

// A request may leave out what Go can do without, and an answer may not; null is for
// what Go has a pointer for.
func TestRequestsAndAnswersHaveFormsOfTheirOwn(t *testing.T) {
	t.Parallel()
	doc, err := generate(t, good)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"FailRequest": "lease_token", "JobErrorInput": "", "JobError": "message stack type",
		"Attempt": "attempt error worker_id", "PageOfAttempt": "items next_page_token",
	} {
		schema := doc.Components.Schemas[name]
		if schema == nil {
			t.Errorf("there is no schema %s", name)
			continue
		}
		if got := strings.Join(schema.Value.Required, " "); got != want {
			t.Errorf("%s requires %q, want %q", name, got, want)
		}
	}
	attempt := doc.Components.Schemas["Attempt"].Value.Properties
	if attempt["attempt"].Value.Nullable || !attempt["worker_id"].Value.Nullable || !attempt["error"].Value.Nullable {
		t.Error("null is not where Go has a pointer")
	}
	if closed := doc.Components.Schemas["FailRequest"].Value.AdditionalProperties.Has; closed == nil || *closed {
		t.Error("a request takes unknown fields")
	}
}

// Problems are the route's own and those of its kind, one answer for each status.
func TestProblemsOfARoute(t *testing.T) {
	t.Parallel()
	doc, err := generate(t, good)
	if err != nil {
		t.Fatal(err)
	}
	op := doc.Paths.Value("/v1/jobs/{id}/complete").Post
	var got []string
	groups := doc.Components.Responses["Failure"].Value.Extensions["x-code-groups"].(map[string]any)
	for _, entry := range op.Extensions["x-codes"].([]any) {
		if group, ok := groups[entry.(string)].([]any); ok {
			for _, code := range group {
				got = append(got, code.(string))
			}
		} else {
			got = append(got, entry.(string))
		}
	}
	slices.Sort(got)
	byStatus := map[string][]string{}
	for _, code := range got {
		status := fmt.Sprint(problem.New(problem.Code(code), "").Status)
		byStatus[status] = append(byStatus[status], code)
	}
	listed := doc.Components.Responses["Failure"].Value.Extensions["x-codes"].(map[string]any)
	for status, codes := range map[string]string{
		"400": "invalid_json invalid_request unknown_field", "401": "unauthenticated", "404": "not_found", "409": "lease_lost",
		"413": "payload_too_large", "503": "core_unavailable outcome_unknown overloaded tenant_moving",
	} {
		if got := strings.Join(byStatus[status], " "); got != codes {
			t.Errorf("%s: %q, want %q", status, got, codes)
		}
		if got := strings.Trim(fmt.Sprint(listed[status]), "[]"); got != codes {
			t.Errorf("%s: the shared response lists %q, want %q", status, got, codes)
		}
	}
	for _, status := range []string{"400", "default"} {
		answer := op.Responses.Value(status)
		if answer == nil || answer.Value.Content["application/problem+json"].Schema.Ref != "#/components/schemas/Problem" {
			t.Fatalf("%s is no problem", status)
		}
		if _, ok := answer.Value.Headers["Retry-After"]; ok != (status == "default") {
			t.Errorf("%s: Retry-After is there: %v", status, ok)
		}
	}
	if !strings.Contains(op.Description, "Problems of its own: `lease_lost`.") {
		t.Errorf("the description does not name its own codes: %s", op.Description)
	}
}

// What nobody would read, or what would mislead, is refused.
func TestCommentsThatAreWrongAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ extensions, want string }{
		"no access":         {`"x-example-a":{"lease_token":"x"}`, "x-access"},
		"unknown access":    {`"x-access":"anyone","x-example-a":{"lease_token":"x"}`, "anyone"},
		"unknown code":      {`"x-access":"work platform","x-problems":["on_fire"],"x-example-a":{"lease_token":"x"}`, "on_fire"},
		"no example":        {`"x-access":"work platform"`, "x-example"},
		"an example is bad": {`"x-access":"work platform","x-example-a":{"token":"x"}`, "token"},
		"unknown extension": {good + `,"x-mood":"fine"`, "x-mood"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := generate(t, c.extensions); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that names %s", err, c.want)
			}
		})
	}
}

// A schema and an operation of one name are refused, as generators would: in both services' documents.
func TestNamesThatCollideAreRefused(t *testing.T) {
	t.Parallel()
	for id, collides := range map[string]bool{"Attempt": true, "joberror": true, "pageOfAttempt": true, "snoozeJob": false, "attempts": false} {
		for _, one := range services() {
			c := &completer{service: one, doc: &openapi3.T{
				Paths: openapi3.NewPaths(openapi3.WithPath("/a", &openapi3.PathItem{Post: &openapi3.Operation{OperationID: id}})),
				Components: &openapi3.Components{Schemas: openapi3.Schemas{
					"Attempt": {}, "JobError": {}, "PageOfAttempt": {}, "HeartbeatResponse": {},
				}},
			}}
			if err := c.namesDiffer(); (err != nil) != collides {
				t.Errorf("%s: the operation %s: %v", one.name, id, err)
			}
			c.doc.Paths.Value("/a").Get = &openapi3.Operation{OperationID: "heartbeat"}
			if err := c.namesDiffer(); err == nil {
				t.Errorf("%s: heartbeat and HeartbeatResponse are no error", one.name)
			}
		}
	}
}

// The whole answers that are shown are such as their schemas allow.
func TestShownAnswersAreOfTheirTypes(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../../api-docs/gateway.json")
	if err != nil {
		t.Fatal(err)
	}
	anythingMayBeNull(doc)
	if err := doc.Validate(context.WithoutCancel(t.Context()), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
	for name := range answers() {
		if schema := doc.Components.Schemas[name]; schema == nil || schema.Value.Example == nil {
			t.Errorf("%s is shown nowhere", name)
		}
	}
	for id, shown := range situations() {
		found := 0
		for _, item := range doc.Paths.Map() {
			for _, op := range item.Operations() {
				if op.OperationID == id {
					found = len(op.Responses.Value("200").Value.Content[jsonMedia].Examples)
				}
			}
		}
		if found != len(shown) {
			t.Errorf("%s shows %d situations of %d", id, found, len(shown))
		}
	}
}
