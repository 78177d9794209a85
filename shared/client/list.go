package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// These calls read and change existing jobs and workers.
// A page of a list may be short or empty while it has a NextPageToken; the next
// page is asked for with the same filter.

// List gives one page of the jobs that match all of the filter, newest id first.
func (c *Client) List(ctx context.Context, filter api.JobFilter, page PageRequest) (api.Page[api.JobSummary], error) {
	query := page.query()
	set(query, "queue", filter.Queue)
	set(query, "type", filter.Type)
	set(query, "state", strings.Join(filter.States, ","))
	set(query, "tag", filter.Tag)
	set(query, "user", filter.User)
	set(query, "dedupe_key", filter.DedupeKey)
	set(query, "key", filter.Key)
	setTime(query, "created_after", filter.CreatedAfter)
	setTime(query, "created_before", filter.CreatedBefore)
	for key, value := range filter.Metadata {
		query.Set("metadata."+key, value) // an empty value filters too
	}
	return list[api.JobSummary](ctx, c, query, "jobs")
}

// Attempts gives one page of a job's executions, by epoch.
func (c *Client) Attempts(ctx context.Context, jobID string, page PageRequest) (api.Page[api.Attempt], error) {
	return list[api.Attempt](ctx, c, page.query(), "jobs", jobID, "attempts")
}

// Workers gives one page of workers: the tenant's, or with a platform key the
// platform's.
func (c *Client) Workers(ctx context.Context, page PageRequest) (api.Page[api.Worker], error) {
	return list[api.Worker](ctx, c, page.query(), "workers")
}

// Cancel ends a job that waits. One that runs is only asked to end: State is then
// still running, and CancelRequested is set. Problem: job_terminal (it has ended
// otherwise). A repeat changes nothing.
func (c *Client) Cancel(ctx context.Context, jobID string) (api.JobSummary, error) {
	var answer api.JobSummary
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "jobs", jobID, "cancel"}, answer: &answer, repeatable: true})
	return answer, err
}

// maxListed is how large one item of a list can be in an answer, in bytes: its
// metadata with every character escaped, and an error.
const maxListed = 6*api.MaxMetadata*(api.MaxMetadataValue+128) + 64<<10

// list reads one page from the route made of segments.
func list[T any](ctx context.Context, c *Client, query url.Values, segments ...string) (api.Page[T], error) {
	var answer api.Page[T]
	err := c.do(ctx, call{
		method: http.MethodGet, path: append([]string{"v1"}, segments...), query: query, answer: &answer, repeatable: true,
		maxAnswer: maxAnswer + api.MaxPageSize*maxListed,
	})
	return answer, err
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

func setTime(query url.Values, name string, at *api.Time) {
	if at != nil {
		query.Set(name, at.UTC().Format(time.RFC3339Nano))
	}
}
