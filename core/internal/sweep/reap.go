package sweep

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// ReapPeriod is how often expired leases are looked for.
	ReapPeriod = time.Second
	reapBatch  = 500
	// reapPause lies between two batches of a mass expiry, so that its jobs do not
	// all come back in one instant, and claims get their turn.
	reapPause = 50 * time.Millisecond
	// listenEvery is how often PostgreSQL is asked whether it is there: often within the
	// shortest lease.
	listenEvery = 250 * time.Millisecond
)

// Reaper takes expired leases back.
type Reaper struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	kick       func()
	metrics    *metrics.Jobs
	log        *slog.Logger
	reach      reach

	mu sync.Mutex
	// hearing is when PostgreSQL answered: after a silence holders speak first.
	hearing queue.Hearing
	// reaped is what was heard last before a statement that took leases back succeeded.
	reaped time.Time
}

// NewReaper makes a Reaper. kick is called when a job starts to wait for its time.
func NewReaper(store *cell.Cell, d *dispatch.Dispatcher, kick func(), m *metrics.Jobs, log *slog.Logger) *Reaper {
	return &Reaper{store: store, dispatcher: d, kick: kick, metrics: m, log: log}
}

// Run reaps until ctx ends.
func (r *Reaper) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	listening.Go(func() { r.listen(ctx) })
	defer listening.Wait()
	every(ctx, ReapPeriod, "reap", r.metrics, r.log, r.RunOnce)
	return nil
}

// listen asks PostgreSQL for its time, so that a silence is noticed.
func (r *Reaper) listen(ctx context.Context) {
	for {
		_, _ = r.hear(ctx) // the duty itself says what is wrong
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenEvery):
		}
	}
}

func (r *Reaper) hear(ctx context.Context) (silent bool, err error) {
	now, err := r.store.Now(ctx)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hearing.Hear(now), nil
}

func (r *Reaper) heard() *queue.Hearing {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := r.hearing
	return &heard
}

// took notes that a statement which had heard so much succeeded.
func (r *Reaper) took(heard *queue.Hearing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped = heard.Last
}

// deaf is called where leases could not be taken back: although PostgreSQL tells its time,
// holders may have been refused ever since that went well last. What is heard next
// ends a silence of that length, and no longer one: errors that come again and again
// must not hold every lease.
func (r *Reaper) deaf() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hearing.Last = r.reaped
}

// RunOnce takes back every lease that has expired by now, but for those whose holders
// could not be heard.
func (r *Reaper) RunOnce(ctx context.Context) error {
	if _, err := r.hear(ctx); err != nil {
		return err // what is heard next ends a silence
	}
	// A statement that comes after a silence takes back less, and is run again.
	for range 5 {
		if err := r.reap(ctx); err != nil {
			return err
		}
		if silent, err := r.hear(ctx); err != nil || !silent {
			return err
		}
	}
	return nil
}

func (r *Reaper) reap(ctx context.Context) error {
	back, done := r.reach.next()
	var place queue.ReapPlace
	for {
		heard := r.heard()
		reaped, next, err := r.store.ReapAfter(ctx, heard, back, place, reapBatch, random)
		if err != nil {
			r.deaf()
			return err
		}
		r.took(heard)
		for _, one := range reaped {
			r.metrics.ReapDelay.Observe(one.Late.Seconds())
		}
		if len(reaped) > 0 {
			r.log.InfoContext(ctx, "leases taken back", "count", len(reaped))
		}
		tell(ctx, r.dispatcher, r.metrics, reaped, byEvent, r.kick)
		if len(reaped) < reapBatch {
			done()
			return nil
		}
		place = next
		if err := wait.About(ctx, reapPause); err != nil {
			return err
		}
	}
}
