package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// putSchedule creates a schedule, or replaces all of its settings.
//
//	@x-problems  ["not_found"]
//	@x-example-nightly {"name": "nightly", "value": {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "job": {"type": "report.daily"}}}
func (s *Server) putSchedule(ctx context.Context, owner tenant.ID, item hop.Item[hop.Put[api.ScheduleRequest]]) (api.Schedule, error) {
	request := &item.Request
	// Validated by the gateway too, see submitCall.
	if fields := request.Value.Validate(time.Now()); len(fields) > 0 {
		return api.Schedule{}, problem.Invalid(fields...)
	}
	if !api.ValidName(request.Name) {
		return api.Schedule{}, store.ErrNotFound
	}
	if bound := item.Principal.User; bound != "" && (request.Value.Job.User == nil || *request.Value.Job.User != bound) {
		return api.Schedule{}, problem.New(problem.Forbidden, "The key is bound to a user, and the schedule's job names another user, or none.")
	}
	shown, err := s.Store.Schedules.PutSchedule(ctx, owner, item.Principal.User, request.Name, request.Value)
	if err == nil {
		s.Engine.Publisher.Schedules.Kick()
	}
	return shown, err
}

// getSchedule reads a schedule: its settings, its next ticks and its last run.
//
//	@x-problems  ["not_found"]
//	@x-example-schedule {"name": "nightly"}
func (s *Server) getSchedule(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (api.Schedule, error) {
	return s.Store.Schedules.GetSchedule(ctx, owner, item.Principal.User, item.Request.Name)
}

// listSchedules lists schedules, by name. A principal that is bound to a user sees that user's only.
func (s *Server) listSchedules(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Schedule], error) {
	of := listingOf(hop.ListSchedules.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return paged(s, of, nil, func(after string, size int) (api.Page[api.Schedule], error) {
		return s.Store.Schedules.ListSchedules(ctx, owner, item.Principal.User, after, size)
	})
}

// deleteSchedule deletes a schedule, with its runs. The jobs that it made stay.
//
//	@x-problems  ["not_found"]
//	@x-example-schedule {"name": "nightly"}
func (s *Server) deleteSchedule(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (struct{}, error) {
	return struct{}{}, s.Store.Schedules.DeleteSchedule(ctx, owner, item.Principal.User, item.Request.Name)
}

// pauseSchedule pauses or resumes a schedule. A repeat changes nothing.
//
//	@x-problems  ["not_found"]
//	@x-example-pause {"name": "nightly", "paused": true}
func (s *Server) pauseSchedule(ctx context.Context, owner tenant.ID, item hop.Item[hop.Pause]) (api.Schedule, error) {
	shown, err := s.Store.Schedules.PauseSchedule(ctx, owner, item.Principal.User, item.Request.Name, item.Request.Paused)
	if err == nil {
		s.Engine.Publisher.Schedules.Kick()
	}
	return shown, err
}

// listScheduleRuns lists a schedule's runs, newest first.
//
//	@x-problems  ["not_found"]
//	@x-example-schedule {"for": "nightly", "page_size": 50}
func (s *Server) listScheduleRuns(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageFor]) (api.Page[api.ScheduleRun], error) {
	of := listingOf(hop.ListScheduleRuns.Path, item.Principal, item.Request.For, item.Request.PageSize, item.Request.PageToken)
	key := func(run api.ScheduleRun) string { return strconv.FormatInt(run.At.UnixMicro(), 10) }
	return listed(s, of, newestTime, key, func(before *time.Time, limit int) ([]api.ScheduleRun, error) {
		return s.Store.Schedules.ScheduleRuns(ctx, owner, item.Principal.User, item.Request.For, before, limit)
	})
}

// triggerSchedules submits one job of a schedule now, under an id that the gateway drew (UUID v7). Its
// ticks stay as they are. The value is the public answer, ready to be sent.
//
//	@Success     200 {object} hop.Results[api.SubmitResponse] "An answer for each item."
//	@x-problems  ["not_found", "active_cap_reached", "queue_full", "too_many_lanes", "idempotency_in_flight", "idempotency_mismatch"]
//	@x-example-schedule {"name": "nightly", "id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (s *Server) triggerSchedules(ctx context.Context, items []hop.Item[hop.OnceRequest]) []hop.Result[hop.SubmitResponse] {
	results := make([]hop.Result[hop.SubmitResponse], len(items))
	for i := range items {
		ctx, span := itemSpan(ctx, &items[i])
		answer, err := s.triggerSchedule(audit.WithActor(ctx, actor(items[i].Principal)), &items[i])
		results[i] = submitResult(ctx, &items[i], &submits.Answer{Answer: answer, Err: err})
		endSpan(span, &results[i])
	}
	return results
}

func (s *Server) triggerSchedule(ctx context.Context, item *hop.Item[hop.OnceRequest]) (submit.Answer, error) {
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return submit.Answer{}, err
	}
	call := submits.TriggerCall{
		Tenant: owner, User: item.Principal.User, Name: item.Request.Name, Render: renderSubmit,
		CorrelationID: item.CorrelationID, Traceparent: item.Traceparent,
	}
	if call.ID, err = uuid.Parse(item.Request.ID); err != nil {
		return submit.Answer{}, problem.New(problem.InvalidRequest, "id must be a UUID.")
	}
	if err := checkID(call.ID, time.Now()); err != nil {
		return submit.Answer{}, err
	}
	if item.Request.Idempotency != nil {
		if call.Idempotency, err = idempotencyOf(item.Request.Idempotency); err != nil {
			return submit.Answer{}, err
		}
	}
	return s.Engine.Submits.TriggerSchedule(ctx, &call)
}
