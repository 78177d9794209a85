package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
)

const (
	// recountPeriod is the period of a full round of counts, for the metric.
	recountPeriod = 5 * time.Minute
	// recountTime bounds the recount in one run, recountKeys its counts.
	recountTime = 250 * time.Millisecond
	recountKeys = 200
	// recountPause is the pause after a count that took too long; it doubles each time, up to
	// recountRest.
	recountPause = time.Minute
	recountRest  = time.Hour
)

// recount is the progress of a round through all counts.
type recount struct {
	next  time.Time
	begun time.Time
	to    caps.CountKey
	// drifts is the number of wrong counts of the round so far.
	drifts int
	pause  time.Duration
}

// recountSome compares some counts with their jobs, and sets a metric to the number of wrong ones in
// the last round, and notes it for the operator at the round's end. A
// count that lacks jobs is backfilled. A count with too many jobs is skipped, after a pause; `core verify` checks those.
func (u *counts) recountSome(ctx context.Context) error {
	r := &u.recount
	if r.to == (caps.CountKey{}) && r.begun.IsZero() {
		r.begun, r.drifts = time.Now(), 0
	}
	stored, err := u.store.Counts.StoredCounts(ctx, r.to, recountKeys)
	if err != nil {
		return err
	}
	keys := make([]caps.CountKey, len(stored))
	for i := range stored {
		keys[i] = stored[i].CountKey
	}
	drifts, checked, err := u.store.Counts.CheckCounts(ctx, keys, recountTime)
	r.drifts += len(drifts)
	for _, drift := range drifts {
		u.log.ErrorContext(ctx, "a count is wrong", "drift", drift.String())
		if drift.Check == caps.CheckUncounted {
			if err := u.store.Counts.Reopen(ctx, drift.Key); err != nil {
				return err
			}
		}
	}
	switch {
	case errors.Is(err, caps.ErrCheckTime):
		r.wait()
		u.log.WarnContext(ctx, "a count is too large to be recounted", "tenant", keys[checked].Tenant, "counter", keys[checked].Counter.String(), "pause", r.pause)
		checked++
	case err != nil:
		r.wait()
		return err
	}
	if checked > 0 {
		r.to = keys[checked-1]
	}
	if checked == len(keys) && len(keys) < recountKeys { // the end of the round
		r.end()
		u.metrics.UsageDrift.Set(float64(r.drifts))
		return u.store.Processes.NoteCounted(ctx, r.drifts)
	}
	if r.drifts > 0 {
		u.metrics.UsageDrift.Set(float64(r.drifts))
	}
	return nil
}

// wait makes a pause.
func (r *recount) wait() {
	r.pause = min(max(2*r.pause, recountPause), recountRest)
	r.next = time.Now().Add(r.pause)
}

// end begins the next round a period after this one began.
func (r *recount) end() {
	if next := r.begun.Add(recountPeriod); next.After(r.next) {
		r.next = next
	}
	r.to, r.begun = caps.CountKey{}, time.Time{}
}
