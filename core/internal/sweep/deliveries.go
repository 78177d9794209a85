package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
)

const (
	// deliveryPoll finds the events that another core appended and did not work off.
	deliveryPoll = longNet
	// removalPeriod, removalBatch and removalsPerRun are for the deliveries of deleted webhooks.
	removalPeriod  = time.Minute
	removalBatch   = 500
	removalsPerRun = 100
)

// Deliveries makes the deliveries of webhooks' events. It begins right after the commit that ended a job.
func (d Duties) Deliveries() *Duty {
	return d.inRounds("deliveries", deliveryPoll, rounds{tenants: d.eventTenants, step: func(ctx context.Context, owner tenant.ID) (bool, error) {
		done, _, err := d.engine.Submits.Deliver(ctx, owner)
		d.metrics.WebhookEvents.Add(float64(done))
		return done > 0, err
	}})
}

// eventTenants lists the tenants that have events, and sets the metric of the age of the oldest.
func (d Duties) eventTenants(ctx context.Context) ([]tenant.ID, error) {
	tenants, err := d.store.Webhooks.EventTenants(ctx)
	if err != nil {
		return nil, err
	}
	d.metrics.WebhookEventAge.Set(oldest(tenants).Seconds())
	ids := make([]tenant.ID, len(tenants))
	for i, one := range tenants {
		ids[i] = one.TenantID
	}
	return ids, nil
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

// Removals removes the deliveries of deleted webhooks.
func (d Duties) Removals() *Duty { return d.every(removalPeriod, "deliveries", d.removeDeliveries) }

// removeDeliveries removes the deliveries of deleted webhooks, a batch of each at a time.
func (d Duties) removeDeliveries(ctx context.Context) error {
	var problems []error
	for {
		deleted, err := d.store.Webhooks.DeletedWebhooks(ctx, removalsPerRun)
		if err != nil || len(deleted) == 0 {
			return errors.Join(append(problems, err)...)
		}
		left := false
		for _, one := range deleted {
			more, err := d.store.Webhooks.RemoveWebhookData(ctx, one, removalBatch)
			problems = append(problems, err)
			left = left || more
		}
		if !left || ctx.Err() != nil {
			return errors.Join(problems...)
		}
	}
}
