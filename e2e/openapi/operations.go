package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// Names of swag's extensions that say what Swagger 2.0 has no word for.
const (
	accessExtension   = "x-access"
	problemsExtension = "x-problems"
	examplePrefix     = "x-example-"
)

const jsonMedia = "application/json"

// publicScheme is the security scheme of the public API. It is not called key, as a schema is: generators make a type of each.
const publicScheme = "apiKey"

// accessWords puts x-access into a sentence.
func accessWords() map[string]string {
	return map[string]string{
		"public":         "Needs no key.",
		"signal link":    "Needs no key: the token is one.",
		"submit":         "Needs a key with the scope `submit`.",
		"read":           "Needs a key with the scope `read`.",
		"read or work":   "Needs a key with the scope `read` or `work`, or a platform key.",
		"manage":         "Needs a key with the scope `manage`.",
		"manage unbound": "Needs a key with the scope `manage`, bound to no user.",
		"admin unbound":  "Needs a key with the scope `admin`, bound to no user.",
		"read unbound":   "Needs a key with the scope `read`, bound to no user.",
		"work platform":  "Needs a key with the scope `work`, or a platform key.",
		"read platform":  "Needs a key with the scope `read`, or a platform key.",
		"key":            "Any key is accepted.",
		"tenant key":     "Any key of a tenant is accepted.",
		"operator":       "Needs the operator key.",
	}
}

// operation completes one operation. Its extensions are spent by that.
func (c *completer) operation(path, method string, op *openapi3.Operation) error {
	if op.Summary == "" || op.Description == "" && !c.service.internal || op.OperationID == "" || len(op.Tags) == 0 {
		return fmt.Errorf("it needs a Summary, a Description, an ID and Tags")
	}
	access, _ := op.Extensions[accessExtension].(string)
	if c.service.internal {
		return c.internalOperation(access, path, op)
	}
	sentence, ok := accessWords()[access]
	if !ok {
		return fmt.Errorf("x-access %q is none of those known", access)
	}
	if access == "public" || access == "signal link" {
		op.Security = &openapi3.SecurityRequirements{}
	}
	codes, err := ownCodes(op)
	if err != nil {
		return err
	}
	op.Description += ownProblems(codes) + "\n\n" + sentence
	codes = append(codes, usualCodes(path, method, access, op)...)
	c.parameters(path, op)
	if err := requestExamples(op, func(example any) any { return example }); err != nil {
		return err
	}
	if err := addSituations(op); err != nil {
		return err
	}
	if err := c.alternative(op); err != nil {
		return err
	}
	c.addProblems(op, codes)
	if err := spent(op); err != nil {
		return err
	}
	if err := c.place(op); err != nil {
		return err
	}
	return c.addSamples(path, method, op)
}

// internalOperation completes one of core's.
func (c *completer) internalOperation(access, path string, op *openapi3.Operation) error {
	if access == "public" {
		op.Security = &openapi3.SecurityRequirements{}
		return spent(op)
	}
	principal, sentence, ok := principalOf(access)
	if !ok {
		return fmt.Errorf("x-access %q is none of those known", access)
	}
	codes, err := ownCodes(op)
	if err != nil {
		return err
	}
	codes = append(codes, problem.InvalidRequest, problem.Internal, problem.Overloaded, problem.CoreUnavailable, problem.TenantMoving, problem.OutcomeUnknown)
	if access != "anybody" {
		codes = append(codes, problem.Forbidden)
	}
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = "`" + string(code) + "`"
	}
	slices.Sort(names)
	op.Description = strings.TrimSpace(op.Description + "\n\n" + sentence + " An item may be answered with " + strings.Join(slices.Compact(names), ", ") + ".")
	wrap := func(example any) any {
		return map[string]any{"items": []any{map[string]any{"principal": principal, "request": example}}}
	}
	if err := requestExamples(op, wrap); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := c.alternative(op); err != nil {
		return err
	}
	c.addProblems(op, callCodes())
	return spent(op)
}

