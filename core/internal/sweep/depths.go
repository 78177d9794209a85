package sweep

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
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
