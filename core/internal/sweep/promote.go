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
	metrics    *metrics.Jobs
	log        *slog.Logger
	kicked     chan struct{}
	lookback   lookback
}

// NewPromoter makes a Promoter.
func NewPromoter(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Promoter {
	return &Promoter{store: store, dispatcher: d, metrics: m, log: log, kicked: make(chan struct{}, 1)}
}

// Kick says that a job was scheduled: it may be due before the end of the Promoter's sleep. It
// never blocks.
func (p *Promoter) Kick() {
	select {
	case p.kicked <- struct{}{}:
	default:
	}
}

// Run promotes until ctx ends.
func (p *Promoter) Run(ctx context.Context) error {
	for {
		next, err := p.RunOnce(ctx)
		if err != nil && ctx.Err() == nil {
			p.metrics.SweepErrors.WithLabelValues("promote").Inc()
			p.log.WarnContext(ctx, "a background duty failed and will be tried again", "duty", "promote", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.kicked:
		case <-time.After(next):
		}
	}
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
