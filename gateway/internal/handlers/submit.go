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
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/jobevents"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// SubmitJob submits a job. Prefer: wait=n delays the answer to a new job for n seconds at most: 200 with the
// whole api.Job where it has ended by then. It does not wait for an existing job.
//
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
//	@Param       job             body   api.SubmitRequest true  "The job. Only `type` is required."
//	@Param       Prefer          header string            false "`wait=n`: delay the answer for up to n seconds, until the job has ended."
//	@Success     202 {object} api.SubmitResponse "Accepted: the job is stored."
//	@Header      202 {string} Location "The job's path."
//	@Header      202 {string} Preference-Applied "`wait=n`, if the request waited."
//	@Success     200 {object} api.SubmitResponse "A live job has the same dedupe_key, or the job ended while the request waited."
//	@Success     default {object} api.Job
//	@Header      200,202 {string} Idempotent-Replayed "`true` if this is the stored answer of the first request."
//	@Header      200 {string} Location "The job's path, if the request waited for it."
//	@Header      200 {string} Preference-Applied "`wait=n`, if the request waited."
//	@x-problems  ["cost_above_burst", "cost_above_budget", "dedupe_conflict", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "schema_mismatch"]
//	@x-example-basic      {"type": "hash.sha256", "payload": {"text": "hello"}}
//	@x-example-scheduled {"type": "report.monthly", "queue": "reports", "delay_ms": 60000, "priority": 3, "max_attempts": 5, "timeout_ms": 120000, "retry": {"base_ms": 10000, "cap_ms": 600000, "jitter": 0.2}}
//	@x-example-everything {"type": "mail.send", "queue": "mail", "payload": {"to": "ada@example.com", "template": "welcome"}, "priority": 7, "tags": ["smtp"], "user": "ada", "metadata": {"order": "1042"}, "dedupe_key": "welcome-ada", "deadline": "2035-01-01T00:00:00Z"}
func (h *Handlers) SubmitJob(c *call.Call, job api.SubmitRequest) (hop.SubmitJobsRequest, admission.Cost, error) {
	cost := admission.Submit(true, c.Idempotency != nil)
	if refused := admitJob(&job, c.Principal(), ""); refused != nil {
		return hop.SubmitJobsRequest{}, admission.Cost{}, refused
	}
	cost.Add(&job)
	ids, err := drawIDs(1)
	return hop.SubmitJobsRequest{IDs: ids, Jobs: []api.SubmitRequest{job}, Idempotency: c.Idempotency}, cost, err
}

// uuidLength is that of an id's text.
const uuidLength = 36

// drawIDs draws the ids of n new jobs.
func drawIDs(n int) ([]string, error) {
	ids := make([]string, n)
	for i := range ids {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("draw an id: %w", err)
		}
		ids[i] = id.String()
	}
	return ids, nil
}

// Submit has core store validated jobs: one, a batch, or those of a workflow. Those that have a problem it refuses.
func (h *Handlers) Submit(ctx context.Context, c *call.Call, r hop.SubmitJobsRequest) (nothing call.Response[hop.SubmitResponse], err error) {
	if r.Problems, err = h.checkSchemas(ctx, c, &r); err != nil {
		return nothing, err
	}
	if c.Idempotency == nil { // else it may be the repeat of one that was accepted
		switch refused := firstOf(r.Problems); {
		case refused != nil && (!r.Batch || r.Atomic):
			return nothing, refused
		case noneLeft(r.Problems):
			return allRefused(r.Problems) // nothing for core to store or to replay
		}
	}
	for i, refused := range r.Problems {
		if refused != nil && r.Batch && r.Workflow == nil { // it is not sent
			r.Jobs[i] = api.SubmitRequest{}
		}
	}
	answer, err := call.SendAs(ctx, h.core, c, hop.SubmitJobs, howToSubmit(c, r.Workflow != nil || anyLocked(r.Jobs)), r)
	c.Body.Release() // the caller may wait for the job's end
	switch {
	case err != nil:
		return answer, err
	case r.Workflow != nil:
		// A replay names the first workflow: the id is the answer's, not the one generated here.
		if id := member(answer.Value, "id"); id != "" {
			answer.Location = "/v1/workflows/" + id
		}
		return answer, nil
	case r.Batch:
		return answer, nil
	}
	return h.submitted(ctx, c, answer)
}

