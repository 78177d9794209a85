package sweep

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

const (
	usagePeriod = 2 * time.Second
	prunePeriod = 10 * time.Second
	// adoptTime bounds one step, and with it how long another core's lock holds up the other
	// counts; adoptSteps bounds the steps of one count in a run, adoptKeys the counts.
	adoptTime  = 3 * time.Second
	adoptSteps = 20
	adoptKeys  = 100
	// keptKeys is how many counts are looked at in a run for whether they still have a cap.
	keptKeys = 1000
	// pruneTime is for how long a run goes on with the pruning.
	pruneTime = time.Second
)

// Usage keeps the counts of caps: it takes jobs into counts that began after them,
// ends counts whose cap is gone, removes what is folded, and recounts.
type Usage struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Jobs
	log        *slog.Logger
	pruned     time.Time
	// prunedTo and keptTo are how far the walks through all counts are.
	prunedTo, keptTo usage.CountKey
	recount          recount
}

// NewUsage makes the duty.
func NewUsage(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Usage {
	return &Usage{store: store, dispatcher: d, metrics: m, log: log, recount: recount{next: time.Now().Add(recountPeriod)}}
}

// Run keeps the counts until ctx ends.
func (u *Usage) Run(ctx context.Context) error {
	every(ctx, usagePeriod, "usage", u.metrics, u.log, u.RunOnce)
	return nil
}

// RunOnce takes each of the duty's parts a bounded step further. What fails for one
// keeps no other from its turn.
func (u *Usage) RunOnce(ctx context.Context) error {
	var errs []error
	if time.Since(u.pruned) >= prunePeriod {
		errs = append(errs, u.prune(ctx))
		u.pruned = time.Now()
	}
	// What is judged gone must be so now, not a refresh ago.
	if err := u.dispatcher.Refresh(ctx); err != nil {
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs, u.adopt(ctx), u.dropUncapped(ctx))
	if time.Now().After(u.recount.next) {
		errs = append(errs, u.Recount(ctx))
	}
	return errors.Join(errs...)
}

// prune goes on through the books for a while. Few counts are seen whole each time.
func (u *Usage) prune(ctx context.Context) error {
	for begun := time.Now(); time.Since(begun) < pruneTime; {
		_, next, err := u.store.PruneUsage(ctx, u.prunedTo)
		if err != nil {
			return err
		}
		u.prunedTo = next
		if next == (usage.CountKey{}) {
			break
		}
	}
	return nil
}

// adopt takes the walks of counts that are not settled further, each by some steps.
func (u *Usage) adopt(ctx context.Context) error {
	due, err := u.store.DueCounts(ctx, adoptKeys)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range due {
		if u.dispatcher.Capped(key) {
			errs = append(errs, u.adoptInto(ctx, key))
		}
	}
	return errors.Join(errs...)
}

func (u *Usage) adoptInto(ctx context.Context, key usage.CountKey) error {
	for range adoptSteps {
		limited, cancel := context.WithTimeout(ctx, adoptTime)
		adopted, more, err := u.store.Backfill(limited, key)
		cancel()
		u.metrics.UsageAdopted.Add(float64(adopted))
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// dropUncapped ends counts whose cap is gone, and those that were begun and never used.
func (u *Usage) dropUncapped(ctx context.Context) error {
	kept, err := u.store.KeptCounts(ctx, u.keptTo, keptKeys)
	if err != nil {
		return err
	}
	u.keptTo = usage.CountKey{}
	if len(kept) == keptKeys {
		u.keptTo = kept[len(kept)-1].CountKey
	}
	var gone []usage.CountKey
	for _, count := range kept {
		if count.Unused || !u.dispatcher.Capped(count.CountKey) {
			gone = append(gone, count.CountKey)
		}
	}
	return u.store.DropCounts(ctx, gone)
}
