package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
)

const (
	// usagePeriod is the period while there are counts. Without any it is longNet: a new count is backfilled for a minute at least,
	// and the jobs are counted until then.
	usagePeriod = 2 * time.Second
	prunePeriod = 10 * time.Second
	// pruneSeldom is prunePeriod without counts: what those that are gone have left.
	pruneSeldom = time.Minute
	// backfillTime bounds one step, and with it the time for which another core's lock delays the
	// other counts; backfillSteps bounds the steps of one count in a run, backfillKeys the counts.
	backfillTime  = 3 * time.Second
	backfillSteps = 20
	backfillKeys  = 100
	// uncappedKeys is how many counts one run checks for a missing cap.
	uncappedKeys = 1000
	// pruneTime bounds the pruning in one run.
	pruneTime = time.Second
)

// counts maintains the counts of caps.
type counts struct {
	Duties

	pruned time.Time
	// prunedTo and uncappedTo are the positions of the scans through all counts.
	prunedTo, uncappedTo caps.CountKey
	recount              recount
	// none: there were no counts when they were last listed from the beginning.
	none bool
}

func (d Duties) counts() *counts {
	return &counts{Duties: d, recount: recount{next: time.Now().Add(recountPeriod)}}
}

// Usage maintains the counts of caps: it backfills jobs, deletes counts without a cap, prunes the
// log, and recounts.
func (d Duties) Usage() *Duty {
	u := d.counts()
	return d.duty("usage", func(ctx context.Context) (time.Duration, error) {
		err := u.maintain(ctx)
		if u.none && err == nil {
			return longNet, nil
		}
		return jittered(usagePeriod, 0.1), err
	})
}

// maintain runs a bounded step of each part of the duty. A failure of one does not stop the others.
func (u *counts) maintain(ctx context.Context) error {
	var errs []error
	if since := time.Since(u.pruned); since >= pruneSeldom || since >= prunePeriod && !u.none {
		errs = append(errs, u.prune(ctx))
		u.pruned = time.Now()
	}
	stored, err := u.someCounts(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if len(stored) > 0 {
		// The decision that a cap is gone needs current limits.
		if err := u.engine.Publisher.Refresh(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, u.backfill(ctx), u.dropUncapped(ctx, stored))
	}
	if time.Now().After(u.recount.next) {
		errs = append(errs, u.recountSome(ctx))
	}
	return errors.Join(errs...)
}

// prune prunes within pruneTime. With few counts each run covers all.
func (u *counts) prune(ctx context.Context) error {
	for begun := time.Now(); time.Since(begun) < pruneTime; {
		_, next, err := u.store.Counts.PruneUsage(ctx, u.prunedTo)
		if err != nil {
			return err
		}
		u.prunedTo = next
		if next == (caps.CountKey{}) {
			break
		}
	}
	return nil
}

// backfill backfills counts that are not settled, each by some steps.
func (u *counts) backfill(ctx context.Context) error {
	due, err := u.store.Counts.DueCounts(ctx, backfillKeys)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range due {
		if u.engine.Cached.Capped(key) {
			errs = append(errs, u.backfillCount(ctx, key))
		}
	}
	return errors.Join(errs...)
}

func (u *counts) backfillCount(ctx context.Context, key caps.CountKey) error {
	for range backfillSteps {
		limited, cancel := context.WithTimeout(ctx, backfillTime)
		added, more, err := u.store.Counts.Backfill(limited, key)
		cancel()
		u.metrics.UsageBackfilled.Add(float64(added))
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// someCounts gives the next of all counts; none if there are none, or at their end.
func (u *counts) someCounts(ctx context.Context) ([]caps.StoredCount, error) {
	stored, err := u.store.Counts.StoredCounts(ctx, u.uncappedTo, uncappedKeys)
	if err != nil {
		return nil, err
	}
	u.none = len(stored) == 0 && u.uncappedTo == caps.CountKey{}
	u.uncappedTo = caps.CountKey{}
	if len(stored) == uncappedKeys {
		u.uncappedTo = stored[len(stored)-1].CountKey
	}
	return stored, nil
}

// dropUncapped deletes counts without a cap, and those that were never used.
func (u *counts) dropUncapped(ctx context.Context, stored []caps.StoredCount) error {
	var gone []caps.CountKey
	for _, count := range stored {
		if count.Unused || !u.engine.Cached.Capped(count.CountKey) {
			gone = append(gone, count.CountKey)
		}
	}
	return u.store.Counts.DropCounts(ctx, gone)
}
