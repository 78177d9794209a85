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
	// redriveNet is how long the Redriver sleeps at most: a redrive that was asked for
	// in the meantime begins late by no more than this.
	redriveNet = 500 * time.Millisecond
	// redriveTurn is how many redrives get a step before it is looked again who is due.
	redriveTurn = 16
)

// Redriver works on redrives and discards by filter, a batch of each in turn. Which
// core does it is settled by the redrive's row, batch by batch.
type Redriver struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Jobs
	log        *slog.Logger
	// rest is how long it is until a redrive is due, as of the last run.
	rest time.Duration
}

// NewRedriver makes the duty.
func NewRedriver(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Redriver {
	return &Redriver{store: store, dispatcher: d, metrics: m, log: log}
}

// Run redrives until ctx ends.
func (r *Redriver) Run(ctx context.Context) error {
	for {
		if err := r.RunOnce(ctx); err != nil {
			r.rest = time.Duration((0.5 + random()) * float64(time.Second))
			if ctx.Err() == nil {
				r.metrics.SweepErrors.WithLabelValues("redrive").Inc()
				r.log.WarnContext(ctx, "a background duty failed and will be tried again", "duty", "redrive", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.rest):
		}
	}
}

// RunOnce gives every redrive that is due its step, until none is. What fails for one
// keeps no other from its turn.
func (r *Redriver) RunOnce(ctx context.Context) error {
	for {
		due, err := r.store.DueRedrives(ctx, redriveTurn)
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
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if !worked { // nothing is due, or other cores are at it
			return r.look(ctx)
		}
	}
}

// look finds out how long to rest.
func (r *Redriver) look(ctx context.Context) error {
	next, err := r.store.NextRedrive(ctx)
	r.rest = time.Duration((0.9 + 0.2*random()) * float64(redriveNet))
	if err == nil && next != nil {
		r.rest = min(r.rest, max(*next, 5*time.Millisecond))
	}
	return err
}
