package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// SubmitJob answers POST /v1/jobs.
//
// Prefer: wait=n holds the answer to a new job for n seconds at most: 200 with the
// whole api.Job where it has ended by then. It does not wait for an existing job.
//
//	@Summary     Submit a job
//	@Description Stores one job. The answer is 202 with the job and its `Location`; `warnings` says what delays it, for example a paused queue.
//	@Description
//	@Description With an `Idempotency-Key`, a repeat gets the first answer again, with `Idempotent-Replayed: true`, so a request whose answer was lost can be repeated safely. If a live job has the same `dedupe_key`, the answer is 200 with that job and `deduplicated` true.
//	@Description
//	@Description With `after`, a list of other jobs, the job is `blocked` until they have ended. Each entry is an id, or an object with `on_failed`, which applies if the other job became a dead letter or was cancelled: `cancel` (the default) cancels this job, `run` runs it anyway, `hold` waits for a redrive. An unknown id is 400.
//	@Description
//	@Description With `deadline`, or `expires_after_ms` from when it is stored, a job that has not ended by then becomes a dead letter. Both are 400.
//	@Description
//	@Description With `max_wait_ms`, a job whose turn is likely to come later than that is refused (429 `would_wait`); `policies` has the estimate. A job for which it is not known is accepted.
//	@Description
//	@Description `Prefer: wait=n` delays the answer for up to n seconds (at most 25): 200 with the whole job and its result if it has ended by then, otherwise 202.
//	@ID          submitJob
//	@Tags        Jobs
//	@Param       job             body   api.SubmitRequest true  "The job. Only `type` is required."
//	@Param       Idempotency-Key header string            false "1 to 255 visible ASCII characters, with or without quotes; kept for 24 hours."
//	@Param       Prefer          header string            false "`wait=n`: delay the answer for up to n seconds, until the job has ended."
//	@Success     202 {object} api.SubmitResponse "Accepted: the job is stored."
//	@Header      202 {string} Location "The job's path."
//	@Header      202 {string} Preference-Applied "`wait=n`, if the request waited."
//	@Success     200 {object} api.SubmitResponse "A live job has the same dedupe_key, or the job ended while the request waited."
//	@Success     default {object} api.Job
//	@Header      200,202 {string} Idempotent-Replayed "`true` if this is the stored answer of the first request."
//	@Header      200 {string} Location "The job's path, if the request waited for it."
//	@Header      200 {string} Preference-Applied "`wait=n`, if the request waited."
//	@x-problems  ["cost_above_burst", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "schema_mismatch"]
//	@x-example-basic      {"type": "hash.sha256", "payload": {"text": "hello"}}
//	@x-example-scheduled {"type": "report.monthly", "queue": "reports", "delay_ms": 60000, "priority": 3, "max_attempts": 5, "timeout_ms": 120000, "retry": {"base_ms": 10000, "cap_ms": 600000, "jitter": 0.2}}
//	@x-example-everything {"type": "mail.send", "queue": "mail", "payload": {"to": "ada@example.com", "template": "welcome"}, "priority": 7, "tags": ["smtp"], "user": "ada", "metadata": {"order": "1042"}, "dedupe_key": "welcome-ada", "deadline": "2035-01-01T00:00:00Z"}
func (h *Handlers) SubmitJob(ctx context.Context, c *Call, job api.SubmitRequest) (Response[hop.SubmitResponse], error) {
	if refused := admitJob(&job, c.Principal(), ""); refused != nil {
		return Response[hop.SubmitResponse]{}, refused
	}
	brought := admission.Submit(true, c.Idempotency != nil)
	brought.Add(&job)
	if err := h.limiter.Charge(ctx, &c.Account, brought); err != nil {
		return Response[hop.SubmitResponse]{}, err
	}
	misfit, err := h.conformOne(ctx, c, &job, "")
	if err != nil {
		return Response[hop.SubmitResponse]{}, err
	}
	if misfit != nil && c.Idempotency == nil {
		return Response[hop.SubmitResponse]{}, misfit
	}
	drawn, err := uuid.NewV7()
	if err != nil {
		return Response[hop.SubmitResponse]{}, fmt.Errorf("draw a job id: %w", err)
	}
	request := hop.SubmitJobsRequest{IDs: []string{drawn.String()}, Jobs: []api.SubmitRequest{job}, Idempotency: c.Idempotency}
	if misfit != nil { // unless it is a repeat of one that was accepted
		request.Problems = []*problem.Problem{c.Sign(misfit)}
	}
	answer, err := sendAs(ctx, h, c, hop.SubmitJobs, howToSubmit(c, len(job.After) > 0), request)
	c.Body.Release() // the caller may wait for the job's end
	if err != nil {
		h.limiter.NoteCaps(ctx, c.Principal().Tenant, brought, err)
		return answer, err
	}
	return h.submitted(ctx, c, answer)
}

