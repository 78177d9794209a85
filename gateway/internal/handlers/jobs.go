package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListJobs lists jobs.
//
//	@Description Jobs without payload, result and stack, newest id first. All given filters must match. A page can be short or empty while `next_page_token` is set: continue until it is null. A token is valid only with the same filters.
//	@Description
//	@Description `metadata.K=V` may be given for several K. A key that is bound to a user lists that user's jobs.
//	@Param       queue          query string false "Jobs of this queue."
//	@Param       type           query string false "Jobs of this type."
//	@Param       state          query string false "Jobs in one of these states, with commas between: blocked, scheduled, queued, running, completed, dead_letter, cancelled."
//	@Param       tag            query string false "Jobs with this tag."
//	@Param       user           query string false "Jobs of this user."
//	@Param       dedupe_key     query string false "Jobs with this deduplication key."
//	@Param       key            query string false "Jobs of this key."
//	@Param       metadata       query object false "Only jobs with this metadata: an object whose members become parameters such as metadata.order."
//	@Param       created_after  query string false "Jobs submitted after this time." Format(date-time)
//	@Param       created_before query string false "Jobs submitted before this time." Format(date-time)
//	@Success     200 {object} api.Page[api.JobSummary] "A page of jobs."
func (h *Handlers) ListJobs(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	q := request.NewQuery(c.Query)
	page, filter := q.Page(), readJobFilter(q)
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	if who := c.Principal(); who.User != "" {
		if filter.User == "" {
			filter.User = who.User
		}
		if filter.User != who.User {
			return call.Passed{}, anotherUser("user", "The key is bound to a user, and the list asks for the jobs of another user.")
		}
	}
	return call.Pass(ctx, h.core, c, hop.ListJobs,
		hop.Filtered[api.JobFilter]{Filter: filter, PageRequest: page})
}

func readJobFilter(q *request.Query) api.JobFilter {
	return api.JobFilter{
		Queue: q.Queue("queue"),
		Type:  q.Name("type"),
		States: q.SomeOf("state", api.StateBlocked, api.StateScheduled, api.StateWaiting, api.StateQueued, api.StateRunning,
			api.StateCompleted, api.StateDeadLetter, api.StateCancelled),
		Tag:           q.Name("tag"),
		User:          q.Label("user"),
		DedupeKey:     q.Label("dedupe_key"),
		Key:           q.Label("key"),
		Metadata:      q.Metadata(),
		CreatedAfter:  q.Time("created_after"),
		CreatedBefore: q.Time("created_before"),
	}
}

// GetJob reads a job. Prefer: wait=n delays the answer until the state changes, for n seconds at most. With
// If-None-Match a job that has changed already is returned at once.
//
//	@Description The whole job, with payload, result and the last error's stack, and an `ETag`.
//	@Description
//	@Description `Prefer: wait=n` delays the answer until the state changes, for at most n seconds (25). With `If-None-Match` as well, a job that has already changed is returned at once, and one that has not changed by then is 304. This is how to follow a job.
//	@Param       Prefer        header string false "`wait=n`: delay the answer for up to n seconds, until the state changes."
//	@Param       If-None-Match header string false "The ETag of the version that you have."
//	@Success     200 {object} api.Job "The job."
//	@Header      200,304 {string} ETag "Changes whenever the answer changes."
//	@Header      200,304 {string} Preference-Applied "`wait=n`, if the request waited."
//	@Success     304 "The job has not changed since the ETag in If-None-Match."
func (h *Handlers) GetJob(ctx context.Context, c *call.Call, _ call.None) (call.Response[json.RawMessage], error) {
	var nothing call.Response[json.RawMessage]
	id, err := c.ID()
	if err != nil {
		return nothing, err
	}
	left, applied := c.PreferredWait()
	request := hop.WaitForJobRequest{ID: id}
	if left == 0 || len(c.IfNoneMatch) > 0 {
		found, err := h.readText(ctx, c, id)
		if err != nil {
			return nothing, err
		}
		answer := represent(c, found)
		answer.Applied = applied
		if left, _ = c.PreferredWait(); left == 0 || answer.Status != http.StatusNotModified {
			return answer, nil
		}
		request.Seen = member(found, "state")
	}
	job, err := h.waitForChange(ctx, c, left, request)
	if errors.Is(err, cellclient.ErrCutShort) { // the wait was cut short: answer the job as it is
		applied, c.Wait = "", 0
		job, err = h.readText(ctx, c, id)
	}
	if err != nil {
		return nothing, err
	}
	answer := represent(c, job)
	answer.Applied = applied
	return answer, nil
}

