package handlers

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// CreateBulk changes all jobs that match a filter.
//
//	@Description Changes all jobs that match `filter` at this moment, in the background, at most `rate_per_second`: the answer is 202 with a bulk action, which can be read and cancelled at `/v1/bulk/{id}`. `{}` matches every job for which the action is. With `dry_run` nothing changes, and the answer is the number that match. A key that is bound to a user reaches that user's jobs.
//	@Description
//	@Description Of live jobs: `cancel` (running ones are asked to stop), `move` to `to.queue`, `set_priority` to `to.priority`, `run_now`, `delay` by `to.delay_ms`. Of ended jobs: `rerun`, `delete`. Each job is changed once, or stays as it is and is counted in `refused`, and in `refusals` by the code of the reason: all but `cancel` refuse a job that has started (`job_started`), `move` one for which the queue has no room (`queue_full`). A job that ends before its turn is neither. `rerun` waits while a cap on active jobs is full.
//	@Description
//	@Description A bulk action survives restarts of the servers. A tenant may have 16 of them and redrives running; one more is 429 `rate_limited`. There is no Idempotency-Key: if an answer was lost, look at `GET /v1/bulk`.
//	@Param       what body api.BulkRequest true "The action and the jobs."
//	@Success     202 {object} api.Bulk "The action has started."
//	@Success     200 {object} api.Matched "With `dry_run`: how many jobs match."
//	@x-example-cancel  {"action": "cancel", "filter": {"queue": "default", "state": ["queued"]}}
//	@x-example-dry-run {"action": "cancel", "filter": {"metadata": {"order": "1042"}}, "dry_run": true}
//	@x-example-move    {"action": "move", "filter": {"queue": "default", "type": "hash.sha256"}, "to": {"queue": "slow"}, "rate_per_second": 100}
//	@x-example-priority {"action": "set_priority", "filter": {"user": "ada"}, "to": {"priority": 9}}
//	@x-example-delay   {"action": "delay", "filter": {"tag": "smtp"}, "to": {"delay_ms": 60000}}
//	@x-example-rerun   {"action": "rerun", "filter": {"state": ["cancelled"], "created_after": "2026-01-31T12:00:00Z"}}
func (h *Handlers) CreateBulk(ctx context.Context, c *call.Call, r api.BulkRequest) (call.Response[json.RawMessage], error) {
	if fields := r.Validate(); len(fields) > 0 {
		return call.Response[json.RawMessage]{}, problem.Invalid(fields...)
	}
	if user := c.Principal().User; user != "" && r.Filter.User != nil && *r.Filter.User != user {
		return call.Response[json.RawMessage]{}, anotherUser("filter.user", "The key is bound to a user, and the filter names another user.")
	}
	answer, err := call.Send(ctx, h.core, c, hop.CreateBulk, r)
	if err == nil && !r.DryRun {
		answer.Status = http.StatusAccepted
	}
	return answer, err
}

// ListBulk lists bulk actions.
//
//	@Description Bulk actions, newest first: those that are running, and those that ended in the last 30 days. A key that is bound to a user sees those started by that user's keys.
//	@Success     200 {object} api.Page[api.Bulk] "A page of bulk actions."
func (h *Handlers) ListBulk(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Paged(ctx, h.core, c, hop.ListBulk)
}

// GetBulk reads a bulk action.
//
//	@Description How far it is: `done` jobs were changed, `refused` stayed as they were.
//	@Success     200 {object} api.Bulk "The bulk action."
func (h *Handlers) GetBulk(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByID(ctx, h.core, c, hop.GetBulk)
}

// CancelBulk cancels a bulk action.
//
//	@Description It stops where it is: what was changed stays changed. A repeat changes nothing, and neither does a cancel of one that has ended.
//	@Success     200 {object} api.Bulk "The bulk action as it is now."
func (h *Handlers) CancelBulk(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByID(ctx, h.core, c, hop.CancelBulk)
}
