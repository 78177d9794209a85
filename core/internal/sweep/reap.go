package sweep

import (
	"context"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// ReapPeriod is the pause between two reaps while leases are held.
	ReapPeriod = time.Second
	// reapJitter is by what part of it the pause differs, so that cores that started together drift apart.
	reapJitter = 0.1
	// reapGap is the shortest one.
	reapGap   = ReapPeriod * 9 / 10
	reapBatch = 500
	// reapPause is the time between two batches of a mass expiry, so that its jobs do not all
	// become ready at once, and claims run in between.
	reapPause = 50 * time.Millisecond
	// contactEvery is the period of the contact check while leases are held: several times within the shortest one.
	contactEvery = 250 * time.Millisecond
)

// reaper reaps expired leases.
type reaper struct {
	Duties

	window window

	mu sync.Mutex
	// contact is when PostgreSQL answered: after an outage holders have a grace period.
	contact jobs.Contact
	// asked is when the last question that was answered was asked, by this core's clock.
	asked time.Time
	// reaped is the last answer before the last successful reap.
	reaped time.Time
}

// Reap reaps expired leases. contact runs at the same time, so that reap knows of an outage of PostgreSQL.
func (d Duties) Reap() (reap, contact *Duty) {
	r := &reaper{Duties: d}
	reap = d.kickedSeldom(d.engine.Publisher.Leased, reapGap, "reap", func(ctx context.Context) (time.Duration, error) {
		err := r.reapExpired(ctx)
		if _, seldom := r.lastAsked(); seldom && err == nil {
			return net, nil
		}
		return jittered(ReapPeriod, reapJitter), err
	})
	return reap, d.duty("reap", r.watchContact)
}

// watchContact queries PostgreSQL's time while leases are held, so that an outage is detected.
func (r *reaper) watchContact(ctx context.Context) (time.Duration, error) {
	asked, seldom := r.lastAsked()
	if seldom { // reap asks now and then
		return contactEvery, nil
	}
	if sleep := contactEvery - time.Since(asked); sleep > 0 { // a reap has asked since
		return sleep, nil
	}
	_, _ = r.checkContact(ctx) // reap logs its own errors
	return contactEvery, nil
}

func (r *reaper) checkContact(ctx context.Context) (wasOutage bool, err error) {
	asked := time.Now()
	now, err := r.store.Now(ctx)
	if err != nil {
		return false, err
	}
	return r.answered(asked, now), nil
}

func (r *reaper) answered(asked, now time.Time) (wasOutage bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = asked
	return r.contact.Answered(now)
}

func (r *reaper) lastAsked() (asked time.Time, seldom bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked, r.contact.Seldom
}

func (r *reaper) snapshot() *jobs.Contact {
	r.mu.Lock()
	defer r.mu.Unlock()
	contact := r.contact
	return &contact
}

// succeeded records that a reap succeeded that knew of this contact.
func (r *reaper) succeeded(contact *jobs.Contact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped = contact.Last
}

// look looks for leases, which is a contact check too. Without any, contact is checked with the next look only.
func (r *reaper) look(ctx context.Context, lookback time.Duration) (expired bool, err error) {
	asked := time.Now()
	found, err := r.store.Jobs.Leases(ctx, lookback)
	if err != nil {
		r.failed()
		return false, err // the next answer ends an outage
	}
	r.answered(asked, found.Now)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.contact.Seldom = !found.Held && !found.Expired; !found.Expired {
		r.reaped = r.contact.Last
	}
	return found.Expired, nil
}

// failed records that leases could not be reaped: although PostgreSQL answered, heartbeats may have
// been refused since the last successful reap. The next answer ends an outage of that length, and
// no longer one: repeated errors must not extend the grace period of every lease.
func (r *reaper) failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.contact.Last = r.reaped
}

// reapExpired reaps every lease that has expired by now, except those in a grace period.
func (r *reaper) reapExpired(ctx context.Context) error {
	// A reap whose contact did not include the outage is repeated with it.
	for range 5 {
		var expired bool
		err := r.window.run(func(lookback time.Duration) (err error) {
			if expired, err = r.look(ctx, lookback); err != nil || !expired {
				return err
			}
			return r.reap(ctx, lookback)
		})
		if err != nil || !expired {
			return err
		}
		if wasOutage, err := r.checkContact(ctx); err != nil || !wasOutage {
			return err
		}
	}
	return nil
}

func (r *reaper) reap(ctx context.Context, lookback time.Duration) error {
	var place jobs.ReapPlace
	return r.inReapBatches(ctx, "", func() ([]jobs.Change, error) {
		contact := r.snapshot()
		reaped, next, err := r.store.Jobs.ReapAfter(ctx, contact, lookback, place, reapBatch, random)
		if err != nil {
			r.failed()
			return nil, err
		}
		r.succeeded(contact)
		place = next
		for _, one := range reaped {
			r.metrics.ReapDelay.Observe(one.Late.Seconds())
		}
		if len(reaped) > 0 {
			r.log.InfoContext(ctx, "leases reaped", "count", len(reaped))
		}
		return reaped, nil
	})
}

// inReapBatches publishes batches of reaped jobs, until one is not full, with a pause between two. because, where not
// empty, is why they are requeued, for the metric.
func (d Duties) inReapBatches(ctx context.Context, because string, batch func() ([]jobs.Change, error)) error {
	for {
		reaped, err := batch()
		if err != nil {
			return err
		}
		d.engine.Publisher.Publish(ctx, publish.Changes{Jobs: reaped, Because: because})
		if len(reaped) < reapBatch {
			return nil
		}
		if err := wait.About(ctx, reapPause); err != nil {
			return err
		}
	}
}
