package client

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Bulk begins to change all jobs that match request.Filter now; later ones are not included. It continues without the
// caller, until it is done or cancelled. Not repeated once it may have been stored: look at Bulks. Problems to expect:
// invalid_request, forbidden, rate_limited (16 are running).
func (c *Client) Bulk(ctx context.Context, request api.BulkRequest) (api.Bulk, error) {
	request.DryRun = false
	return sendBulk[api.Bulk](ctx, c, request, false)
}

// CountBulk counts the jobs that Bulk would change, and changes nothing.
func (c *Client) CountBulk(ctx context.Context, request api.BulkRequest) (api.Matched, error) {
	request.DryRun = true
	return sendBulk[api.Matched](ctx, c, request, true)
}

func sendBulk[T any](ctx context.Context, c *Client, request api.BulkRequest, repeatable bool) (answer T, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "bulk"}, body: request, answer: &answer, repeatable: repeatable})
	return answer, err
}

// GetBulk reads the progress of a bulk action.
func (c *Client) GetBulk(ctx context.Context, id string) (api.Bulk, error) {
	var answer api.Bulk
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "bulk", id}, answer: &answer, repeatable: true})
	return answer, err
}

// Bulks gives one page of bulk actions, newest first.
func (c *Client) Bulks(ctx context.Context, page PageRequest) (api.Page[api.Bulk], error) {
	return list[api.Bulk](ctx, c, page.query(), "bulk")
}

// CancelBulk ends a bulk action: after its answer no more jobs are changed; those already changed stay so. One that has
// ended is not changed. A repeat changes nothing.
func (c *Client) CancelBulk(ctx context.Context, id string) (api.Bulk, error) {
	var answer api.Bulk
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "bulk", id, "cancel"}, answer: &answer, repeatable: true})
	return answer, err
}
