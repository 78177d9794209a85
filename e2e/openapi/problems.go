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

// codesExtension lists an operation's problem codes, and of the shared response all codes by their statuses. An entry
// such as @key is a group of groupsExtension, which the shared response has.
const (
	codesExtension  = "x-codes"
	groupsExtension = "x-code-groups"
)

// The responses that all operations share: what a caller can correct, and every other problem.
const (
	badRequest = "BadRequest"
	anyProblem = "Failure"
)

const responsePath = "#/components/responses/"

// codeGroups are codes that many operations have together.
func (c *completer) codeGroups() map[string][]problem.Code {
	if c.service.internal {
		return map[string][]problem.Code{"@call": callCodes()}
	}
	return map[string][]problem.Code{
		"@key": {
			problem.CoreUnavailable, problem.Forbidden, problem.HeadersTooLarge, problem.Internal, problem.InvalidRequest, problem.Overloaded,
			problem.RateLimited, problem.Unauthenticated,
		},
		"@write": {problem.OutcomeUnknown, problem.TenantMoving},
		"@body":  {problem.InvalidJSON, problem.PayloadTooLarge, problem.UnknownField, problem.UnsupportedMediaType},
	}
}

// callCodes are those of each call of core.
func callCodes() []problem.Code {
	return []problem.Code{
		problem.AssertionExpired, problem.Internal, problem.InvalidJSON, problem.InvalidRequest, problem.PayloadTooLarge, problem.Unauthenticated,
	}
}

// grouped writes codes with the groups that are all there.
func (c *completer) grouped(codes []problem.Code) []string {
	var entries []string
	groups := c.codeGroups()
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if slices.ContainsFunc(groups[name], func(code problem.Code) bool { return !slices.Contains(codes, code) }) {
			continue
		}
		entries = append(entries, name)
		codes = slices.DeleteFunc(slices.Clone(codes), func(code problem.Code) bool { return slices.Contains(groups[name], code) })
	}
	for _, code := range codes {
		entries = append(entries, string(code))
	}
	return entries
}

// addProblems answers an operation with problems, all of one shape: a response for each status of each operation made
// documents and clients ten times as large.
func (c *completer) addProblems(op *openapi3.Operation, codes []problem.Code) {
	slices.Sort(codes)
	codes = slices.Compact(codes)
	for _, code := range codes {
		c.codes[code] = true
	}
	op.Extensions[codesExtension] = c.grouped(codes)
	op.Responses.Set("400", &openapi3.ResponseRef{Ref: responsePath + badRequest})
	op.Responses.Set("default", &openapi3.ResponseRef{Ref: responsePath + anyProblem})
}

// problemResponses are the shared ones, once all codes are known.
func (c *completer) problemResponses() {
	byStatus := map[string][]problem.Code{}
	for _, code := range slices.Sorted(maps.Keys(c.codes)) {
		status := fmt.Sprint(problem.New(code, "").Status)
		byStatus[status] = append(byStatus[status], code)
	}
	const which = " `x-codes` of an operation lists those that it may have, some by groups of the response Failure's `x-code-groups`."
	for name, given := range map[string]struct {
		said    string
		headers []string
		example problem.Code
	}{
		badRequest: {"The request is wrong: " + codeWords(byStatus["400"]) + which, nil, problem.InvalidRequest},
		anyProblem: {"Any other refusal, or a failure; `code` says which, and each has a page in /problems." + which, []string{"429", "503", "401"}, problem.Internal},
	} {
		response := openapi3.NewResponse().WithDescription(given.said)
		p := problem.New(given.example, "What is wrong with this request, and what to change.")
		response.Content = openapi3.Content{problem.ContentType: {Schema: &openapi3.SchemaRef{Ref: schemaPath + "Problem"}, Example: problemExample(p)}}
		response.Headers = openapi3.Headers{}
		for _, status := range append(given.headers, "400") {
			for _, header := range c.problemHeaders(status) {
				response.Headers[header] = headerRef(header)
			}
		}
		if name == anyProblem {
			response.Extensions = map[string]any{codesExtension: byStatus, groupsExtension: c.codeGroups()}
		}
		c.doc.Components.Responses[name] = &openapi3.ResponseRef{Value: response}
	}
}

func codeWords(codes []problem.Code) string {
	said := make([]string, len(codes))
	for i, code := range codes {
		said[i] = "`" + string(code) + "`: " + problem.New(code, "").Title + "."
	}
	return strings.Join(said, " ")
}

// problemHeaders names what a problem with a status carries.
func (c *completer) problemHeaders(status string) []string {
	if !c.service.internal {
		return headersOf(status)
	}
	if status == "401" {
		return []string{identity.TimeHeader}
	}
	return nil
}

func problemExample(p *problem.Problem) any {
	p.Instance, p.RequestID = "/v1/jobs", "2b1f8a5e-52a1-4f6e-9c1a-1d0b7c3e9a10"
	var wait any
	if p.Status == 429 || p.Status == 503 {
		wait = 1000
	}
	return map[string]any{
		"type": p.Type, "title": p.Title, "status": p.Status, "detail": p.Detail, "instance": p.Instance, "code": string(p.Code),
		"request_id": p.RequestID, "retry_after_ms": wait, "errors": []any{}, "policies": []any{},
	}
}

// ownProblems says which codes an operation has beside those of its kind.
func ownProblems(codes []problem.Code) string {
	if len(codes) == 0 {
		return ""
	}
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = "`" + string(code) + "`"
	}
	return "\n\nProblems of its own: " + strings.Join(slices.Sorted(slices.Values(names)), ", ") + "."
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
