package sweep

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

const (
	// redrivePoll is the longest sleep of the Redriver: the maximum delay of a redrive that was
	// created since.
	redrivePoll = 500 * time.Millisecond
	// redrivesPerRound is how many redrives get a step before the due ones are listed again.
	redrivesPerRound = 16
)

// Redriver processes redrives and discards by filter, a batch of each in rotation. The lock on a
// redrive's row decides which core runs a batch.
type Redriver struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Jobs
	log        *slog.Logger
	// pause is the time until a redrive is due, as of the last run.
	pause time.Duration
}

// NewRedriver makes the duty.
func NewRedriver(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Redriver {
	return &Redriver{store: store, dispatcher: d, metrics: m, log: log}
}

// Run redrives until ctx ends.
func (r *Redriver) Run(ctx context.Context) error {
	for {
		if err := r.RunOnce(ctx); err != nil {
			r.pause = time.Duration((0.5 + random()) * float64(time.Second))
			if ctx.Err() == nil {
				r.metrics.SweepErrors.WithLabelValues("redrive").Inc()
				r.log.WarnContext(ctx, "a background duty failed and will be tried again", "duty", "redrive", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.pause):
		}
	}
}

// RunOnce runs a step of every due redrive, until none is due. A failure of one does not stop the
// others.
func (r *Redriver) RunOnce(ctx context.Context) error {
	for {
		if due, err := r.readPause(ctx); err != nil || !due {
			return err
		}
		due, err := r.store.DueRedrives(ctx, redrivesPerRound)
		if err != nil {
			return err
		}
		var errs []error
		worked := false
		for _, one := range due {
			mine, err := r.dispatcher.StepRedrive(ctx, one, random())
			worked = worked || mine
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil || !worked { // not worked: other cores hold them
			return err
		}
	}
}

// readPause finds out how long to sleep, and whether a redrive is due.
func (r *Redriver) readPause(ctx context.Context) (due bool, err error) {
	next, err := r.store.NextRedrive(ctx)
	r.pause = time.Duration((0.9 + 0.2*random()) * float64(redrivePoll))
	if err == nil && next != nil {
		r.pause = min(r.pause, max(*next, 5*time.Millisecond))
	}
	return next != nil && *next <= 0, err
}
