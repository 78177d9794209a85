package httpapi

import (
	"context"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/idempotency"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ofTenant gives the tenant that a principal acts for.
func ofTenant(p api.Principal) (tenant.ID, error) {
	id, err := uuid.Parse(p.Tenant)
	if p.Kind != api.PrincipalTenant || err != nil || id == tenant.Platform {
		return tenant.ID{}, problem.New(problem.Forbidden, "This needs a tenant's key.")
	}
	return id, nil
}

// ofWorker gives whose worker a principal is: a tenant's, or the platform's. A
// user-bound key cannot be a worker: a claim takes what is next in line, whoever
// the user is.
func ofWorker(p api.Principal) (tenant.ID, error) {
	if p.Kind == api.PrincipalPlatform {
		return tenant.Platform, nil
	}
	if p.User != "" {
		return tenant.ID{}, problem.New(problem.Forbidden, "A key that is bound to a user cannot claim. Use one without a user.")
	}
	return ofTenant(p)
}

// jobID reads a job's id. One that is malformed is simply not found.
func jobID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return uuid.UUID{}, store.ErrNotFound
	}
	return id, nil
}

// submit stores all items' jobs in one commit.
func (s *Server) submit(ctx context.Context, items []api.Item[api.HopSubmitRequest]) []api.Result[api.HopSubmitResponse] {
	results := make([]api.Result[api.HopSubmitResponse], len(items))
	calls := make([]dispatch.SubmitCall, 0, len(items))
	places := make([]int, 0, len(items))
	spans := itemSpans(ctx, items)
	for i := range items {
		call, err := submitCall(&items[i])
		if err != nil {
			results[i] = result[api.HopSubmitRequest, api.HopSubmitResponse](ctx, &items[i], nil, err)
			continue
		}
		if spans != nil {
			call.Span = spans[i].SpanContext()
		}
		calls, places = append(calls, call), append(places, i)
	}
	for i, answer := range s.Dispatcher.Submit(ctx, calls) {
		results[places[i]] = submitResult(ctx, &items[places[i]], &answer)
	}
	for i, span := range spans {
		endSpan(span, &results[i])
	}
	return results
}

// submitResult is the result of one item.
func submitResult(ctx context.Context, item *api.Item[api.HopSubmitRequest], answer *dispatch.SubmitAnswer) api.Result[api.HopSubmitResponse] {
	switch {
	case answer.Alone:
		return api.Result[api.HopSubmitResponse]{Status: http.StatusConflict, Alone: true}
	case answer.Err != nil:
		return result[api.HopSubmitRequest, api.HopSubmitResponse](ctx, item, nil, answer.Err)
	case answer.Problem != nil:
		return api.Result[api.HopSubmitResponse]{Status: answer.Problem.Status, Problem: answer.Problem}
	case answer.Saved != nil:
		return api.Result[api.HopSubmitResponse]{Status: answer.Saved.Status, Replayed: answer.Replayed, Value: &answer.Saved.Body}
	}
	response, err := renderSubmit(&answer.Answer)
	if err != nil {
		return result[api.HopSubmitRequest, api.HopSubmitResponse](ctx, item, nil, err)
	}
	return api.Result[api.HopSubmitResponse]{Status: response.Status, Value: &response.Body}
}

func submitCall(item *api.Item[api.HopSubmitRequest]) (dispatch.SubmitCall, error) {
	request := &item.Request
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return dispatch.SubmitCall{}, err
	}
	n := len(request.Jobs)
	if n == 0 || n > api.MaxBatchJobs || len(request.IDs) != n || (!request.Batch && n != 1) ||
		(request.Problems != nil && len(request.Problems) != n) {
		return dispatch.SubmitCall{}, problem.New(problem.InvalidRequest, "ids, jobs and problems must run in parallel, 1 to 1000 of them.")
	}
	call := dispatch.SubmitCall{
		Tenant: owner, User: item.Principal.User, IDs: make([]uuid.UUID, n), Jobs: request.Jobs, Refused: request.Problems,
		Batch: request.Batch, Atomic: request.Atomic, Shared: item.Shared, Render: renderSubmit, CorrelationID: item.CorrelationID, Traceparent: item.Traceparent,
	}
	for i, text := range request.IDs {
		if call.IDs[i], err = uuid.Parse(text); err != nil {
			return call, problem.New(problem.InvalidRequest, "ids must be UUIDs.")
		}
		if !retention.ValidID(call.IDs[i], time.Now()) {
			return call, problem.New(problem.Overloaded, "The gateway's clock is ahead of core's by many hours, or it makes no UUIDs of version 7. Nothing was stored.")
		}
		// The gateway has judged them already, and with field names that its caller
		// knows. What it lets through by mistake must not become a wrong row.
		if call.Refused == nil || call.Refused[i] == nil {
			if fields := request.Jobs[i].Validate("", time.Now()); len(fields) > 0 {
				return call, problem.Invalid(fields...)
			}
		}
	}
	if key := request.Idempotency; key != nil {
		fingerprint, err := hex.DecodeString(key.Fingerprint)
		if err != nil || len(fingerprint) != 32 {
			return call, problem.New(problem.InvalidRequest, "The fingerprint must be a SHA-256 in hex.")
		}
		call.Idempotency = &idempotency.Request{Operation: key.Operation, Key: key.Key, Fingerprint: [32]byte(fingerprint)}
	}
	return call, nil
}

func (s *Server) get(ctx context.Context, item api.Item[api.HopGetRequest]) (api.Job, error) {
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return api.Job{}, err
	}
	id, err := jobID(item.Request.JobID)
	if err != nil {
		return api.Job{}, err
	}
	return s.Store.Get(ctx, owner, item.Principal.User, id)
}