// submitted gives the answer to a submit of one job that core has accepted: with its
// Location, and after the wait that the caller prefers.
func (h *Handlers) submitted(ctx context.Context, c *Call, answer Response[hop.SubmitResponse]) (Response[hop.SubmitResponse], error) {
	// A replay names the first job: the id is the answer's, not the one generated here.
	id := idOf(answer.Value)
	if id == "" {
		return Response[hop.SubmitResponse]{}, fmt.Errorf("%w: a submitted job without an id", coreclient.ErrContract)
	}
	if answer.Status != http.StatusAccepted {
		return answer, nil
	}
	answer.Location = "/v1/jobs/" + id
	if answer.Replayed {
		return answer, nil
	}
	return h.awaitEnd(ctx, c, id, answer), nil
}

// awaitEnd gives the answer to a new job's producer: the job if it ends during the
// wait, else accepted as it is. The job is stored, so that a failed wait is no
// error: the answer only has no Preference-Applied.
func (h *Handlers) awaitEnd(ctx context.Context, c *Call, id string, accepted Response[hop.SubmitResponse]) Response[hop.SubmitResponse] {
	left, applied := c.preferredWait()
	if left > 0 {
		job, err := h.hold(ctx, c, left, hop.WaitForJobRequest{ID: id, Ended: true})
		if err != nil {
			return accepted
		}
		if text, err := Encode(job); err == nil && Ended(job.State) {
			accepted.Status, accepted.Value = http.StatusOK, text
		}
	}
	accepted.Applied = applied
	return accepted
}

// idOf finds the id in core's answer to a submit; "" where it has none. It reads no
// further than that, and core writes it first.
func idOf(answer json.RawMessage) string {
	from := jsontext.NewDecoder(bytes.NewBuffer(answer))
	if token, err := from.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return ""
	}
	for from.PeekKind() == jsontext.KindString {
		name, err := from.ReadToken()
		if err != nil {
			return ""
		}
		if name.String() == "id" && from.PeekKind() == jsontext.KindString {
			id, err := from.ReadToken()
			if err != nil {
				return ""
			}
			return id.String()
		}
		if from.SkipValue() != nil {
			return ""
		}
	}
	return ""
}

// SubmitBatch answers POST /v1/jobs/batch.
//
//	@Summary     Submit up to 1000 jobs
//	@Description `results` has a status for each job, in the order sent: some can be accepted and others refused. With `atomic`, either all jobs are stored or none; then the first refused job's status and problem are the answer.
//	@Description
//	@Description A batch is charged as one request, and its jobs one by one. With an `Idempotency-Key`, a repeat of the whole batch gets the first answer again. The body may have 8 MiB.
//	@ID          submitBatch
//	@Tags        Jobs
//	@Param       batch           body   api.BatchRequest true  "The jobs."
//	@Param       Idempotency-Key header string           false "1 to 255 visible ASCII characters, with or without quotes; kept for 24 hours."
//	@Success     200 {object} api.BatchResponse "A result for each job."
//	@Header      200 {string} Idempotent-Replayed "`true` if this is the stored answer of the first request."
//	@x-problems  ["cost_above_burst", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "schema_mismatch"]
//	@x-example-basic  {"jobs": [{"type": "hash.sha256", "payload": {"text": "one"}}, {"type": "hash.sha256", "payload": {"text": "two"}}]}
//	@x-example-whole  {"jobs": [{"type": "hash.sha256", "payload": {"text": "all"}}, {"type": "hash.sha256", "payload": {"text": "or none"}}], "atomic": true}
func (h *Handlers) SubmitBatch(ctx context.Context, c *Call, batch api.BatchRequest) (Response[hop.SubmitResponse], error) {
	var nothing Response[hop.SubmitResponse]
	if fields := batch.Validate(); len(fields) > 0 {
		return nothing, problem.Invalid(fields...)
	}
	request := hop.SubmitJobsRequest{Jobs: batch.Jobs, Batch: true, Atomic: batch.Atomic, Idempotency: c.Idempotency}
	for range batch.Jobs {
		id, err := uuid.NewV7()
		if err != nil {
			return nothing, fmt.Errorf("draw a job id: %w", err)
		}
		request.IDs = append(request.IDs, id.String())
	}
	problems, refused := admitJobs(c, batch.Jobs)
	switch {
	case refused > 0 && batch.Atomic:
		return nothing, firstOf(problems)
	case refused == len(batch.Jobs) && c.Idempotency == nil:
		return allRefused(problems) // nothing for core to store or to replay
	case refused > 0:
		request.Problems = problems
	}
	brought := workOf(c, batch, problems)
	if err := h.limiter.Charge(ctx, &c.Account, brought); err != nil {
		return nothing, err
	}
	problems, err := h.conformBatch(ctx, c, batch.Jobs, request.Problems)
	if err != nil {
		return nothing, err
	}
	request.Problems = problems
	switch misfit := firstOf(request.Problems); {
	case misfit != nil && batch.Atomic && c.Idempotency == nil:
		return nothing, misfit
	case c.Idempotency == nil && noneLeft(request.Problems):
		return allRefused(request.Problems)
	}
	for i, refused := range request.Problems {
		if refused != nil { // it is not sent
			batch.Jobs[i] = api.SubmitRequest{}
		}
	}
	answer, err := sendAs(ctx, h, c, hop.SubmitJobs, howToSubmit(c, anyAfter(batch.Jobs)), request)
	if err != nil {
		h.limiter.NoteCaps(ctx, c.Principal().Tenant, brought, err)
	}
	return answer, err
}

