package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Types gives one page of the types of jobs, by name, without their schemas.
func (c *Client) Types(ctx context.Context, page PageRequest) (api.Page[api.JobTypeSummary], error) {
	return list[api.JobTypeSummary](ctx, c, page.query(), "types")
}

// Type reads a type of jobs in its newest version.
func (c *Client) Type(ctx context.Context, name string) (api.JobType, error) {
	return c.jobType(ctx, http.MethodGet, nil, nil, name)
}

// TypeVersion reads a version of a type that is kept: the newest 20 are.
func (c *Client) TypeVersion(ctx context.Context, name string, version int) (api.JobType, error) {
	return c.jobType(ctx, http.MethodGet, nil, url.Values{"version": {strconv.Itoa(version)}}, name)
}

// TypeVersions gives one page of the versions that are kept of a type, newest first, without their schemas.
func (c *Client) TypeVersions(ctx context.Context, name string, page PageRequest) (api.Page[api.JobTypeSummary], error) {
	return list[api.JobTypeSummary](ctx, c, page.query(), "types", name, "versions")
}

// PutType makes a type of jobs or a new version of it; what is absent is empty. A repeat changes nothing. Package
// jobschema makes schemas of Go types. The problem schema_mismatch says that waiting jobs do not fit a new payload
// schema: ForceType stores it nevertheless.
func (c *Client) PutType(ctx context.Context, name string, request api.JobTypeRequest) (api.JobType, error) {
	return c.jobType(ctx, http.MethodPut, request, nil, name)
}

// ForceType is PutType although waiting jobs may not fit the payload schema.
func (c *Client) ForceType(ctx context.Context, name string, request api.JobTypeRequest) (api.JobType, error) {
	return c.jobType(ctx, http.MethodPut, request, url.Values{"force": {"true"}}, name)
}

// DeleteType deletes a type with all of its versions: jobs of it are no longer checked. The problem not_found may
// also mean that an answer was lost, and the call repeated.
func (c *Client) DeleteType(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "types", name}, repeatable: true})
}

func (c *Client) jobType(ctx context.Context, method string, body any, query url.Values, name string) (api.JobType, error) {
	var answer api.JobType
	err := c.do(ctx, call{method: method, path: []string{"v1", "types", name}, query: query, body: body, answer: &answer, repeatable: true})
	return answer, err
}