// principalOf gives the principal that examples are sent as.
func principalOf(access string) (principal map[string]any, sentence string, ok bool) {
	tenant := map[string]any{"kind": hop.PrincipalTenant, "tenant": exampleTenant, "scopes": api.Scopes(), "key_id": "8y2k4m6n8p0q1r3s"}
	switch access {
	case "tenant":
		return tenant, "For principals of a tenant.", true
	case "worker", "manager or platform":
		return tenant, "For principals of a tenant, bound to no user, and of the platform.", true
	case "manager":
		return tenant, "For principals of a tenant, bound to no user.", true
	case "reader or worker":
		return tenant, "For principals of a tenant with the scope `read`, and for those of workers: of a tenant, bound to no user, and of the platform.", true
	case "manager or operator":
		return tenant, "For principals of a tenant, bound to no user, and for the operator.", true
	case "admin or operator":
		return map[string]any{"kind": hop.PrincipalOperator}, "For the operator, and for principals of a tenant with the scope `admin`, bound to no user.", true
	case "operator":
		return map[string]any{"kind": hop.PrincipalOperator}, "For the operator.", true
	case "anybody":
		return map[string]any{"kind": hop.PrincipalOperator}, "The principal is not looked at.", true
	}
	return nil, "", false
}

// ownCodes reads x-problems.
func ownCodes(op *openapi3.Operation) ([]problem.Code, error) {
	var codes []problem.Code
	given, _ := op.Extensions[problemsExtension].([]any)
	for _, each := range given {
		code := problem.Code(fmt.Sprint(each))
		if !problem.Known(code) {
			return nil, fmt.Errorf("x-problems: there is no code %s", code)
		}
		codes = append(codes, code)
	}
	return codes, nil
}

// usualCodes are what every route of a kind may answer.
func usualCodes(path, method, access string, op *openapi3.Operation) []problem.Code {
	codes := []problem.Code{problem.InvalidRequest, problem.HeadersTooLarge, problem.Internal}
	if path != "/livez" && path != "/readyz" {
		codes = append(codes, problem.RateLimited)
	}
	if access == "public" {
		return codes
	}
	codes = append(codes, problem.Unauthenticated, problem.Forbidden, problem.CoreUnavailable, problem.Overloaded)
	if method != http.MethodGet {
		codes = append(codes, problem.OutcomeUnknown, problem.TenantMoving)
	}
	if access == "operator" { // the routes are not there without an operator key
		codes = append(codes, problem.NotFound)
	}
	if op.RequestBody != nil || method == http.MethodPost || method == http.MethodPut {
		codes = append(codes, problem.InvalidJSON, problem.UnknownField, problem.PayloadTooLarge, problem.UnsupportedMediaType)
	}
	for _, p := range op.Parameters {
		switch {
		case p.Value.Name == "Idempotency-Key":
			codes = append(codes, problem.IdempotencyKeyInvalid, problem.IdempotencyInFlight, problem.IdempotencyMismatch)
		case p.Value.Name == "worker_id" && method == http.MethodDelete: // a worker that is not known has left
		case p.Value.Name == "worker_id":
			codes = append(codes, problem.WorkerUnknown, problem.NotFound)
		case p.Value.In == "path":
			codes = append(codes, problem.NotFound)
		}
	}
	return codes
}

// summaryOf is an example's title in words.
func summaryOf(title string) string { return strings.ReplaceAll(title, "-", " ") }

// requestExamples puts x-example-… where they belong.
func requestExamples(op *openapi3.Operation, wrap func(any) any) error {
	for _, name := range slices.Sorted(maps.Keys(op.Extensions)) {
		title, ok := strings.CutPrefix(name, examplePrefix)
		if !ok {
			continue
		}
		if op.RequestBody == nil {
			return fmt.Errorf("%s: there is no body to be an example of", name)
		}
		media := op.RequestBody.Value.Content[jsonMedia]
		if media.Examples == nil {
			media.Examples = openapi3.Examples{}
		}
		media.Examples[title] = &openapi3.ExampleRef{Value: &openapi3.Example{
			Summary: summaryOf(title), Value: wrap(op.Extensions[name]),
		}}
	}
	if op.RequestBody != nil && len(op.RequestBody.Value.Content[jsonMedia].Examples) == 0 {
		return fmt.Errorf("its body needs an x-example-NAME")
	}
	return nil
}