// readText asks core for a job as it is, which is passed on.
func (h *Handlers) readText(ctx context.Context, c *call.Call, id string) (json.RawMessage, error) {
	found, err := call.Send(ctx, h.core, c, hop.Raw(hop.GetJob), hop.ID{ID: id})
	return found.Value, err
}

// read asks core for a job as it is.
func (h *Handlers) read(ctx context.Context, c *call.Call, id string) (api.Job, error) {
	found, err := call.Send(ctx, h.core, c, hop.GetJob, hop.ID{ID: id})
	return found.Value, err
}

// represent makes the answer that shows a job, with its ETag: 304 where the
// caller has named it in If-None-Match.
func represent(c *call.Call, text json.RawMessage) call.Response[json.RawMessage] {
	answer := call.Response[json.RawMessage]{Status: http.StatusOK, Value: text, ETag: hop.ETag(text)}
	if request.NoneMatch(c.IfNoneMatch, answer.ETag) {
		answer.Status = http.StatusNotModified
	}
	return answer
}

// ExplainJob explains why a job waits.
//
//	@Description All reasons that keep the job from starting now, from the state that the scheduler decides by, each with what ends it, and `until` if it is known when. A running or ended job has that as its reason. `in_line` stands alone: the job is ready, and `ahead` says how many jobs of the same queue, type and tags are claimed before it (counted up to 10,000). `estimate` says when its turn is likely to come, by how fast its line has moved lately; it is null where that is not known, as in a paused queue, or where no job has started for a while. With `details=true`, `job` and `attempts` are the job and its first 200 attempts, read at the same moment; else they are absent.
//	@Param       details query string false "`true`: with the job and its attempts." Enums(true, false)
//	@Success     200 {object} api.Explanation "Why the job waits."
func (h *Handlers) ExplainJob(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	id, err := c.ID()
	if err != nil {
		return call.Passed{}, err
	}
	q := request.NewQuery(c.Query)
	asked := hop.ExplainJobRequest{ID: id, Details: q.OneOf("details", "true", "false") == "true"}
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.ExplainJob, asked)
}

// CancelJob cancels a job.
//
//	@Description A waiting job is cancelled at once: 200, and 200 again for a repeat. For a running job, cancellation is requested: 202, and its worker gets `cancel` with the next heartbeat. If the worker completes the job anyway, it stays completed; any other outcome ends it as cancelled.
//	@Success     200 {object} api.JobSummary "The job is cancelled."
//	@Success     202 {object} api.JobSummary "The job is running; cancellation is requested."
//	@x-problems  ["job_terminal"]
func (h *Handlers) CancelJob(ctx context.Context, c *call.Call, _ call.None) (call.Response[api.JobSummary], error) {
	id, err := c.ID()
	if err != nil {
		return call.Response[api.JobSummary]{}, err
	}
	answer, err := call.Send(ctx, h.core, c, hop.CancelJob, hop.ID{ID: id})
	if err != nil {
		return call.Response[api.JobSummary]{}, err
	}
	status := http.StatusOK
	if answer.Value.Requested {
		status = http.StatusAccepted
	}
	return call.Response[api.JobSummary]{Status: status, Value: answer.Value.Job}, nil
}

// DeleteJob deletes an ended job.
//
//	@Description Deletes a job that has completed, was cancelled or is a dead letter, with its attempts, before its retention ends. Jobs that a dead letter holds (`on_failed` `hold`) are cancelled. The `Idempotency-Key` of its submit still returns the first answer. A live job is 409: cancel it first.
//	@Success     204 "The job is deleted."
//	@x-problems  ["job_live"]
func (h *Handlers) DeleteJob(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	return call.NoContent(call.ByID(ctx, h.core, c, hop.DeleteJob))
}

// ListAttempts lists a job's attempts.
//
//	@Description Each attempt, oldest first: the worker, the times, how it ended and why. A snooze or a release does not count as an attempt. Attempts are kept for 30 days.
//	@Success     200 {object} api.Page[api.Attempt] "A page of attempts."
func (h *Handlers) ListAttempts(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.PageFor(ctx, h.core, c, hop.ListAttempts, c.ID)
}
