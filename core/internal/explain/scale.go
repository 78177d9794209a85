package explain

import (
	"context"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/scale"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Scale says how many slots of workers a queue needs so that jobs wait for about the target, where a worker takes cold to
// start, from what is counted of it anyway. store.ErrNotFound where there is no such queue.
func (e *Explainer) Scale(ctx context.Context, owner tenant.ID, name string, target, cold time.Duration) (api.Scale, error) {
	queue, err := e.Queue(ctx, owner, name)
	if err != nil {
		return api.Scale{}, err
	}
	now, err := e.store.Now(ctx)
	if err != nil {
		return api.Scale{}, err
	}
	facts := scale.Facts{Queued: queue.Depth.Queued, Running: queue.Depth.Running, Open: now.Sub(now.Truncate(time.Minute))}
	facts.Stopped = queue.Paused || queue.WindowUntil != nil && queue.WindowUntil.After(now.Add(cold))
	if facts.Minutes, err = e.minutes(ctx, owner, name, api.StepMinute, now.Add(-time.Hour), now); err != nil {
		return api.Scale{}, err
	}
	if !slices.ContainsFunc(facts.Minutes, func(m scale.Minute) bool { return m.Ended > 0 }) {
		hours, err := e.minutes(ctx, owner, name, api.StepHour, now.Add(-24*time.Hour), now)
		if err != nil {
			return api.Scale{}, err
		}
		for _, hour := range hours {
			facts.Day.Ended, facts.Day.Ran = facts.Day.Ended+hour.Ended, facts.Day.Ran+hour.Ran
		}
	}
	if cold > 0 {
		if facts.Tick, err = e.store.Schedules.TicksWithin(ctx, owner, name, cold); err != nil {
			return api.Scale{}, err
		}
	}
	return scale.Of(&facts, target), nil
}

// minutes are what the jobs of a queue did, by steps.
func (e *Explainer) minutes(ctx context.Context, owner tenant.ID, queue, step string, from, to time.Time) ([]scale.Minute, error) {
	found, err := e.store.Stats.JobStats(ctx, owner, hop.StatsRequest{Queue: queue, Step: step, From: &api.Time{Time: from}, To: &api.Time{Time: to}})
	minutes := make([]scale.Minute, len(found.Items))
	for i, item := range found.Items {
		minutes[i] = scale.Minute{Submitted: item.Submitted, Ended: item.Completed + item.DeadLetter + item.Cancelled, Ran: time.Duration(item.RunningMS) * time.Millisecond}
	}
	return minutes, err
}
