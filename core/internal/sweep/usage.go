package sweep

import (
	"context"
	"errors"
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
	// lookPeriod is how often a count that has adopted all is looked at until it is
	// settled: the look may read a tenant's whole backlog.
	lookPeriod = 15 * time.Second
	// adoptTime bounds one step, and with it how long another core's lock holds up
	// the other counts; adoptSteps bounds the steps of one run.
	adoptTime  = 3 * time.Second
	adoptSteps = 20
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
	// looked is when nothing was found to adopt into a count that is not settled yet.
	looked map[queue.CountKey]time.Time
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

// RunOnce looks at every count that is kept. What fails for one keeps no other from
// its turn.
func (u *Usage) RunOnce(ctx context.Context) error {
	var errs []error
	if time.Since(u.pruned) >= prunePeriod {
		_, err := u.store.PruneUsage(ctx, pruneBatch)
		errs = append(errs, err)
		u.pruned = time.Now()
	}
	errs = append(errs, u.adopt(ctx))
	if time.Since(u.recounted) >= recountPeriod {
		errs = append(errs, u.Recount(ctx))
	}
	return errors.Join(errs...)
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
	var errs []error
	looked := map[queue.CountKey]time.Time{}
	for _, count := range kept {
		switch {
		case !u.dispatcher.Capped(count.CountKey):
			gone = append(gone, count.CountKey)
		case !count.Settled && time.Since(u.looked[count.CountKey]) < lookPeriod:
			looked[count.CountKey] = u.looked[count.CountKey]
		case !count.Settled:
			complete, err := u.adoptAll(ctx, count.CountKey)
			errs = append(errs, err)
			if complete {
				looked[count.CountKey] = time.Now()
			}
		}
	}
	u.looked = looked
	return errors.Join(append(errs, u.store.DropCounts(ctx, gone))...)
}

// adoptAll adopts in bounded steps; complete says that nothing was left to adopt.
func (u *Usage) adoptAll(ctx context.Context, key queue.CountKey) (complete bool, err error) {
	for range adoptSteps {
		limited, cancel := context.WithTimeout(ctx, adoptTime)
		adopted, more, err := u.store.Adopt(limited, key)
		cancel()
		u.metrics.UsageAdopted.Add(float64(adopted))
		if err != nil || !more {
			return adopted == 0 && err == nil, err
		}
	}
	return false, nil
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
