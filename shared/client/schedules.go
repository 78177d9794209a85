package client

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Schedules gives one page of schedules, by name.
func (c *Client) Schedules(ctx context.Context, page PageRequest) (api.Page[api.Schedule], error) {
	return list[api.Schedule](ctx, c, page.query(), "schedules")
}

// Schedule reads one schedule: its settings, its next ticks, its last run.
func (c *Client) Schedule(ctx context.Context, name string) (api.Schedule, error) {
	return c.schedule(ctx, http.MethodGet, nil, name)
}

// PutSchedule makes a schedule or replaces all of its settings; what is absent is the
// default again. A repeat changes nothing.
func (c *Client) PutSchedule(ctx context.Context, name string, schedule api.ScheduleRequest) (api.Schedule, error) {
	return c.schedule(ctx, http.MethodPut, schedule, name)
}

// PauseSchedule has the ticks of a schedule skipped. A repeat changes nothing.
func (c *Client) PauseSchedule(ctx context.Context, name string) (api.Schedule, error) {
	return c.schedule(ctx, http.MethodPost, nil, name, "pause")
}

// ResumeSchedule ends a pause; its ticks are not made up for. A repeat changes
// nothing.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (api.Schedule, error) {
	return c.schedule(ctx, http.MethodPost, nil, name, "resume")
}

// TriggerSchedule submits one job of a schedule now; its ticks stay as they are. The
// options and problems are those of Submit.
func (c *Client) TriggerSchedule(ctx context.Context, name string, options ...CallOption) (api.SubmitResponse, error) {
	var answer api.SubmitResponse
	_, err := c.submit(ctx, call{path: []string{"v1", "schedules", name, "trigger"}, answer: &answer}, options)
	return answer, err
}

// DeleteSchedule deletes a schedule and its runs; the jobs that it made stay. The
// problem not_found may also mean that an answer was lost, and the call repeated.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "schedules", name}, repeatable: true})
}

// ScheduleRuns gives one page of a schedule's runs, newest first.
func (c *Client) ScheduleRuns(ctx context.Context, name string, page PageRequest) (api.Page[api.ScheduleRun], error) {
	return list[api.ScheduleRun](ctx, c, page.query(), "schedules", name, "runs")
}

func (c *Client) schedule(ctx context.Context, method string, body any, segments ...string) (api.Schedule, error) {
	var answer api.Schedule
	err := c.do(ctx, call{
		method: method, path: append([]string{"v1", "schedules"}, segments...), body: body, answer: &answer, repeatable: true,
	})
	return answer, err
}
