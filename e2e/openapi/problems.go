package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// addProblems answers an operation with problems, one response for each status.
func (c *completer) addProblems(access string, op *openapi3.Operation, codes []problem.Code) {
	byStatus := map[string][]string{}
	for _, code := range codes {
		status := fmt.Sprint(problem.New(code, "").Status)
		if !slices.Contains(byStatus[status], string(code)) {
			byStatus[status] = append(byStatus[status], string(code))
		}
	}
	for status, codes := range byStatus {
		slices.Sort(codes)
		name := strings.Join(codes, ".")
		headers := headersOf(access, status)
		if c.service.internal {
			headers = internalHeaders(status)
		} else if slices.Contains(headers, "RateLimit") {
			name = "charged." + name // with the headers of limits
		}
		if c.doc.Components.Responses[name] == nil {
			c.doc.Components.Responses[name] = &openapi3.ResponseRef{Value: c.problemResponse(codes, headers)}
		}
		if own := op.Responses.Value(status); own != nil { // readiness has an answer of its own for 503
			maps.Copy(own.Value.Content, c.doc.Components.Responses[name].Value.Content)
			continue
		}
		op.Responses.Set(status, &openapi3.ResponseRef{Ref: "#/components/responses/" + name})
	}
}

// internalHeaders names what core's refusals carry.
func internalHeaders(status string) []string {
	if status == "401" {
		return []string{identity.TimeHeader}
	}
	return nil
}

// problemResponse is a refusal with one of some codes.
func (c *completer) problemResponse(codes, headers []string) *openapi3.Response {
	var said []string
	examples := openapi3.Examples{}
	enum := &openapi3.Schema{Type: &openapi3.Types{"string"}}
	for _, code := range codes {
		p := problem.New(problem.Code(code), "What is wrong with this request, and what to change.")
		said = append(said, "`"+code+"`: "+p.Title+".")
		examples[code] = &openapi3.ExampleRef{Ref: "#/components/examples/" + code}
		c.doc.Components.Examples[code] = &openapi3.ExampleRef{Value: problemExample(p)}
		enum.Enum = append(enum.Enum, code)
	}
	narrowed := openapi3.NewObjectSchema().WithProperty("code", enum)
	schema := &openapi3.Schema{AllOf: openapi3.SchemaRefs{{Ref: schemaPath + "Problem"}, narrowed.NewRef()}}
	response := openapi3.NewResponse().WithDescription(strings.Join(said, " "))
	response.Content = openapi3.Content{problem.ContentType: {Schema: schema.NewRef(), Examples: examples}}
	response.Headers = openapi3.Headers{}
	for _, name := range headers {
		response.Headers[name] = headerRef(name)
	}
	return response
}

func problemExample(p *problem.Problem) *openapi3.Example {
	p.Instance, p.RequestID = "/v1/jobs", "2b1f8a5e-52a1-4f6e-9c1a-1d0b7c3e9a10"
	var wait any
	if p.Status == 429 || p.Status == 503 {
		wait = 1000
	}
	return &openapi3.Example{Summary: p.Title, Value: map[string]any{
		"type": p.Type, "title": p.Title, "status": p.Status, "detail": p.Detail, "instance": p.Instance, "code": string(p.Code),
		"request_id": p.RequestID, "retry_after_ms": wait, "errors": []any{}, "policies": []any{},
	}}
}

// problems are the schemas of the shared responses.
func (c *completer) problems() []*openapi3.SchemaRef {
	var all []*openapi3.SchemaRef
	for _, response := range c.doc.Components.Responses {
		for _, media := range response.Value.Content {
			all = append(all, media.Schema)
		}
	}
	return all
}