// alternative folds the default response into 200: it is another shape of it. Of
// core, which answers every envelope with 200, each other success is one more.
func (c *completer) alternative(op *openapi3.Operation) error {
	others := []string{"default"}
	if c.service.internal {
		others = append(others, "202")
	}
	ok := op.Responses.Value("200")
	var shapes openapi3.SchemaRefs
	for _, status := range others {
		other := op.Responses.Value(status)
		if other == nil {
			continue
		}
		if ok == nil {
			return fmt.Errorf("the answer %s is another shape of 200, which there is none of", status)
		}
		op.Responses.Delete(status)
		shapes = append(shapes, other.Value.Content[jsonMedia].Schema)
	}
	if len(shapes) == 0 {
		return nil
	}
	media := ok.Value.Content[jsonMedia]
	shapes = append(openapi3.SchemaRefs{media.Schema}, shapes...)
	if c.service.internal {
		media.Schema = c.anyResults(shapes)
		return nil
	}
	media.Schema = openapi3.NewOneOfSchema().NewRef() // mergeAnswers makes one schema of it
	media.Schema.Value.OneOf = shapes
	return nil
}

// anyResults is for an envelope whose items may be answered in several shapes. One
// may have all that another needs, so that an answer may be of both.
func (c *completer) anyResults(shapes openapi3.SchemaRefs) *openapi3.SchemaRef {
	var names []string
	var values openapi3.SchemaRefs
	for _, shape := range shapes {
		name := strings.TrimPrefix(shape.Ref, schemaPath+"ResultsOf")
		names = append(names, name)
		values = append(values, &openapi3.SchemaRef{Ref: schemaPath + name})
	}
	suffix := strings.Join(names, "Or")
	all := c.doc.Components.Schemas
	results, result := clone(all["ResultsOf"+names[0]]), clone(all["ResultOf"+names[0]])
	results.Value.Properties["results"].Value.Items = &openapi3.SchemaRef{Ref: schemaPath + "ResultOf" + suffix}
	result.Value.Properties["value"] = openapi3.NewAnyOfSchema().NewRef()
	result.Value.Properties["value"].Value.AnyOf = values
	all["ResultsOf"+suffix], all["ResultOf"+suffix] = results, result
	return &openapi3.SchemaRef{Ref: schemaPath + "ResultsOf" + suffix}
}

// spent checks that every extension was understood.
func spent(op *openapi3.Operation) error {
	for name := range op.Extensions {
		switch {
		case name == codesExtension: // for those who read the document
		case name == accessExtension, name == problemsExtension, strings.HasPrefix(name, examplePrefix):
			delete(op.Extensions, name)
		default:
			return fmt.Errorf("%s: nobody reads this", name)
		}
	}
	if op.RequestBody != nil {
		delete(op.RequestBody.Value.Extensions, "x-originalParamName")
	}
	return nil
}

// components are what operations refer to.
func (c *completer) components() {
	c.doc.Components.Responses = openapi3.ResponseBodies{}
	if c.service.internal {
		scheme := openapi3.NewSecurityScheme().WithType("apiKey").WithIn("header").WithName(identity.Header).
			WithDescription("The gateway's signature over method, path, body and time.")
		c.doc.Components.SecuritySchemes = openapi3.SecuritySchemes{"signature": {Value: scheme}}
		c.doc.Security = openapi3.SecurityRequirements{{"signature": {}}}
		c.doc.Components.Headers = openapi3.Headers{
			identity.TimeHeader: header("Core's time, in microseconds since 1970.", "string", exampleMicros, false),
		}
		return
	}
	scheme := openapi3.NewSecurityScheme().WithType("http").WithScheme("bearer").
		WithDescription("An API key, such as `forgequeue up` prints; for `/v1/admin` the operator key.")
	c.doc.Components.SecuritySchemes = openapi3.SecuritySchemes{publicScheme: {Value: scheme}}
	c.doc.Security = openapi3.SecurityRequirements{{publicScheme: {}}}
	c.doc.Components.Headers = commonHeaders()
	c.doc.Components.Parameters = commonParameters()
}
