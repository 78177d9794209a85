package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListDeadLetters lists dead letters.
//
//	@Description Dead letters, newest id first, with the reason, the last error, and a fingerprint that errors of the same kind share. A page can be short or empty while `next_page_token` is set. Dead letters are kept for 30 days.
//	@Param       queue       query string false "Only of this queue."
//	@Param       type        query string false "Only of this type."
//	@Param       reason      query string false "Only with this reason." Enums(exhausted, permanent, worker_lost, deadline)
//	@Param       fingerprint query string false "Only with this fingerprint."
//	@Param       after       query string false "Only those that died after this time." Format(date-time)
//	@Param       before      query string false "Only those that died before this time." Format(date-time)
//	@Success     200 {object} api.Page[api.DeadLetter] "A page of dead letters."
func (h *Handlers) ListDeadLetters(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Filtered(ctx, h.core, c, hop.ListDeadLetters, readDeadLetterFilter)
}

// readDeadLetterFilter reads the filter of the lists of dead letters.
func readDeadLetterFilter(q *request.Query) api.DeadLetterFilter {
	return api.DeadLetterFilter{
		Queue:       q.Queue("queue"),
		Type:        q.Name("type"),
		Reason:      q.OneOf("reason", api.ReasonExhausted, api.ReasonPermanent, api.ReasonWorkerLost, api.ReasonDeadline),
		Fingerprint: strings.ToLower(q.Text("fingerprint", "must be 1 to 64 hexadecimal digits", api.ValidFingerprint)),
		After:       q.Time("after"),
		Before:      q.Time("before"),
	}
}

// GroupDeadLetters groups dead letters.
//
//	@Description Counts dead letters by queue and fingerprint, the largest group first, each with its newest job. At most the newest 100,000 dead letters are read; if there are more, `read_capped` is true and the counts are lower bounds. `groups` is the number of groups; `items` has the `page_size` largest. There is no next page: narrow the filter.
//	@Param       queue       query string false "Only of this queue."
//	@Param       type        query string false "Only of this type."
//	@Param       reason      query string false "Only with this reason." Enums(exhausted, permanent, worker_lost, deadline)
//	@Param       fingerprint query string false "Only with this fingerprint."
//	@Param       after       query string false "Only those that died after this time." Format(date-time)
//	@Param       before      query string false "Only those that died before this time." Format(date-time)
//	@Param       page_size   query int    false "Maximum number of groups."
//	@Success     200 {object} api.DeadLetterGroups "The largest groups."
func (h *Handlers) GroupDeadLetters(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	q := request.NewQuery(c.Query)
	page, filter := q.Page(), readDeadLetterFilter(q)
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.GroupDeadLetters,
		hop.Filtered[api.DeadLetterFilter]{Filter: filter, PageRequest: hop.PageRequest{PageSize: page.PageSize}})
}

// RedriveJob redrives a dead letter.
//
//	@Description The job is queued again under its id, with a new set of attempts; a deadline that has passed is cleared. Any other job is 409 `not_dead`, and so is a repeat.
//	@Tags        Dead letters
//	@Success     202 {object} api.JobSummary "The job is queued again."
//	@x-problems  ["not_dead", "dedupe_conflict", "active_cap_reached", "too_many_lanes"]
func (h *Handlers) RedriveJob(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Accepted(call.ByID(ctx, h.core, c, hop.RedriveJob))
}

// RedriveDeadLetters redrives dead letters.
//
//	@Description With `ids`, up to 1000 dead letters are queued again at once; `results` has a status for each, in the order sent. With `filter`, all dead letters that match now are queued again in the background, at most `rate_per_second`: the answer is 202 with a redrive, which can be read and cancelled at `/v1/redrives/{id}`. `{"filter": {}}` matches every dead letter. With `dry_run` nothing changes, and the answer is the number that match.
//	@Description
//	@Description With `canary`, a sample of `count` dead letters is queued first, some of each cause at random. When all of them have ended and at least the part `success` completed, the redrive goes on with the others by itself. Once that can no longer be reached, or when the sample has not ended within `timeout_seconds` (3600), its state is `stopped`, and `canary.reason` says why. A job that fails and completes in a later attempt counts as completed.
//	@Description
//	@Description A redrive survives restarts of the servers. While a cap on active jobs is full, it waits. Jobs whose `dedupe_key` is held by a live job stay dead and are counted as `refused`. A tenant may have 16 redrives running; one more is 429 `rate_limited`. There is no Idempotency-Key: if an answer was lost, look at `GET /v1/redrives`, or repeat the request, because jobs that the first one has queued no longer match.
//	@Param       which body api.DeadLetterRequest true "The dead letters: `ids` or a `filter`."
//	@Success     200 {object} api.DeadLetterResponse "A result for each id; with `dry_run`, only the number."
//	@Success     default {object} api.Matched
//	@Success     202 {object} api.Redrive "With `filter`: the redrive has started."
//	@x-example-filter         {"filter": {"queue": "default", "fingerprint": "5f3c1a9e0b7d4c62"}, "rate_per_second": 50}
//	@x-example-filter-dry-run {"filter": {"reason": "exhausted", "after": "2026-01-31T12:00:00Z"}, "dry_run": true}
//	@x-example-canary  {"filter": {"queue": "default"}, "canary": {"count": 20, "success": 0.9, "timeout_seconds": 600}}
//	@x-example-ids     {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"]}
//	@x-example-dry-run {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"], "dry_run": true}
func (h *Handlers) RedriveDeadLetters(ctx context.Context, c *call.Call, r api.DeadLetterRequest) (call.Response[json.RawMessage], error) {
	return h.redriveOrDiscard(ctx, c, hop.RedriveDeadLetters, r)
}

