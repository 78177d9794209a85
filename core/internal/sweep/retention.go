package sweep

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/retention"
)

const (
	forgetPeriod = time.Minute
	forgetBatch  = 1000
	// forgetBatches bounds one run: the rest is left to the next.
	forgetBatches = 50
)

// Forgetter deletes what is past its retention: days of finished jobs and of attempts, dead
// letters, edges between jobs, workflows, ended redrives, audit entries, runs of schedules, old
// Idempotency-Keys.
type Forgetter struct {
	store   *cell.Cell
	metrics *metrics.Jobs
	log     *slog.Logger
	// keysAfter is where the scan of old keys continues, so that keys that must stay are not read
	// again before the others.
	keysAfter time.Time
	// edgesAfter is the same for edges between jobs.
	edgesAfter dependency.EdgePlace
	// workflowsAfter is the same for workflows.
	workflowsAfter uuid.UUID
}

// NewForgetter makes the duty.
func NewForgetter(store *cell.Cell, m *metrics.Jobs, log *slog.Logger) *Forgetter {
	return &Forgetter{store: store, metrics: m, log: log}
}

// Run deletes until ctx ends. Each duty has its own loop: a day with an old reader, maybe for
// hours, does not delay the others.
func (f *Forgetter) Run(ctx context.Context) error {
	var group sync.WaitGroup
	for _, duty := range f.duties() {
		group.Go(func() { every(ctx, forgetPeriod, "forget", f.metrics, f.log, duty) })
	}
	group.Wait()
	return nil
}

// RunOnce deletes what is past its retention, in bounded batches. It joins the errors of all
// duties.
func (f *Forgetter) RunOnce(ctx context.Context) error {
	var problems []error
	for _, duty := range f.duties() {
		problems = append(problems, duty(ctx))
	}
	return errors.Join(problems...)
}

func (f *Forgetter) duties() []func(context.Context) error {
	duties := []func(context.Context) error{f.dropDays, f.forgetKeys, f.forgetEdges, f.forgetWorkflows}
	for _, one := range []struct {
		kind   string
		forget func(ctx context.Context, batch int) (int, error)
	}{
		{metrics.CleanedDeadLetter, f.store.ForgetDead},
		{metrics.CleanedRedrive, f.store.ForgetRedrives},
		{metrics.CleanedAudit, f.store.ForgetAudit},
		{metrics.CleanedScheduleRun, f.store.ForgetRuns},
	} {
		duties = append(duties, func(ctx context.Context) error { return f.inBatches(ctx, one.kind, one.forget) })
	}
	return duties
}

func (f *Forgetter) dropDays(ctx context.Context) error {
	dropped, err := f.store.DropPartitions(ctx)
	for _, day := range dropped {
		f.log.InfoContext(ctx, "a day is past its retention and was dropped", "table", day.Name, "rows", day.Rows)
		kind := metrics.CleanedFinished
		if day.Table == retention.Attempts {
			kind = metrics.CleanedAttempt
		}
		f.metrics.Cleaned.WithLabelValues(kind).Add(float64(day.Rows))
	}
	return err
}

func (f *Forgetter) inBatches(ctx context.Context, kind string, forget func(ctx context.Context, batch int) (int, error)) error {
	for range forgetBatches {
		n, err := forget(ctx, forgetBatch)
		f.metrics.Cleaned.WithLabelValues(kind).Add(float64(n))
		if err != nil || n < forgetBatch {
			return err
		}
	}
	return nil
}

func (f *Forgetter) forgetEdges(ctx context.Context) error {
	retention := f.store.FinishedRetention()
	if retention <= 0 {
		return nil
	}
	for range forgetBatches {
		batch, err := f.store.ForgetEdges(ctx, retention, f.edgesAfter, forgetBatch)
		if err != nil {
			return err
		}
		f.metrics.Cleaned.WithLabelValues(metrics.CleanedDependency).Add(float64(batch.Forgotten))
		if f.edgesAfter = batch.Next(); batch.Seen < forgetBatch {
			f.edgesAfter = dependency.EdgePlace{} // at the end; from the oldest again
			return nil
		}
	}
	return nil
}

func (f *Forgetter) forgetWorkflows(ctx context.Context) error {
	retention := f.store.FinishedRetention()
	if retention <= 0 {
		return nil
	}
	for range forgetBatches {
		batch, err := f.store.ForgetWorkflows(ctx, retention, f.workflowsAfter, forgetBatch)
		if err != nil {
			return err
		}
		f.metrics.Cleaned.WithLabelValues(metrics.CleanedWorkflow).Add(float64(batch.Forgotten))
		if batch.Last == nil || batch.Seen < forgetBatch {
			f.workflowsAfter = uuid.Nil // at the end; from the oldest again
			return nil
		}
		f.workflowsAfter = *batch.Last
	}
	return nil
}

func (f *Forgetter) forgetKeys(ctx context.Context) error {
	for range forgetBatches {
		batch, err := f.store.ForgetKeys(ctx, f.keysAfter, forgetBatch)
		if err != nil {
			return err
		}
		f.metrics.Cleaned.WithLabelValues(metrics.CleanedIdempotencyKey).Add(float64(batch.Forgotten))
		if batch.Last == nil || batch.Seen < forgetBatch {
			f.keysAfter = time.Time{} // at the end; from the oldest again
			return nil
		}
		f.keysAfter = *batch.Last
	}
	return nil
}
