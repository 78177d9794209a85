package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

const (
	promoteBatch = 1000
	// promotePoll is the longest sleep of the Promoter: the maximum delay of a job that another core
	// scheduled since.
	promotePoll = time.Second
)

// Promoter queues scheduled jobs when they are due. It sleeps until the next one is due.
type Promoter struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	kicked
	lookback lookback
}

// NewPromoter makes a Promoter.
func NewPromoter(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Promoter {
	return &Promoter{store: store, dispatcher: d, kicked: newKicked("promote", m, log)}
}

// Run promotes until ctx ends.
func (p *Promoter) Run(ctx context.Context) error {
	p.run(ctx, p.RunOnce)
	return nil
}

// RunOnce promotes every due job, and gives how long to sleep.
func (p *Promoter) RunOnce(ctx context.Context) (time.Duration, error) {
	back, done := p.lookback.next()
	next, waiting, err := p.store.NextDue(ctx, back)
	if err == nil && waiting && next <= 0 {
		if err = p.promote(ctx, back); err == nil {
			next, waiting, err = p.store.NextDue(ctx, back)
		}
	}
	if err != nil {
		return promotePoll, err
	}
	done()
	if !waiting {
		return promotePoll, nil
	}
	// Never zero: a due job that was not promoted is locked by another transaction.
	return min(max(next, 5*time.Millisecond), promotePoll), nil
}

func (p *Promoter) promote(ctx context.Context, back time.Duration) error {
	for {
		due, err := p.store.Promote(ctx, back, promoteBatch)
		if err != nil {
			return err
		}
		p.metrics.Promoted.Add(float64(len(due)))
		for _, one := range due {
			p.dispatcher.Changed(one.ID)
		}
		p.dispatcher.Wake(due)
		if len(due) < promoteBatch {
			return nil
		}
	}
}