// DiscardDeadLetters discards dead letters.
//
//	@Description Deletes dead letters: up to 1000 by `ids` at once, or all that match a `filter` in the background, with the same answers as a redrive. A repeat with the same ids is 404 for each.
//	@Param       which body api.DeadLetterRequest true "The dead letters: `ids` or a `filter`."
//	@Success     200 {object} api.DeadLetterResponse "A result for each id; with `dry_run`, only the number."
//	@Success     default {object} api.Matched
//	@Success     202 {object} api.Redrive "With `filter`: the redrive has started."
//	@x-example-filter         {"filter": {"queue": "default", "reason": "permanent", "before": "2026-01-31T12:00:00Z"}}
//	@x-example-filter-dry-run {"filter": {}, "dry_run": true}
//	@x-example-ids     {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"]}
//	@x-example-dry-run {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"], "dry_run": true}
func (h *Handlers) DiscardDeadLetters(ctx context.Context, c *call.Call, r api.DeadLetterRequest) (call.Response[json.RawMessage], error) {
	if fields := r.RefuseCanary(); len(fields) > 0 {
		return call.Response[json.RawMessage]{}, problem.Invalid(fields...)
	}
	return h.redriveOrDiscard(ctx, c, hop.DiscardDeadLetters, r)
}

// redriveOrDiscard passes on a list of dead letters, or a filter. A malformed id is sent
// as an empty one: core answers it in its place, as an unknown job.
func (h *Handlers) redriveOrDiscard(ctx context.Context, c *call.Call, op hop.Op[api.DeadLetterRequest, json.RawMessage], r api.DeadLetterRequest) (call.Response[json.RawMessage], error) {
	if fields := r.Validate(); len(fields) > 0 {
		return call.Response[json.RawMessage]{}, problem.Invalid(fields...)
	}
	for i, given := range r.IDs {
		id, ok := request.UUID(given)
		if !ok {
			id = ""
		}
		r.IDs[i] = id
	}
	answer, err := call.Send(ctx, h.core, c, op, r)
	if err != nil || r.DryRun {
		return answer, err
	}
	if r.Filter != nil {
		answer.Status = http.StatusAccepted
		return answer, nil
	}
	answer.Value, err = signResults(c, answer.Value, len(r.IDs))
	return answer, err
}

// signResults signs the problems in core's results, see Call.Sign.
func signResults(c *call.Call, answer json.RawMessage, want int) (json.RawMessage, error) {
	var response api.DeadLetterResponse
	if err := json.Unmarshal(answer, &response); err != nil {
		return nil, fmt.Errorf("%w: %w: results of dead letters: %w", cellclient.ErrOutcomeUnknown, cellclient.ErrContract, err)
	}
	if got := len(response.Results); got != want {
		return nil, call.ErrMissingItems(got, want)
	}
	for i := range response.Results {
		if p := response.Results[i].Problem; p != nil {
			response.Results[i].Problem = c.Sign(call.UniformNotFound(p))
		}
	}
	return call.Encode(response)
}

// ListRedrives lists redrives.
//
//	@Description Redrives and discards by filter, newest first: those that are running, and those that ended in the last 30 days. A key that is bound to a user sees those started by that user's keys.
//	@Success     200 {object} api.Page[api.Redrive] "A page of redrives."
func (h *Handlers) ListRedrives(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Paged(ctx, h.core, c, hop.ListRedrives)
}

// GetRedrive reads a redrive.
//
//	@Description The progress of a redrive or a discard by filter. `waiting` says why it is waiting, `error` why it failed. `canary`, of a redrive with one, is the sample and what became of it.
//	@Success     200 {object} api.Redrive "The redrive as it is now."
func (h *Handlers) GetRedrive(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByID(ctx, h.core, c, hop.GetRedrive)
}

// CancelRedrive cancels a redrive.
//
//	@Description After the answer, no more jobs are processed; those already processed are not reverted. A redrive that has ended does not change, and a repeat changes nothing.
//	@Success     200 {object} api.Redrive "The redrive in its final state."
func (h *Handlers) CancelRedrive(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByID(ctx, h.core, c, hop.CancelRedrive)
}
