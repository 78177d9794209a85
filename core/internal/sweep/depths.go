package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	depthPeriod = 15 * time.Second
	// maxDepth is the limit of each count, as for the depths of one queue (decision 9).
	maxDepth = 10_000
	// depthTime bounds one run. A run that fails leaves the previous values and their timestamp.
	depthTime = 20 * time.Second
)

// Depths measures the numbers of jobs and workers, and the age of the oldest ready job. Every core
// measures: another may have lost its connection.
func (d Duties) Depths(depths *metrics.Depths) *Duty {
	return d.every(depthPeriod, "depths", func(ctx context.Context) error { return d.measureDepths(ctx, depths) })
}

// NamedQueues measures the queues that the operator has named.
func (d Duties) NamedQueues(gauges *metrics.Queues, named []tenant.QueueKey) *Duty {
	return d.every(depthPeriod, "named_queues", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, depthTime)
		defer cancel()
		var problems []error
		for _, key := range named {
			shown, err := d.engine.Explainer.Queue(ctx, key.Tenant, key.Name)
			var needs api.Scale
			if err == nil {
				needs, err = d.engine.Explainer.Scale(ctx, key.Tenant, key.Name, api.DefaultTargetWaitMS*time.Millisecond, 0)
			}
			switch {
			case err == nil:
				gauges.Set(key.Tenant.String(), &shown, &needs)
			case errors.Is(err, store.ErrNotFound):
				gauges.Forget(key.Tenant.String(), key.Name)
			default:
				problems = append(problems, err)
			}
		}
		return errors.Join(problems...)
	})
}

func (d Duties) measureDepths(ctx context.Context, depths *metrics.Depths) error {
	ctx, cancel := context.WithTimeout(ctx, depthTime)
	defer cancel()
	totals, err := d.store.JobReads.Totals(ctx, maxDepth)
	if err != nil {
		return err
	}
	for state, total := range map[job.State]read.Total{
		job.Blocked: totals.Blocked, job.Scheduled: totals.Scheduled, job.Waiting: totals.Waiting,
		job.Queued: totals.Queued, job.Running: totals.Running, job.DeadLetter: totals.DeadLetter,
	} {
		depths.Jobs(string(state), total.N, total.Capped)
	}
	for status, n := range map[string]int64{"active": totals.Active, "stale": totals.Stale, "dead": totals.Dead} {
		depths.Workers(status, n)
	}
	oldest, err := d.engine.Claims.OldestReady(ctx)
	if err != nil {
		return err
	}
	var age time.Duration
	if !oldest.IsZero() {
		age = max(totals.Now.Sub(oldest), 0)
	}
	depths.Measured(age)
	return nil
}