// conformBatch adds to problems, which may be nil, those of jobs that do not fit their types. It gives nil for none.
func (h *Handlers) conformBatch(ctx context.Context, c *Call, jobs []api.SubmitRequest, problems []*problem.Problem) ([]*problem.Problem, error) {
	asked := make([]*api.SubmitRequest, len(jobs))
	for i := range jobs {
		if problems == nil || problems[i] == nil {
			asked[i] = &jobs[i]
		}
	}
	found, err := h.conform(ctx, c, asked, func(i int) string { return fmt.Sprintf("jobs[%d].", i) })
	if err != nil {
		return nil, err
	}
	for i, misfit := range found {
		if misfit == nil {
			continue
		}
		if problems == nil {
			problems = make([]*problem.Problem, len(jobs))
		}
		problems[i] = c.Sign(misfit)
	}
	return problems, nil
}

// noneLeft says that each job is refused.
func noneLeft(problems []*problem.Problem) bool {
	return len(problems) > 0 && !slices.Contains(problems, nil)
}

// workOf counts the jobs that are sent to core.
func workOf(c *Call, batch api.BatchRequest, problems []*problem.Problem) admission.Work {
	brought := admission.Submit(batch.Atomic, c.Idempotency != nil)
	for i := range batch.Jobs {
		if problems[i] == nil {
			brought.Add(&batch.Jobs[i])
		}
	}
	return brought
}

// admitJobs validates each job separately. A refused one is not sent: its element of
// jobs is cleared, and its problem has the same index in problems.
func admitJobs(c *Call, jobs []api.SubmitRequest) (problems []*problem.Problem, refused int) {
	problems = make([]*problem.Problem, len(jobs))
	for i := range jobs {
		p := admitJob(&jobs[i], c.Principal(), fmt.Sprintf("jobs[%d].", i))
		if p == nil {
			continue
		}
		problems[i] = c.Sign(p)
		jobs[i] = api.SubmitRequest{}
		refused++
	}
	return problems, refused
}

func firstOf(problems []*problem.Problem) error {
	for _, p := range problems {
		if p != nil {
			return p
		}
	}
	return nil
}

func allRefused(problems []*problem.Problem) (Response[hop.SubmitResponse], error) {
	response := api.BatchResponse{Results: make([]api.BatchResult, len(problems)), Rejected: len(problems)}
	for i, p := range problems {
		response.Results[i] = api.BatchResult{Index: i, Status: p.Status, Problem: p}
	}
	text, err := Encode(response)
	return Response[hop.SubmitResponse]{Value: text}, err
}

// howToSubmit is how a submit goes to core. linked says that a job comes after others: core
// stores it under the tenant's lock.
func howToSubmit(c *Call, linked bool) coreclient.How {
	return coreclient.Submit(c.Principal().Tenant, c.Idempotency != nil, c.Account.Capped() || linked)
}

func anyAfter(jobs []api.SubmitRequest) bool {
	return slices.ContainsFunc(jobs, func(job api.SubmitRequest) bool { return len(job.After) > 0 })
}

// SubmitBusy refuses a submit that core's queue has no place for.
func (h *Handlers) SubmitBusy(c *Call) error {
	return h.core.Busy(hop.SubmitJobs.Operation, howToSubmit(c, false), c.Principal().Tenant)
}

// admitJob validates one job of a submit, nil if it is valid, and sets the user of
// a user-bound key. prefix names the job in a batch, such as "jobs[3].".
func admitJob(job *api.SubmitRequest, who hop.Principal, prefix string) *problem.Problem {
	return admitFields(job, job.Validate(prefix, time.Now()), who, prefix)
}

// admitFields is admitJob for a job whose wrong fields are known.
func admitFields(job *api.SubmitRequest, wrong []problem.FieldError, who hop.Principal, prefix string) *problem.Problem {
	if len(job.Payload) > api.MaxPayload {
		return fieldTooLarge(prefix+"payload", api.MaxPayload)
	}
	if len(wrong) > 0 {
		return problem.Invalid(wrong...)
	}
	if who.User == "" {
		return nil
	}
	if job.User == nil {
		job.User = &who.User
	}
	if *job.User != who.User {
		return anotherUser(prefix+"user", "The key is bound to a user, and the job names another user.")
	}
	return nil
}

// fieldTooLarge is a payload or result beyond its size: the same code as for a
// body, but it names the field.
func fieldTooLarge(field string, limit int) *problem.Problem {
	p := problem.New(problem.PayloadTooLarge, fmt.Sprintf("%s: may have at most %d bytes.", field, limit))
	p.Errors = append(p.Errors, problem.FieldError{Field: field, Message: fmt.Sprintf("may have at most %d bytes", limit)})
	return p
}
