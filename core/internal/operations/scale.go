package operations

import (
	"context"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/scale"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ScaleQueue says how many slots of workers a queue needs, from what is counted of it anyway.
//
//	@x-problems  ["not_found"]
//	@x-example-queue {"name": "default", "target_wait_ms": 30000, "cold_start_ms": 60000}
func (o *Operations) ScaleQueue(ctx context.Context, owner tenant.ID, item hop.Item[hop.ScaleQueueRequest]) (api.Scale, error) {
	request := &item.Request
	if request.TargetWaitMS < 0 || request.TargetWaitMS > api.MaxTargetWaitMS || request.ColdStartMS < 0 || request.ColdStartMS > api.MaxColdStartMS {
		return api.Scale{}, problem.New(problem.InvalidRequest, "target_wait_ms and cold_start_ms must be at most a day.")
	}
	target := time.Duration(request.TargetWaitMS) * time.Millisecond
	if target == 0 {
		target = api.DefaultTargetWaitMS * time.Millisecond
	}
	queue, err := o.Engine.Explainer.Queue(ctx, owner, request.Name)
	if err != nil {
		return api.Scale{}, err
	}
	facts := scale.Facts{Queued: queue.Depth.Queued, Running: queue.Depth.Running}
	now, err := o.Store.Now(ctx)
	if err != nil {
		return api.Scale{}, err
	}
	minutes, err := o.minutes(ctx, owner, request.Name, api.StepMinute, now.Add(-time.Hour), now)
	if err != nil {
		return api.Scale{}, err
	}
	cold := time.Duration(request.ColdStartMS) * time.Millisecond
	facts.Stopped = queue.Paused || queue.WindowUntil != nil && queue.WindowUntil.After(now.Add(cold))
	facts.Minutes, facts.Open = minutes, now.Sub(now.Truncate(time.Minute))
	if !slices.ContainsFunc(minutes, func(m scale.Minute) bool { return m.Ended > 0 }) {
		hours, err := o.minutes(ctx, owner, request.Name, api.StepHour, now.Add(-24*time.Hour), now)
		if err != nil {
			return api.Scale{}, err
		}
		for _, hour := range hours {
			facts.Day.Ended, facts.Day.Ran = facts.Day.Ended+hour.Ended, facts.Day.Ran+hour.Ran
		}
	}
	if request.ColdStartMS > 0 {
		if facts.Tick, err = o.Store.Schedules.TicksWithin(ctx, owner, request.Name, cold); err != nil {
			return api.Scale{}, err
		}
	}
	return scale.Of(&facts, target), nil
}

// minutes are what the jobs of a queue did, by steps.
func (o *Operations) minutes(ctx context.Context, owner tenant.ID, queue, step string, from, to time.Time) ([]scale.Minute, error) {
	found, err := o.Store.Stats.JobStats(ctx, owner, hop.StatsRequest{Queue: queue, Step: step, From: &api.Time{Time: from}, To: &api.Time{Time: to}})
	minutes := make([]scale.Minute, len(found.Items))
	for i, item := range found.Items {
		minutes[i] = scale.Minute{Submitted: item.Submitted, Ended: item.Completed + item.DeadLetter + item.Cancelled, Ran: time.Duration(item.RunningMS) * time.Millisecond}
	}
	return minutes, err
}
