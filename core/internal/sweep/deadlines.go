package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const deadlinePeriod = time.Second

// Deadlines makes dead letters of jobs past their deadline.
type Deadlines struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Jobs
	log        *slog.Logger
	lookback   lookback
}

// NewDeadlines makes the duty.
func NewDeadlines(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Deadlines {
	return &Deadlines{store: store, dispatcher: d, metrics: m, log: log}
}

// Run expires jobs until ctx ends.
func (d *Deadlines) Run(ctx context.Context) error {
	every(ctx, deadlinePeriod, "deadlines", d.metrics, d.log, d.RunOnce)
	return nil
}

// RunOnce makes a dead letter of every job whose deadline has passed.
func (d *Deadlines) RunOnce(ctx context.Context) error {
	back, done := d.lookback.next()
	for {
		expired, err := d.store.ExpireDeadlines(ctx, back, reapBatch)
		if err != nil {
			return err
		}
		publish(ctx, d.dispatcher, d.metrics, expired, byEvent, func() {}) // they end, none is scheduled
		if len(expired) < reapBatch {
			done()
			return nil
		}
		if err := wait.About(ctx, reapPause); err != nil {
			return err
		}
	}
}
