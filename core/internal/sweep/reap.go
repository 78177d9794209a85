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
	// ReapPeriod is the pause between two reaps.
	ReapPeriod = time.Second
	reapBatch  = 500
	// reapPause is the time between two batches of a mass expiry, so that its jobs do not all
	// become ready at once, and claims run in between.
	reapPause = 50 * time.Millisecond
	// contactEvery is the period of the contact check: several times within the shortest lease.
	contactEvery = 250 * time.Millisecond
)

// Reaper reaps expired leases.
type Reaper struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	kick       func()
	metrics    *metrics.Jobs
	log        *slog.Logger
	lookback   lookback

	mu sync.Mutex
	// contact is when PostgreSQL answered: after an outage holders have a grace period.
	contact queue.Contact
	// asked is when the last question that was answered was asked, by this core's clock.
	asked time.Time
	// reaped is the last answer before the last successful reap.
	reaped time.Time
}

// NewReaper makes a Reaper. kick is called when a job becomes scheduled.
func NewReaper(store *cell.Cell, d *dispatch.Dispatcher, kick func(), m *metrics.Jobs, log *slog.Logger) *Reaper {
	return &Reaper{store: store, dispatcher: d, kick: kick, metrics: m, log: log}
}

// Run reaps until ctx ends.
func (r *Reaper) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	listening.Go(func() { r.watchContact(ctx) })
	defer listening.Wait()
	every(ctx, ReapPeriod, "reap", r.metrics, r.log, r.RunOnce)
	return nil
}

// watchContact queries PostgreSQL's time, so that an outage is detected.
func (r *Reaper) watchContact(ctx context.Context) {
	pause := time.Duration(0)
	for wait.For(ctx, pause) == nil {
		pause = contactEvery - time.Since(r.lastAsked())
		if pause > 0 { // a reap has asked since
			continue
		}
		pause = contactEvery
		_, _ = r.checkContact(ctx) // the duty logs its own errors
	}
}

func (r *Reaper) checkContact(ctx context.Context) (wasOutage bool, err error) {
	asked := time.Now()
	now, err := r.store.Now(ctx)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = asked
	return r.contact.Answered(now), nil
}

func (r *Reaper) lastAsked() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func (r *Reaper) snapshot() *queue.Contact {
	r.mu.Lock()
	defer r.mu.Unlock()
	contact := r.contact
	return &contact
}

// succeeded records that a reap succeeded that knew of this contact.
func (r *Reaper) succeeded(contact *queue.Contact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped = contact.Last
}

// failed records that leases could not be reaped: although PostgreSQL answered, heartbeats may have
// been refused since the last successful reap. The next answer ends an outage of that length, and
// no longer one: repeated errors must not extend the grace period of every lease.
func (r *Reaper) failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.contact.Last = r.reaped
}

// RunOnce reaps every lease that has expired by now, except those in a grace period.
func (r *Reaper) RunOnce(ctx context.Context) error {
	if _, err := r.checkContact(ctx); err != nil {
		return err // the next answer ends an outage
	}
	// A reap whose contact did not include the outage is repeated with it.
	for range 5 {
		if err := r.reap(ctx); err != nil {
			return err
		}
		if wasOutage, err := r.checkContact(ctx); err != nil || !wasOutage {
			return err
		}
	}
	return nil
}

func (r *Reaper) reap(ctx context.Context) error {
	back, done := r.lookback.next()
	var place queue.ReapPlace
	for {
		contact := r.snapshot()
		reaped, next, err := r.store.ReapAfter(ctx, contact, back, place, reapBatch, random)
		if err != nil {
			r.failed()
			return err
		}
		r.succeeded(contact)
		for _, one := range reaped {
			r.metrics.ReapDelay.Observe(one.Late.Seconds())
		}
		if len(reaped) > 0 {
			r.log.InfoContext(ctx, "leases reaped", "count", len(reaped))
		}
		publish(ctx, r.dispatcher, r.metrics, reaped, byEvent, r.kick)
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
