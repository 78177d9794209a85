package operations

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/principals"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// PutSchedule creates a schedule, or replaces all of its settings.
//
//	@x-problems  ["not_found"]
//	@x-example-nightly {"name": "nightly", "value": {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "job": {"type": "report.daily"}}}
func (o *Operations) PutSchedule(ctx context.Context, owner tenant.ID, item hop.Item[hop.Put[api.ScheduleRequest]]) (api.Schedule, error) {
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
	shown, err := o.Store.Schedules.PutSchedule(ctx, owner, item.Principal.User, request.Name, request.Value)
	if err == nil {
		o.Engine.Publisher.SchedulesChanged()
	}
	return shown, err
}

// GetSchedule reads a schedule: its settings, its next ticks and its last run.
//
//	@x-problems  ["not_found"]
//	@x-example-schedule {"name": "nightly"}
func (o *Operations) GetSchedule(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (api.Schedule, error) {
	return o.Store.Schedules.GetSchedule(ctx, owner, item.Principal.User, item.Request.Name)
}

// ListSchedules lists schedules, by name. A principal that is bound to a user sees that user's only.
func (o *Operations) ListSchedules(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Schedule], error) {
	of := pages.ListingOf(hop.ListSchedules.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Paged(o.Pages, of, nil, func(after string, size int) (api.Page[api.Schedule], error) {
		return o.Store.Schedules.ListSchedules(ctx, owner, item.Principal.User, after, size)
	})
}

// DeleteSchedule deletes a schedule, with its runs. The jobs that it made stay.
//
//	@x-problems  ["not_found"]
//	@x-example-schedule {"name": "nightly"}
func (o *Operations) DeleteSchedule(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (struct{}, error) {
	return struct{}{}, o.Store.Schedules.DeleteSchedule(ctx, owner, item.Principal.User, item.Request.Name)
}

// PauseSchedule pauses or resumes a schedule. A repeat changes nothing.
//
//	@x-problems  ["not_found"]
//	@x-example-pause {"name": "nightly", "paused": true}
func (o *Operations) PauseSchedule(ctx context.Context, owner tenant.ID, item hop.Item[hop.Pause]) (api.Schedule, error) {
	shown, err := o.Store.Schedules.PauseSchedule(ctx, owner, item.Principal.User, item.Request.Name, item.Request.Paused)
	if err == nil {
		o.Engine.Publisher.SchedulesChanged()
	}
	return shown, err
}

// ListScheduleRuns lists a schedule's runs, newest first.
//
//	@x-problems  ["not_found"]
//	@x-example-schedule {"for": "nightly", "page_size": 50}
func (o *Operations) ListScheduleRuns(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageFor]) (api.Page[api.ScheduleRun], error) {
	of := pages.ListingOf(hop.ListScheduleRuns.Path, item.Principal, item.Request.For, item.Request.PageSize, item.Request.PageToken)
	key := func(run api.ScheduleRun) string { return strconv.FormatInt(run.At.UnixMicro(), 10) }
	return pages.Listed(o.Pages, of, pages.NewestTime, key, func(before *time.Time, limit int) ([]api.ScheduleRun, error) {
		return o.Store.Schedules.ScheduleRuns(ctx, owner, item.Principal.User, item.Request.For, before, limit)
	})
}

// TriggerSchedules submits one job of a schedule now, under an id that the gateway drew (UUID v7). Its
// ticks stay as they are. The value is the public answer, ready to be sent.
//
//	@Success     200 {object} hop.Results[api.SubmitResponse] "An answer for each item."
//	@x-problems  ["not_found", "dedupe_conflict", "active_cap_reached", "queue_full", "too_many_lanes", "idempotency_in_flight", "idempotency_mismatch"]
//	@x-example-schedule {"name": "nightly", "id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) TriggerSchedules(ctx context.Context, items []hop.Item[hop.OnceRequest]) []hop.Result[hop.SubmitResponse] {
	results := make([]hop.Result[hop.SubmitResponse], len(items))
	for i := range items {
		ctx, span := answers.Span(ctx, &items[i])
		answer, err := o.triggerSchedule(audit.WithActor(ctx, principals.Actor(items[i].Principal)), &items[i])
		results[i] = submitResult(ctx, &items[i], &submits.Answer{Answer: answer, Err: err})
		answers.EndSpan(span, &results[i])
	}
	return results
}

func (o *Operations) triggerSchedule(ctx context.Context, item *hop.Item[hop.OnceRequest]) (submit.Answer, error) {
	owner, err := principals.OfTenant(item.Principal)
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
	return o.Engine.Submits.TriggerSchedule(ctx, &call)
}