// submitted gives the answer to a submit of one job that core has accepted: with its
// Location, and after the wait that the caller prefers.
func (h *Handlers) submitted(ctx context.Context, c *call.Call, answer call.Response[hop.SubmitResponse]) (call.Response[hop.SubmitResponse], error) {
	// A replay names the first job: the id is the answer's, not the one generated here.
	id := member(answer.Value, "id")
	if id == "" {
		return call.Response[hop.SubmitResponse]{}, fmt.Errorf("%w: a submitted job without an id", cellclient.ErrContract)
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
func (h *Handlers) awaitEnd(ctx context.Context, c *call.Call, id string, accepted call.Response[hop.SubmitResponse]) call.Response[hop.SubmitResponse] {
	left, applied := c.PreferredWait()
	if left > 0 {
		job, err := h.waitForChange(ctx, c, left, hop.WaitForJobRequest{ID: id, Ended: true})
		if err != nil {
			return accepted
		}
		if jobevents.Ended(member(job, "state")) {
			accepted.Status, accepted.Value = http.StatusOK, job
		}
	}
	accepted.Applied = applied
	return accepted
}

// member finds a member of core's answer that is text, such as a job's id or state; "" where it has none. It reads no
// further than that, and core writes these before what may be large.
func member(answer json.RawMessage, wanted string) string {
	if id, is := bytes.CutPrefix(answer, []byte(`{"id":"`)); is && wanted == "id" && len(id) > uuidLength && id[uuidLength] == '"' {
		return string(id[:uuidLength]) // as core writes it
	}
	from := jsontext.NewDecoder(bytes.NewBuffer(answer))
	if token, err := from.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return ""
	}
	for from.PeekKind() == jsontext.KindString {
		name, err := from.ReadToken()
		if err != nil {
			return ""
		}
		if name.String() == wanted && from.PeekKind() == jsontext.KindString {
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

// SubmitBatch submits up to 1000 jobs.
//
//	@Description `results` has a status for each job, in the order sent: some can be accepted and others refused. With `atomic`, either all jobs are stored or none; then the first refused job's status and problem are the answer.
//	@Description
//	@Description A batch is charged as one request, and its jobs one by one. With an `Idempotency-Key`, a repeat of the whole batch gets the first answer again. The body may have 8 MiB.
//	@Param       batch           body   api.BatchRequest true  "The jobs."
//	@Success     200 {object} api.BatchResponse "A result for each job."
//	@Header      200 {string} Idempotent-Replayed "`true` if this is the stored answer of the first request."
//	@x-problems  ["cost_above_burst", "cost_above_budget", "dedupe_conflict", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "schema_mismatch"]
//	@x-example-basic  {"jobs": [{"type": "hash.sha256", "payload": {"text": "one"}}, {"type": "hash.sha256", "payload": {"text": "two"}}]}
//	@x-example-whole  {"jobs": [{"type": "hash.sha256", "payload": {"text": "all"}}, {"type": "hash.sha256", "payload": {"text": "or none"}}], "atomic": true}
func (h *Handlers) SubmitBatch(c *call.Call, batch api.BatchRequest) (r hop.SubmitJobsRequest, cost admission.Cost, err error) {
	if fields := batch.Validate(); len(fields) > 0 {
		return r, cost, problem.Invalid(fields...)
	}
	problems := admitJobs(c, batch.Jobs)
	if refused := firstOf(problems); refused != nil && batch.Atomic {
		return r, cost, refused
	}
	cost = admission.Submit(batch.Atomic, c.Idempotency != nil)
	for i := range batch.Jobs {
		if problems == nil || problems[i] == nil {
			cost.Add(&batch.Jobs[i])
		}
	}
	ids, err := drawIDs(len(batch.Jobs))
	return hop.SubmitJobsRequest{
		IDs: ids, Jobs: batch.Jobs, Batch: true, Atomic: batch.Atomic, Problems: problems, Idempotency: c.Idempotency,
	}, cost, err
}

// noneLeft says that each job is refused.
func noneLeft(problems []*problem.Problem) bool {
	return len(problems) > 0 && !slices.Contains(problems, nil)
}

// admitJobs validates each job of a batch separately: a refused one has its problem at the same index. It returns nil
// where none is refused.
func admitJobs(c *call.Call, jobs []api.SubmitRequest) (problems []*problem.Problem) {
	for i := range jobs {
		p := admitJob(&jobs[i], c.Principal(), fmt.Sprintf("jobs[%d].", i))
		if p == nil {
			continue
		}
		if problems == nil {
			problems = make([]*problem.Problem, len(jobs))
		}
		problems[i] = c.Sign(p)
	}
	return problems
}

func firstOf(problems []*problem.Problem) error {
	for _, p := range problems {
		if p != nil {
			return p
		}
	}
	return nil
}

func allRefused(problems []*problem.Problem) (call.Response[hop.SubmitResponse], error) {
	response := api.BatchResponse{Results: make([]api.BatchResult, len(problems)), Rejected: len(problems)}
	for i, p := range problems {
		response.Results[i] = api.BatchResult{Index: i, Status: p.Status, Problem: p}
	}
	text, err := call.Encode(response)
	return call.Response[hop.SubmitResponse]{Value: text}, err
}

// howToSubmit is how a submit goes to core. locked says that a job comes after others, or replaces one: core
// stores it under the tenant's lock.
func howToSubmit(c *call.Call, locked bool) cellclient.How {
	return cellclient.Submit(c.Principal().Tenant, c.Idempotency != nil, c.Payer.Capped() || locked)
}

// anyLocked says that core stores a job under the tenant's lock.
func anyLocked(jobs []api.SubmitRequest) bool {
	return slices.ContainsFunc(jobs, func(job api.SubmitRequest) bool { return len(job.After) > 0 || job.Dedupe.Replaces() })
}

// SubmitBusy refuses a submit with a body of so many bytes, -1 if unknown, that core's queue has no place for.
func (h *Handlers) SubmitBusy(c *call.Call, size int64) error {
	return h.core.Busy(hop.SubmitJobs.Operation, howToSubmit(c, false), c.Principal().Tenant, size)
}

// admitJob validates one job of a submit, nil if it is valid, and sets the user of
// a user-bound key. prefix names the job in a batch, such as "jobs[3].".
func admitJob(job *api.SubmitRequest, who hop.Principal, prefix string) *problem.Problem {
	return admitFields(job, job.Validate(prefix, time.Now()), who, prefix)
}

// admitFields is admitJob for a job whose wrong fields are known.
func admitFields(job *api.SubmitRequest, wrong []problem.FieldError, who hop.Principal, prefix string) *problem.Problem {
	if len(job.Payload) > api.MaxPayload {
		return fieldTooLarge(prefix + "payload")
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
func fieldTooLarge(field string) *problem.Problem {
	const limit = api.MaxPayload // and api.MaxResult
	p := problem.New(problem.PayloadTooLarge, fmt.Sprintf("%s: may have at most %d bytes.", field, limit))
	p.Errors = append(p.Errors, problem.FieldError{Field: field, Message: fmt.Sprintf("may have at most %d bytes", limit)})
	return p
}

// anotherUser refuses a user-bound key that names a user not its own.
func anotherUser(field, detail string) *problem.Problem {
	p := problem.New(problem.Forbidden, detail)
	p.Errors = append(p.Errors, problem.FieldError{Field: field, Message: "must be the user that the key is bound to, or absent"})
	return p
}
