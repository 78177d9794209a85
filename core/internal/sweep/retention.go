package sweep

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/retention"
)

const (
	forgetPeriod = time.Minute
	forgetBatch  = 1000
)

// Retention deletes what is past its retention: days of finished jobs and of attempts, dead
// letters, edges between jobs, workflows, ended redrives, audit entries, runs of schedules, old
// Idempotency-Keys. Each kind is a duty of its own: a day with an old reader, maybe for
// hours, does not delay the others.
func (d Duties) Retention() []*Duty {
	all := []func(context.Context) error{d.dropDays, d.forgetKeys()}
	if finished := d.store.Retention.FinishedRetention(); finished > 0 {
		all = append(all, d.forgetEdges(finished), d.forgetWorkflows(finished))
	}
	for _, one := range []struct {
		kind   string
		forget func(ctx context.Context, batch int) (int, error)
	}{
		{metrics.CleanedDeadLetter, d.store.DeadLetters.ForgetDead},
		{metrics.CleanedRedrive, d.store.Retention.ForgetRedrives},
		{metrics.CleanedAudit, d.store.Retention.ForgetAudit},
		{metrics.CleanedScheduleRun, d.store.Retention.ForgetRuns},
	} {
		all = append(all, func(ctx context.Context) error { return d.forget(ctx, one.kind, forgetBatch, one.forget) })
	}
	duties := make([]*Duty, len(all))
	for i, forget := range all {
		duties[i] = d.every(forgetPeriod, "forget", forget)
	}
	return duties
}

func (d Duties) dropDays(ctx context.Context) error {
	dropped, err := d.store.Retention.DropPartitions(ctx)
	for _, day := range dropped {
		d.log.InfoContext(ctx, "a day is past its retention and was dropped", "table", day.Name, "rows", day.Rows)
		kind := metrics.CleanedFinished
		switch day.Table {
		case retention.Attempts:
			kind = metrics.CleanedAttempt
		case retention.Output:
			kind = metrics.CleanedOutput
		}
		d.metrics.Cleaned.WithLabelValues(kind).Add(float64(day.Rows))
	}
	return err
}

func (d Duties) forgetEdges(finished time.Duration) func(context.Context) error {
	return scan(d, metrics.CleanedDependency, func(ctx context.Context, after dependency.EdgePlace) (seen, forgotten int, next dependency.EdgePlace, err error) {
		batch, err := d.store.Dependencies.ForgetEdges(ctx, finished, after, forgetBatch)
		return batch.Seen, batch.Forgotten, batch.Next(), err
	})
}

func (d Duties) forgetWorkflows(finished time.Duration) func(context.Context) error {
	return scan(d, metrics.CleanedWorkflow, func(ctx context.Context, after uuid.UUID) (seen, forgotten int, next uuid.UUID, err error) {
		batch, err := d.store.Workflows.ForgetWorkflows(ctx, finished, after, forgetBatch)
		return batch.Seen, batch.Forgotten, orZero(batch.Last), err
	})
}

func (d Duties) forgetKeys() func(context.Context) error {
	return scan(d, metrics.CleanedIdempotencyKey, func(ctx context.Context, after time.Time) (seen, forgotten int, next time.Time, err error) {
		batch, err := d.store.Submits.ForgetKeys(ctx, after, forgetBatch)
		return int(batch.Seen), int(batch.Forgotten), orZero(batch.Last), err
	})
}

// scan deletes in batches what step finds after a place, and counts it by kind. A run continues where the last one
// ended, so that rows that must stay are not read again before the others; after the end it starts from the oldest.
func scan[P any](d Duties, kind string, step func(ctx context.Context, after P) (seen, forgotten int, next P, err error)) func(context.Context) error {
	var start, after P
	return func(ctx context.Context) error {
		return inBatches(forgetBatch, func() (int, error) {
			seen, forgotten, next, err := step(ctx, after)
			if err != nil {
				return 0, err
			}
			d.metrics.Cleaned.WithLabelValues(kind).Add(float64(forgotten))
			if after = next; seen < forgetBatch {
				after = start
			}
			return seen, nil
		})
	}
}

func orZero[T any](value *T) (zero T) {
	if value == nil {
		return zero
	}
	return *value
}
