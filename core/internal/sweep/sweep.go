// Package sweep has the background duties, one file each. Every duty may run in all cores at
// once, and none resets anything at start.
package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

// Duties makes the duties of a core, from what they share.
type Duties struct {
	store   *cell.Cell
	engine  *engine.Engine
	metrics *metrics.Jobs
	log     *slog.Logger
}

// New makes a Duties.
func New(store *cell.Cell, e *engine.Engine, m *metrics.Jobs, log *slog.Logger) Duties {
	return Duties{store: store, engine: e, metrics: m, log: log}
}

const (
	// shortLookback is the lookback of most runs, fullEvery the period of runs without a bound,
	// which find late rows, also after a clock was set back.
	shortLookback = time.Minute
	fullEvery     = 10 * time.Second
)

// window decides how far back a run looks. full is when the last complete run without a bound began.
type window struct{ full time.Time }

// run runs with a lookback.
func (w *window) run(do func(lookback time.Duration) error) error {
	begun := time.Now()
	if begun.Sub(w.full) <= fullEvery {
		return do(shortLookback)
	}
	err := do(jobs.AllTime)
	if err == nil {
		w.full = begun
	}
	return err
}

// maxBatches bounds one run: the rest is left to the next.
const maxBatches = 50

// inBatches calls step until a batch is smaller than size.
func inBatches(size int, step func() (n int, err error)) error {
	for range maxBatches {
		if n, err := step(); err != nil || n < size {
			return err
		}
	}
	return nil
}

// forget deletes in batches what some deletes, and counts it by kind.
func (d Duties) forget(ctx context.Context, kind string, size int, some func(ctx context.Context, batch int) (int, error)) error {
	return inBatches(size, func() (int, error) {
		n, err := some(ctx, size)
		d.metrics.Cleaned.WithLabelValues(kind).Add(float64(n))
		return n, err
	})
}
