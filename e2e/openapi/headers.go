package main

import (
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/api"
)

const exampleMicros = "1769860800000000"

func header(description, kind string, example any, required bool) *openapi3.HeaderRef {
	return &openapi3.HeaderRef{Value: &openapi3.Header{Parameter: openapi3.Parameter{
		Description: description, Required: required, Example: example,
		Schema: (&openapi3.Schema{Type: &openapi3.Types{kind}}).NewRef(),
	}}}
}

// commonHeaders are what answers of many routes carry.
func commonHeaders() openapi3.Headers {
	return openapi3.Headers{
		"X-Request-Id":     header("Names this request in the gateway's log.", "string", "2b1f8a5e-52a1-4f6e-9c1a-1d0b7c3e9a10", true),
		"X-Correlation-Id": header("The correlation id sent, or the request's id where there was none.", "string", "order-1042", true),
		"RateLimit": header("What is left in each bucket that the request was charged to, and the seconds until it is refilled "+
			"(draft-ietf-httpapi-ratelimit-headers).", "string", `"tenant-requests";r=99;t=1`, false),
		"RateLimit-Policy": header("Each bucket's size and the seconds that it takes to fill.", "string", `"tenant-requests";q=100;w=2`, false),
		"Retry-After":      header("Seconds to wait before another try; `retry_after_ms` is exact. 429 and 503 have it.", "integer", 1, false),
		"WWW-Authenticate": header("How to authenticate. 401 has it.", "string", "Bearer", false),
	}
}

// commonParameters are headers that a request may have.
func commonParameters() openapi3.ParametersMap {
	text := func(name, description, pattern string, example any) *openapi3.ParameterRef {
		p := openapi3.NewHeaderParameter(name).WithDescription(description)
		p.Schema = (&openapi3.Schema{Type: &openapi3.Types{"string"}, Pattern: pattern, Example: example}).NewRef()
		return &openapi3.ParameterRef{Value: p}
	}
	return openapi3.ParametersMap{
		"X-Correlation-Id": text("X-Correlation-Id", "An id that groups related jobs; each job passes it to its worker. "+
			"1 to 128 printable ASCII characters; other values are ignored.", "", nil),
		"traceparent": text("traceparent", "The submitting span (W3C Trace Context); each job passes it to its worker. A malformed value is ignored.", "", nil),
	}
}

// parameters says what parameters may hold.
func (c *completer) parameters(path string, op *openapi3.Operation) {
	for _, p := range op.Parameters {
		s := p.Value.Schema.Value
		switch p.Value.Name {
		case "id":
			p.Value.Example = exampleJob
			if op.Tags[0] == "Admin" {
				p.Value.Example = exampleTenant
			}
			if strings.HasPrefix(path, "/v1/redrives/") || strings.HasPrefix(path, "/v1/bulk/") {
				p.Value.Example = exampleRedrive
			}
		case "name":
			s.Pattern, p.Value.Example = patternOf("SubmitRequest", "type"), "default"
			if op.Tags[0] == "Admin" {
				p.Value.Example = "standard"
			}
			if op.Tags[0] == "Schedules" {
				p.Value.Example = "nightly"
			}
			if op.Tags[0] == "Webhooks" {
				p.Value.Example = "billing"
			}
		case "type":
			if p.Value.In == "path" {
				s.Pattern, p.Value.Example = patternOf("SubmitRequest", "type"), "mail.send"
			}
		case "version":
			s.Min = new(1.0)
		case "file":
			p.Value.Example = "gateway.json"
		case "code":
			p.Value.Example = "lease_lost"
		case "token":
			p.Value.Example = "SIGNAL_TOKEN"
		case "user":
			s.Pattern, p.Value.Example = patternOf("SubmitRequest", "user"), "ada"
		case "worker_id":
			s.Pattern, p.Value.Example = patternOf("ClaimRequest", "worker_id"), "worker-1"
		case "action":
			words(api.AuditActions()...)(s)
		case "key_id":
			p.Value.Example = "8y2k4m6n8p0q1r3s"
		case "page_size":
			low, high := 1.0, float64(api.MaxPageSize)
			s.Min, s.Max, s.Default = &low, &high, api.DefaultPageSize
		case "metadata":
			explode := true
			p.Value.Style, p.Value.Explode = "form", &explode
			*s = openapi3.Schema{Type: &openapi3.Types{"object"}, Example: map[string]any{}}
			s.AdditionalProperties.Schema = openapi3.NewStringSchema().NewRef()
		case "Idempotency-Key":
			op.Parameters = slices.Concat(op.Parameters, openapi3.Parameters{
				{Ref: "#/components/parameters/X-Correlation-Id"}, {Ref: "#/components/parameters/traceparent"},
			})
		}
	}
}

func headerRef(name string) *openapi3.HeaderRef {
	return &openapi3.HeaderRef{Ref: "#/components/headers/" + name}
}

// headersOf names what a problem of this status carries. What every answer carries is said once, in the description of
// the document: generators make a type of each answer with headers.
func headersOf(status string) []string {
	names := []string{"X-Request-Id", "X-Correlation-Id", "RateLimit", "RateLimit-Policy"}
	switch status {
	case "401":
		names = append(names, "WWW-Authenticate")
	case "429", "503":
		names = append(names, "Retry-After")
	}
	return names
}
