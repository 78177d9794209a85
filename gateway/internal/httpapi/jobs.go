package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// submitJob answers POST /v1/jobs with an api.SubmitResponse: 202 and Location
// for a new job, 200 where dedupe_key found a live one. A repeat with the same
// Idempotency-Key and body gets the first answer again.
//
// Prefer: wait=n holds the answer to a new job for n seconds at most: 200 with the
// whole api.Job where it has ended by then. What was there before is not waited for.
//
//	@Summary     Submit a job
//	@Description Stores one job. 202 with the job as it waits, and `Location`; `warnings` say what keeps it waiting, such as a paused queue.
//	@Description
//	@Description With an `Idempotency-Key` a repeat gets the first answer again, marked `Idempotent-Replayed: true`: repeat safely when an answer was lost. With a `dedupe_key` that a live job has, 200 with that job and `deduplicated` true.
//	@Description
//	@Description `Prefer: wait=n` holds the answer for up to n seconds (25 at most): 200 with the whole job, result and all, where it has ended by then, else 202.
//	@ID          submitJob
//	@Tags        Jobs
//	@Param       job             body   api.SubmitRequest true  "The job. Only `type` is required."
//	@Param       Idempotency-Key header string            false "1 to 255 visible ASCII characters, bare or quoted; remembered for a day."
//	@Param       Prefer          header string            false "`wait=n`: hold the answer for up to n seconds."
//	@Success     202 {object} api.SubmitResponse "Accepted: the job is stored."
//	@Header      202 {string} Location "The job's path."
//	@Header      202 {string} Preference-Applied "`wait=n`, where it was waited for."
//	@Success     200 {object} api.SubmitResponse "A live job has the same dedupe_key, or the job has ended while the request waited."
//	@Success     default {object} api.Job
//	@Header      200,202 {string} Idempotent-Replayed "`true` where the first answer is given again."
//	@Header      200 {string} Location "The job's path, where the request waited for it."
//	@Header      200 {string} Preference-Applied "`wait=n`, where it was waited for."
//	@x-access    "submit"
//	@x-problems  ["cost_above_burst", "active_cap_reached", "queue_full", "too_many_lanes"]
//	@x-example-basic      {"type": "hash.sha256", "payload": {"text": "hello"}}
//	@x-example-scheduled {"type": "report.monthly", "queue": "reports", "delay_ms": 60000, "priority": 3, "max_attempts": 5, "timeout_ms": 120000, "retry": {"base_ms": 10000, "cap_ms": 600000, "jitter": 0.2}}
//	@x-example-everything {"type": "mail.send", "queue": "mail", "payload": {"to": "ada@example.com", "template": "welcome"}, "priority": 7, "tags": ["smtp"], "user": "ada", "metadata": {"order": "1042"}, "dedupe_key": "welcome-ada", "deadline": "2035-01-01T00:00:00Z"}
//	@Router      /v1/jobs [post]
func (s *Server) submitJob(ctx context.Context, c *call, job api.SubmitRequest) (reply[api.HopSubmitResponse], error) {
	if refused := admitJob(&job, c.principal(), ""); refused != nil {
		return reply[api.HopSubmitResponse]{}, refused
	}
	brought := admission.Submit(true, c.idempotency != nil)
	brought.Add(&job)
	if err := s.limiter.Charge(ctx, &c.account, brought); err != nil {
		return reply[api.HopSubmitResponse]{}, err
	}
	drawn, err := uuid.NewV7()
	if err != nil {
		return reply[api.HopSubmitResponse]{}, fmt.Errorf("draw a job id: %w", err)
	}
	answer, err := send[api.HopSubmitRequest, api.HopSubmitResponse](ctx, s, c, submitOp(c), api.HopSubmitRequest{
		IDs:         []string{drawn.String()},
		Jobs:        []api.SubmitRequest{job},
		Idempotency: c.idempotency,
	})
	c.body.Release() // the caller may wait for the job's end
	if err != nil {
		s.limiter.NoteCaps(ctx, c.principal().Tenant, brought, err)
		return answer, err
	}
	// A replay names the first job, so the id is the answer's, not the one drawn.
	id := idOf(answer.value)
	if id == "" {
		return reply[api.HopSubmitResponse]{}, fmt.Errorf("%w: a submitted job without an id", coreclient.ErrContract)
	}
	if answer.status != http.StatusAccepted {
		return answer, nil
	}
	answer.location = "/v1/jobs/" + id
	if answer.replayed {
		return answer, nil
	}
	return s.awaitEnd(ctx, c, id, answer), nil
}

// awaitEnd gives what is answered to a new job's producer: the job where it ends
// while the caller waits, else accepted as it is. The job is stored, so that a
// wait that fails is no error: the answer only does not claim to have waited.
func (s *Server) awaitEnd(ctx context.Context, c *call, id string, accepted reply[api.HopSubmitResponse]) reply[api.HopSubmitResponse] {
	left, applied := c.patience()
	if left > 0 {
		job, err := s.hold(ctx, c, left, api.HopWaitRequest{JobID: id, Ended: true})
		if err != nil {
			return accepted
		}
		if text, err := encode(job); err == nil && ended(job.State) {
			accepted.status, accepted.value = http.StatusOK, text
		}
	}
	accepted.applied = applied
	return accepted
}

