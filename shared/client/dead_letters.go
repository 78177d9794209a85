package client

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// DeadLetters gives one page of the dead letters that match all of the filter,
// newest job id first.
func (c *Client) DeadLetters(ctx context.Context, filter api.DeadLetterFilter, page PageRequest) (api.Page[api.DeadLetter], error) {
	query := page.query()
	setDeadLetters(query, filter)
	return list[api.DeadLetter](ctx, c, query, "dead-letters")
}

// Redrive queues a dead letter again, with no attempts spent. Problems: not_dead,
// dedupe_conflict, active_cap_reached. It is not repeated once it may have been
// written: a repeat would get not_dead for a job that the first has redriven.
func (c *Client) Redrive(ctx context.Context, jobID string) (api.JobSummary, error) {
	var answer api.JobSummary
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "jobs", jobID, "redrive"}, answer: &answer})
	return answer, err
}

// RedriveDeadLetters queues 1 to 1000 dead letters again. A nil error does not mean
// that all were: each has its own result, in the order given. Not repeated, like Redrive.
func (c *Client) RedriveDeadLetters(ctx context.Context, jobIDs []string) (api.DeadLetterResponse, error) {
	return settleDead[api.DeadLetterResponse](ctx, c, "redrive", api.DeadLetterRequest{IDs: jobIDs})
}

// RedriveDryRun counts the jobs that RedriveDeadLetters would redrive, and changes
// nothing.
func (c *Client) RedriveDryRun(ctx context.Context, jobIDs []string) (api.Matched, error) {
	return settleDead[api.Matched](ctx, c, "redrive", api.DeadLetterRequest{IDs: jobIDs, DryRun: true})
}

// DiscardDeadLetters deletes 1 to 1000 dead letters; each has its own result, in the
// order given. It is not repeated once it may have been written: a repeat would get
// not_found for what the first has discarded.
func (c *Client) DiscardDeadLetters(ctx context.Context, jobIDs []string) (api.DeadLetterResponse, error) {
	return settleDead[api.DeadLetterResponse](ctx, c, "discard", api.DeadLetterRequest{IDs: jobIDs})
}

// DiscardDryRun counts the jobs that DiscardDeadLetters would delete, and changes
// nothing.
func (c *Client) DiscardDryRun(ctx context.Context, jobIDs []string) (api.Matched, error) {
	return settleDead[api.Matched](ctx, c, "discard", api.DeadLetterRequest{IDs: jobIDs, DryRun: true})
}

func settleDead[T any](ctx context.Context, c *Client, verb string, request api.DeadLetterRequest) (T, error) {
	var answer T
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"v1", "dead-letters", verb}, body: request, answer: &answer, repeatable: request.DryRun,
	})
	return answer, err
}
