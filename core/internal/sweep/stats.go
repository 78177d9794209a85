package sweep

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/stats"
)

const (
	// appendPeriod is how much of the stats a core that is killed loses.
	appendPeriod = 5 * time.Second
	rollUpPeriod = time.Minute
	rollUpBatch  = 5000
	// rollUpAfter is for how long a core rolls up after it has appended: an idle one sends no statements.
	rollUpAfter = 5 * time.Minute
	// allPeriod is the period of runs that look at all rows, also those that another core has left.
	allPeriod = time.Hour
)

// jobStats appends what this core has counted, and rolls up what all have appended.
type jobStats struct {
	Duties

	// appended is when this core appended last, in nanoseconds.
	appended atomic.Int64
	// since and limitsSince are where the roll-ups of minutes continue; all is when they began at the oldest row.
	since, limitsSince, all time.Time
}

// Stats appends what this core has counted, and rolls up what all have appended. What is counted at the end is left
// to a last run of appending.
func (d Duties) Stats() (appending, rollUp *Duty) {
	s := &jobStats{Duties: d}
	return d.every(appendPeriod, "stats", s.appendCounted), d.every(rollUpPeriod, "stats_rollup", s.rollUp)
}

// appendCounted appends what was counted since the last time, if anything was.
func (s *jobStats) appendCounted(ctx context.Context) error {
	appended, err := s.engine.Stats.Append(ctx)
	if appended {
		s.appended.Store(time.Now().UnixNano())
	}
	return err
}

// rollUp makes minutes of the parts that cores have appended; once an hour it looks at all of them, makes hours of
// minutes that are two days old, and forgets old hours.
func (s *jobStats) rollUp(ctx context.Context) error {
	begun := time.Now()
	all := begun.Sub(s.all) >= allPeriod
	if !all && begun.UnixNano()-s.appended.Load() > rollUpAfter.Nanoseconds() {
		return nil
	}
	if all {
		s.since, s.limitsSince = time.Time{}, time.Time{}
	}
	var err, limitsErr error
	s.since, err = rollUpFrom(ctx, s.since, s.store.Stats.RollUpMinutes)
	s.limitsSince, limitsErr = rollUpFrom(ctx, s.limitsSince, s.store.Stats.RollUpLimitMinutes)
	if err = errors.Join(err, limitsErr); err != nil || !all {
		return err
	}
	_, err = rollUpFrom(ctx, time.Time{}, s.store.Stats.RollUpHours)
	_, limitsErr = rollUpFrom(ctx, time.Time{}, s.store.Stats.RollUpLimitHours)
	if err = errors.Join(err, limitsErr,
		s.forget(ctx, metrics.CleanedStats, rollUpBatch, s.store.Stats.ForgetStats),
		s.forget(ctx, metrics.CleanedStats, rollUpBatch, s.store.Stats.ForgetLimitStats)); err == nil {
		s.all = begun
	}
	return err
}

// rollUpFrom rolls up from since on, and returns where the next run continues.
func rollUpFrom(ctx context.Context, since time.Time, rollUp func(context.Context, time.Time, int) (stats.RolledUp, error)) (time.Time, error) {
	err := inBatches(rollUpBatch, func() (int, error) {
		batch, err := rollUp(ctx, since, rollUpBatch)
		if err == nil && batch.Last != nil {
			since = *batch.Last
		}
		return batch.Rows, err
	})
	return since, err
}