// submitOp is the operation of core that a submit is.
func submitOp(c *call) coreclient.Op {
	return coreclient.Submit(c.principal().Tenant, c.idempotency != nil, c.account.Capped())
}

// submitBusy refuses a submit that core's queue has no place for.
func (s *Server) submitBusy(c *call) error { return s.core.Busy(submitOp(c), c.principal().Tenant) }

// admitJob judges one job of a submit, nil if it is good, and fills in the user
// of a user-bound key. prefix names the job in a batch, such as "jobs[3].".
func admitJob(job *api.SubmitRequest, who api.Principal, prefix string) *problem.Problem {
	if len(job.Payload) > api.MaxPayload {
		return fieldTooLarge(prefix+"payload", api.MaxPayload)
	}
	if fields := job.Validate(prefix, time.Now()); len(fields) > 0 {
		return problem.Invalid(fields...)
	}
	if who.User == "" {
		return nil
	}
	if job.User == nil {
		job.User = &who.User
	}
	if *job.User != who.User {
		return anotherUser(prefix+"user", "The key acts for one user, and the job names another.")
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

// anotherUser refuses a user-bound key that names a user not its own.
func anotherUser(field, detail string) *problem.Problem {
	p := problem.New(problem.Forbidden, detail)
	p.Errors = append(p.Errors, problem.FieldError{Field: field, Message: "must be the key's own user, or absent"})
	return p
}

// getJob answers GET /v1/jobs/{id} with the whole api.Job and its ETag; 304 where
// If-None-Match names it. A malformed, unknown or foreign id is 404, and so is
// another user's job for a user-bound key.
//
// Prefer: wait=n holds the answer until the state changes, n seconds at most. With
// If-None-Match a job that has changed already is answered at once.
//
//	@Summary     Read a job
//	@Description The whole job, with payload, result and the last error's stack, and an `ETag`.
//	@Description
//	@Description `Prefer: wait=n` holds the answer until the state changes, n seconds at most (25). With `If-None-Match` too, a job that has changed already is answered at once, and one that has not by then is 304: the way to follow a job.
//	@ID          getJob
//	@Tags        Jobs
//	@Param       id            path   string true  "The job's id." Format(uuid)
//	@Param       Prefer        header string false "`wait=n`: hold the answer for up to n seconds, until the state changes."
//	@Param       If-None-Match header string false "The ETag of what you have."
//	@Success     200 {object} api.Job "The job."
//	@Header      200,304 {string} ETag "Changes with anything in the answer."
//	@Header      200,304 {string} Preference-Applied "`wait=n`, where it was waited for."
//	@Success     304 "The job is as If-None-Match names it."
//	@x-access    "read"
//	@Router      /v1/jobs/{id} [get]
func (s *Server) getJob(ctx context.Context, c *call, _ none) (reply[json.RawMessage], error) {
	var nothing reply[json.RawMessage]
	id, err := c.id()
	if err != nil {
		return nothing, err
	}
	left, applied := c.patience()
	request := api.HopWaitRequest{JobID: id}
	if left == 0 || len(c.ifNoneMatch) > 0 {
		found, err := s.read(ctx, c, id)
		if err != nil {
			return nothing, err
		}
		answer, err := represent(c, &found)
		answer.applied = applied
		if left, _ = c.patience(); err != nil || left == 0 || answer.status != http.StatusNotModified {
			return answer, err
		}
		request.Seen = found.State
	}
	job, err := s.hold(ctx, c, left, request)
	if errors.Is(err, coreclient.ErrCutShort) { // not what was asked for, but what is known
		applied, c.wait = "", 0
		job, err = s.read(ctx, c, id)
	}
	if err != nil {
		return nothing, err
	}
	answer, err := represent(c, &job)
	answer.applied = applied
	return answer, err
}

// read asks core for a job as it is.
func (s *Server) read(ctx context.Context, c *call, id string) (api.Job, error) {
	found, err := send[api.HopGetRequest, api.Job](ctx, s, c, coreclient.Read(api.HopGet), api.HopGetRequest{JobID: id})
	return found.value, err
}

// represent makes the answer that shows a job, with its ETag: 304 where the
// caller has named it in If-None-Match.
func represent(c *call, job *api.Job) (reply[json.RawMessage], error) {
	text, err := encode(job)
	if err != nil {
		return reply[json.RawMessage]{}, fmt.Errorf("encode a job: %w", err)
	}
	answer := reply[json.RawMessage]{status: http.StatusOK, value: text, etag: request.ETag(text)}
	if request.NoneMatch(c.ifNoneMatch, answer.etag) {
		answer.status = http.StatusNotModified
	}
	return answer, nil
}

// idOf finds the id in core's answer to a submit; "" where it has none. It reads no
// further than that, and core says it first.
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
