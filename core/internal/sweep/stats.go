package sweep

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/stats"
)

const (
	// appendPeriod is how much of the stats a core that is killed loses.
	appendPeriod = 5 * time.Second
	rollUpPeriod = time.Minute
	rollUpBatch  = 5000
	// rollUpBatches bounds one run: the rest is left to the next.
	rollUpBatches = 50
	// rollUpAfter is for how long a core rolls up after it has appended: an idle one sends no statements.
	rollUpAfter = 5 * time.Minute
	// allPeriod is the period of runs that look at all rows, also those that another core has left.
	allPeriod = time.Hour
)

// Stats appends what this core has counted, and rolls up what all have appended.
type Stats struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Jobs
	log        *slog.Logger
	// appended is when this core appended last, in nanoseconds.
	appended atomic.Int64
	// since and limitsSince are where the roll-ups of minutes continue; all is when they began at the oldest row.
	since, limitsSince, all time.Time
}

// NewStats makes the duty.
func NewStats(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Stats {
	return &Stats{store: store, dispatcher: d, metrics: m, log: log}
}

// Run appends and rolls up until ctx ends. What is counted at the end is left to Append.
func (s *Stats) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { every(ctx, appendPeriod, "stats", s.metrics, s.log, s.Append) })
	group.Go(func() { every(ctx, rollUpPeriod, "stats_rollup", s.metrics, s.log, s.RollUp) })
	group.Wait()
	return nil
}

// Append appends what was counted since the last time, if anything was.
func (s *Stats) Append(ctx context.Context) error {
	appended, err := s.dispatcher.AppendStats(ctx)
	if appended {
		s.appended.Store(time.Now().UnixNano())
	}
	return err
}

// RollUp makes minutes of the parts that cores have appended; once an hour it looks at all of them, makes hours of
// minutes that are two days old, and forgets old hours.
func (s *Stats) RollUp(ctx context.Context) error {
	begun := time.Now()
	all := begun.Sub(s.all) >= allPeriod
	if !all && begun.UnixNano()-s.appended.Load() > rollUpAfter.Nanoseconds() {
		return nil
	}
	if all {
		s.since, s.limitsSince = time.Time{}, time.Time{}
	}
	var err, limitsErr error
	s.since, err = s.inBatches(ctx, s.since, s.store.RollUpMinutes)
	s.limitsSince, limitsErr = s.inBatches(ctx, s.limitsSince, s.store.RollUpLimitMinutes)
	if err = errors.Join(err, limitsErr); err != nil || !all {
		return err
	}
	_, err = s.inBatches(ctx, time.Time{}, s.store.RollUpHours)
	_, limitsErr = s.inBatches(ctx, time.Time{}, s.store.RollUpLimitHours)
	if err = errors.Join(err, limitsErr, s.forget(ctx, s.store.ForgetStats), s.forget(ctx, s.store.ForgetLimitStats)); err == nil {
		s.all = begun
	}
	return err
}

// inBatches rolls up from since on, and gives where the next run continues.
func (s *Stats) inBatches(ctx context.Context, since time.Time, rollUp func(context.Context, time.Time, int) (stats.RolledUp, error)) (time.Time, error) {
	for range rollUpBatches {
		batch, err := rollUp(ctx, since, rollUpBatch)
		if err != nil {
			return since, err
		}
		if batch.Last != nil {
			since = *batch.Last
		}
		if batch.Rows < rollUpBatch {
			break
		}
	}
	return since, nil
}

func (s *Stats) forget(ctx context.Context, some func(context.Context, int) (int, error)) error {
	for range rollUpBatches {
		n, err := some(ctx, rollUpBatch)
		s.metrics.Cleaned.WithLabelValues(metrics.CleanedStats).Add(float64(n))
		if err != nil || n < rollUpBatch {
			return err
		}
	}
	return nil
}
