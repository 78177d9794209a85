package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// PutSchedule sets a schedule.
//
//	@Description Creates the schedule, or replaces its settings: absent fields get their defaults. Each tick submits `job`, which has the fields of `POST /v1/jobs` except times; `expires_after_ms` gives each job a deadline.
//	@Description
//	@Description **When.** `cron` has five fields, or six with seconds first, or is a name such as `@hourly`; it is evaluated in `timezone`. A tick in the hour that daylight saving time skips runs at the end of that hour; in an hour that occurs twice, it runs in the first. Alternatively, `every_ms` counts from `starts_at`, or from the creation of the schedule, independent of daylight saving time. If a PUT does not change the times, no tick is lost or repeated; otherwise the ticks start from now.
//	@Description
//	@Description **`overlap`** applies when the previous tick's job is still live: `allow` submits another job, `skip` skips the tick, `cancel` cancels the previous job first. **`catch_up`** applies to ticks that are more than a minute late, for example after an outage: `none`, `latest`, or `all` (at most the newest `catch_up_max`). A tick that a cap refuses is retried until the next one is due.
//	@Description
//	@Description `job` is checked against its type now, and gets its defaults now; ticks are not checked again.
//	@Param       schedule body api.ScheduleRequest true "The schedule."
//	@Success     200 {object} api.Schedule "The schedule as it is now."
//	@x-problems  ["schema_mismatch"]
//	@x-example-nightly  {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "job": {"type": "report.daily", "queue": "reports", "payload": {"of": "yesterday"}}, "overlap": "skip", "catch_up": "latest"}
//	@x-example-interval {"every_ms": 90000, "job": {"type": "mail.poll", "expires_after_ms": 60000}, "catch_up": "none"}
//	@x-example-paused   {"cron": "@hourly", "job": {"type": "cache.warm"}, "catch_up": "all", "catch_up_max": 24, "starts_at": "2030-01-01T00:00:00Z", "paused": true}
func (h *Handlers) PutSchedule(ctx context.Context, c *call.Call, r api.ScheduleRequest) (call.Passed, error) {
	name, err := c.Name()
	if err != nil {
		return call.Passed{}, err
	}
	if len(r.Job.Payload) > api.MaxPayload {
		return call.Passed{}, fieldTooLarge("job.payload")
	}
	if fields := r.Validate(time.Now()); len(fields) > 0 {
		return call.Passed{}, problem.Invalid(fields...)
	}
	if bound := c.Principal().User; bound != "" {
		if r.Job.User == nil {
			r.Job.User = &bound
		}
		if *r.Job.User != bound {
			return call.Passed{}, anotherUser("job.user", "The key is bound to a user, and the schedule's job names another user.")
		}
	}
	template := r.Job.Submit()
	problems, err := h.checkTypes(ctx, c, []*api.SubmitRequest{&template}, func(int) string { return "job." })
	if err == nil {
		err = firstOf(problems)
	}
	if err != nil {
		return call.Passed{}, err
	}
	r.Job.Queue, r.Job.Priority, r.Job.MaxAttempts, r.Job.TimeoutMS, r.Job.Retry = template.Queue, template.Priority, template.MaxAttempts, template.TimeoutMS, template.Retry
	return call.Pass(ctx, h.core, c, hop.PutSchedule,
		hop.Put[api.ScheduleRequest]{Name: name, Value: r})
}

// ListSchedules lists schedules.
//
//	@Description Schedules by name. A key that is bound to a user sees the schedules whose jobs belong to that user.
//	@Success     200 {object} api.Page[api.Schedule] "A page of schedules."
func (h *Handlers) ListSchedules(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Paged(ctx, h.core, c, hop.ListSchedules)
}

// GetSchedule reads a schedule.
//
//	@Description The schedule's settings, its next five ticks, and its last run.
//	@Success     200 {object} api.Schedule "The schedule."
func (h *Handlers) GetSchedule(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByName(ctx, h.core, c, hop.GetSchedule)
}

// DeleteSchedule deletes a schedule.
//
//	@Description Deletes the schedule and its runs. Jobs that it has submitted do not change.
//	@Success     204 "The schedule is deleted."
func (h *Handlers) DeleteSchedule(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	return call.NoContent(call.ByName(ctx, h.core, c, hop.DeleteSchedule))
}

// PauseSchedule pauses a schedule.
//
//	@Description Ticks are skipped while it is paused, and are not caught up later. A repeat changes nothing.
//	@Success     200 {object} api.Schedule "The schedule as it is now."
func (h *Handlers) PauseSchedule(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Pause(ctx, h.core, c, hop.PauseSchedule, true)
}

// ResumeSchedule resumes a schedule.
//
//	@Description The next tick submits a job again. A repeat changes nothing.
//	@Success     200 {object} api.Schedule "The schedule as it is now."
func (h *Handlers) ResumeSchedule(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Pause(ctx, h.core, c, hop.PauseSchedule, false)
}

// TriggerSchedule triggers a schedule.
//
//	@Description Submits one job now, regardless of `overlap`, and also while the schedule is paused. It is listed in the runs and does not change the ticks. The answer is that of `POST /v1/jobs`. With an `Idempotency-Key`, a repeat gets the first answer again.
//	@Success     202 {object} api.SubmitResponse "Accepted: the job is stored."
//	@Header      202 {string} Location "The job's path."
//	@Success     200 {object} api.SubmitResponse "A live job has the template's dedupe_key."
//	@Header      200,202 {string} Idempotent-Replayed "`true` if this is the stored answer of the first request."
//	@x-problems  ["cost_above_burst", "cost_above_budget", "dedupe_conflict", "active_cap_reached", "queue_full", "too_many_lanes"]
func (h *Handlers) TriggerSchedule(c *call.Call, _ call.None) (r hop.OnceRequest, cost admission.Cost, err error) {
	name, err := c.Name()
	if err != nil {
		return r, cost, err
	}
	ids, err := drawIDs(1)
	if err != nil {
		return r, cost, err
	}
	cost = admission.Submit(false, c.Idempotency != nil)
	cost.Add(&api.SubmitRequest{User: userOf(c)})
	return hop.OnceRequest{Name: name, ID: ids[0], Idempotency: c.KeyFor(name)}, cost, nil
}

// Trigger has core submit a job of a schedule.
func (h *Handlers) Trigger(ctx context.Context, c *call.Call, r hop.OnceRequest) (call.Response[hop.SubmitResponse], error) {
	answer, err := call.Send(ctx, h.core, c, hop.TriggerSchedule, r)
	if err != nil || answer.Status != http.StatusAccepted {
		return answer, err
	}
	answer.Location = "/v1/jobs/" + member(answer.Value, "id")
	return answer, nil
}

// userOf is the user of a user-bound key; nil for another key.
func userOf(c *call.Call) *string {
	if user := c.Principal().User; user != "" {
		return &user
	}
	return nil
}

// ListScheduleRuns lists a schedule's runs.
//
//	@Description Each processed tick and each triggered job, newest first: the job, or why there is none (`overlap`, `paused`, `cap`). Runs are kept as long as finished jobs.
//	@Success     200 {object} api.Page[api.ScheduleRun] "A page of runs."
func (h *Handlers) ListScheduleRuns(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.PageFor(ctx, h.core, c, hop.ListScheduleRuns, c.Name)
}
