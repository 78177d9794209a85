package sweep

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
)

const (
	// deliveryPoll finds the events that another core appended and did not work off.
	deliveryPoll = 10 * time.Second
	// deliveriesAtOnce is how many tenants' events are worked off at the same time.
	deliveriesAtOnce = 4
	// deliveryRounds bounds one run; the next begins at once.
	deliveryRounds = 200
	// removalPeriod, removalBatch and removalsPerRun are for the deliveries of deleted webhooks.
	removalPeriod  = time.Minute
	removalBatch   = 500
	removalsPerRun = 100
)

// Deliveries makes the deliveries of webhooks' events, and removes those of deleted webhooks. It begins right
// after the commit that ended a job.
type Deliveries struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	kicked
}

// NewDeliveries makes the duty.
func NewDeliveries(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Deliveries {
	return &Deliveries{store: store, dispatcher: d, kicked: newKicked("deliveries", m, log)}
}

// Run makes deliveries until ctx ends.
func (d *Deliveries) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { every(ctx, removalPeriod, "deliveries", d.metrics, d.log, d.Remove) })
	d.run(ctx, func(ctx context.Context) (time.Duration, error) { return deliveryPoll, d.RunOnce(ctx) })
	group.Wait()
	return nil
}

// RunOnce makes the deliveries of all tenants, in rounds: each has one step in a round, however many events it
// has left.
func (d *Deliveries) RunOnce(ctx context.Context) error {
	var problems []error
	failed := map[tenant.ID]bool{}
	for range deliveryRounds {
		worked, err := d.Round(ctx, failed)
		problems = append(problems, err)
		if !worked || ctx.Err() != nil { // there are none, or another core has locked them
			return errors.Join(problems...)
		}
	}
	d.Kick()
	return errors.Join(problems...)
}

// Round makes one step for each tenant that has events, and says whether any was of use. It leaves out the
// tenants whose step has failed, and adds to them: the next run tries them again.
func (d *Deliveries) Round(ctx context.Context, failed map[tenant.ID]bool) (worked bool, err error) {
	tenants, err := d.store.EventTenants(ctx)
	if err != nil {
		return false, err
	}
	d.metrics.WebhookEventAge.Set(oldest(tenants).Seconds())
	var mu sync.Mutex
	var problems []error
	var group sync.WaitGroup
	places := make(chan struct{}, deliveriesAtOnce)
	// before the steps, which write to it
	for _, one := range slices.DeleteFunc(tenants, func(one webhook.EventTenant) bool { return failed[one.TenantID] }) {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			done, _, err := d.dispatcher.Deliver(ctx, one.TenantID)
			d.metrics.WebhookEvents.Add(float64(done))
			mu.Lock()
			defer mu.Unlock()
			worked = worked || done > 0
			if err != nil {
				failed[one.TenantID] = true
				problems = append(problems, err)
			}
		})
	}
	group.Wait()
	return worked, errors.Join(problems...)
}

func oldest(tenants []webhook.EventTenant) time.Duration {
	var age time.Duration
	for _, one := range tenants {
		if one.Age != nil {
			age = max(age, *one.Age)
		}
	}
	return age
}

// Remove removes the deliveries of deleted webhooks, a batch of each at a time.
func (d *Deliveries) Remove(ctx context.Context) error {
	var problems []error
	for {
		deleted, err := d.store.DeletedWebhooks(ctx, removalsPerRun)
		if err != nil || len(deleted) == 0 {
			return errors.Join(append(problems, err)...)
		}
		left := false
		for _, one := range deleted {
			more, err := d.store.RemoveWebhookData(ctx, one, removalBatch)
			problems = append(problems, err)
			left = left || more
		}
		if !left || ctx.Err() != nil {
			return errors.Join(problems...)
		}
	}
}
