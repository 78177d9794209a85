package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/gateway/internal/typedocs"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// PutType sets a job type.
//
//	@Description Creates the type, or a new version of it: absent fields are empty. From then on every submit of the type is checked: a payload that does not fit `payload_schema` is 422 `schema_mismatch`, with the JSON pointer of up to 10 places. `defaults` apply where a submit is silent, before the queue's settings. With `check_results`, a result that does not fit `result_schema` is 422 when a worker completes the job, and the lease stays.
//	@Description
//	@Description Schemas are JSON Schema 2020-12, up to 64 KiB each. References stay within the schema (`$defs`); regular expressions are RE2; `format` is checked. `examples` must fit `payload_schema`.
//	@Description
//	@Description If waiting jobs do not fit a new `payload_schema`, the answer is 422 with some of them, and nothing is stored, unless `force` is `true`. Up to 1,000 jobs are looked at. Gateways use the new version within about a second, 30 s at the latest.
//	@Param       type  path  string             true  "The type, as in `POST /v1/jobs`."
//	@Param       force query string             false "`true` stores a payload_schema that waiting jobs do not fit." Enums(true, false)
//	@Param       definition body api.JobTypeRequest true "The type."
//	@Success     200 {object} api.JobType "The newest version of the type."
//	@x-problems  ["schema_mismatch"]
//	@x-example-mail     {"description": "Sends a mail.", "payload_schema": {"type": "object", "required": ["to"], "additionalProperties": false, "properties": {"to": {"type": "string", "format": "email"}, "template": {"enum": ["welcome", "invoice"]}}}, "examples": [{"to": "ada@example.com", "template": "welcome"}], "defaults": {"queue": "mail", "max_attempts": 5, "timeout_ms": 30000, "retry": {"base_ms": 2000}}}
//	@x-example-defaults {"description": "Runs long, and is never urgent.", "defaults": {"priority": 1, "timeout_ms": 3600000}}
func (h *Handlers) PutType(ctx context.Context, c *call.Call, r api.JobTypeRequest) (call.Response[api.JobType], error) {
	name, err := c.TypeName()
	if err != nil {
		return call.Response[api.JobType]{}, err
	}
	q := request.NewQuery(c.Query)
	force := q.OneOf("force", "true", "false") == "true"
	if err := q.Err(); err != nil {
		return call.Response[api.JobType]{}, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return call.Response[api.JobType]{}, problem.Invalid(fields...)
	}
	answer, err := call.Send(ctx, h.core, c, hop.PutType,
		hop.PutTypeRequest{Name: name, Value: r, Force: force})
	if err != nil {
		return call.Response[api.JobType]{}, err
	}
	// here at once, in other gateways by the hint
	h.types.Changed(hop.TypesChanged{Tenant: c.Principal().Tenant, Version: answer.Value.Revision})
	return call.Response[api.JobType]{Value: answer.Value.JobType}, nil
}

// GetType reads a job type.
//
//	@Description The newest version of the type, or with `version` an older one that is still kept: the newest 20 are.
//	@Param       version query int    false "A version; the newest if absent."
//	@Success     200 {object} api.JobType "The type."
func (h *Handlers) GetType(ctx context.Context, c *call.Call, _ call.None) (call.Response[api.JobType], error) {
	name, err := c.TypeName()
	if err != nil {
		return call.Response[api.JobType]{}, err
	}
	version := 0
	if text := c.Query.Get("version"); text != "" {
		if version, err = strconv.Atoi(text); err != nil || version < 1 || version > 1<<30 {
			return call.Response[api.JobType]{}, problem.Invalid(problem.FieldError{Field: "version", Message: "must be a whole number from 1"})
		}
	}
	answer, err := call.Send(ctx, h.core, c, hop.GetType, hop.TypeVersionRequest{Name: name, Version: version})
	return call.Response[api.JobType]{Value: answer.Value.JobType}, err
}

// ListTypes lists job types.
//
//	@Description The types by name, each in its newest version, without schemas and examples.
//	@Success     200 {object} api.Page[api.JobTypeSummary] "A page of types."
func (h *Handlers) ListTypes(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Paged(ctx, h.core, c, hop.ListTypes)
}

// ListTypeVersions lists the versions of a job type.
//
//	@Description The versions that are kept, newest first, at most 20, without schemas and examples.
//	@Success     200 {object} api.Page[api.JobTypeSummary] "A page of versions."
func (h *Handlers) ListTypeVersions(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.PageFor(ctx, h.core, c, hop.ListTypeVersions, c.TypeName)
}

// DeleteType deletes a job type.
//
//	@Description Deletes the type with all of its versions. Jobs of it do not change, and later ones are neither checked nor given defaults.
//	@Success     204 "The type is deleted."
func (h *Handlers) DeleteType(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	name, err := c.TypeName()
	if err != nil {
		return call.Response[call.None]{}, err
	}
	answer, err := call.Send(ctx, h.core, c, hop.DeleteType, hop.Name{Name: name})
	if err == nil {
		h.types.Changed(hop.TypesChanged{Tenant: c.Principal().Tenant, Version: answer.Value.Version})
	}
	return call.Response[call.None]{Status: http.StatusNoContent}, err
}

// GetOpenAPI reads the OpenAPI document of your job types.
//
//	@Description An OpenAPI 3.1 document with one operation for each job type: `POST /v1/jobs` with that type, the schema of its payload, its defaults and its examples. `/docs` adds them to this page once you have entered your key. Types beyond 4 MiB of schemas are left out.
//	@Success     200 {object} object "The document."
func (h *Handlers) GetOpenAPI(ctx context.Context, c *call.Call, _ call.None) (call.Response[json.RawMessage], error) {
	answer, err := call.Send(ctx, h.core, c, hop.GetTypeDocuments, struct{}{})
	if err != nil {
		return call.Response[json.RawMessage]{}, err
	}
	var text []byte
	err = h.types.InTurn(ctx, c.Principal().Tenant, func(context.Context) error {
		text, err = call.Encode(typedocs.Document(answer.Value))
		return err
	})
	return call.Response[json.RawMessage]{Value: text}, err
}
