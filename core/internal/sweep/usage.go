package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/queue"
)

const (
	usagePeriod = 2 * time.Second
	prunePeriod = 10 * time.Second
	pruneBatch  = 50_000
	// recountPeriod is how often everything is recounted for the metric: it reads all jobs.
	recountPeriod = 5 * time.Minute
)

// Usage keeps the counts of caps: it takes jobs into counts that began after them,
// ends counts whose cap is gone, removes what is folded, and recounts.
type Usage struct {
	store      *queue.Store
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Jobs
	log        *slog.Logger
	pruned     time.Time
	recounted  time.Time
}

// NewUsage makes the duty.
func NewUsage(store *queue.Store, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Usage {
	return &Usage{store: store, dispatcher: d, metrics: m, log: log, recounted: time.Now()}
}

// Run keeps the counts until ctx ends.
func (u *Usage) Run(ctx context.Context) error {
	every(ctx, usagePeriod, "usage", u.metrics, u.log, u.RunOnce)
	return nil
}

// RunOnce looks at every count that is kept.
func (u *Usage) RunOnce(ctx context.Context) error {
	if err := u.adopt(ctx); err != nil {
		return err
	}
	if time.Since(u.pruned) >= prunePeriod {
		if _, err := u.store.PruneUsage(ctx, pruneBatch); err != nil {
			return err
		}
		u.pruned = time.Now()
	}
	if time.Since(u.recounted) >= recountPeriod {
		return u.Recount(ctx)
	}
	return nil
}

func (u *Usage) adopt(ctx context.Context) error {
	kept, err := u.store.KeptCounts(ctx)
	if err != nil || len(kept) == 0 {
		return err
	}
	// What is judged gone must be so now, not a refresh ago.
	if err := u.dispatcher.Refresh(ctx); err != nil {
		return err
	}
	var gone []queue.CountKey
	for _, count := range kept {
		switch {
		case !u.dispatcher.Capped(count.CountKey):
			gone = append(gone, count.CountKey)
		case !count.Settled:
			adopted, err := u.store.Adopt(ctx, count.CountKey)
			if err != nil {
				return err
			}
			u.metrics.UsageAdopted.Add(float64(adopted))
		}
	}
	return u.store.DropCounts(ctx, gone)
}

// Recount counts everything anew and shows what is wrong in a metric.
func (u *Usage) Recount(ctx context.Context) error {
	drifts, err := u.store.Verify(ctx)
	if err != nil {
		return err
	}
	u.recounted = time.Now()
	u.metrics.UsageDrift.Set(float64(len(drifts)))
	for _, drift := range drifts {
		u.log.ErrorContext(ctx, "a count is wrong", "drift", drift.String())
	}
	return nil
}
