package dispatch

import (
	"context"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Cancel ends a tenant's job, or asks for its end where it runs (requested).
func (d *Dispatcher) Cancel(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (summary api.JobSummary, requested bool, err error) {
	summary, requested, err = d.store.Cancel(ctx, owner, user, id)
	if err == nil && !requested {
		d.Ended(id)
	}
	return summary, requested, err
}

// Redrive queues a tenant's dead letters again.
func (d *Dispatcher) Redrive(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) []queue.Redriven {
	if err := d.limits.Know(ctx, owner); err != nil {
		refused := make([]queue.Redriven, len(ids))
		for i := range refused {
			refused[i].Err = err
		}
		return refused
	}
	capsOf := func(name string, user *string) []queue.Cap { return d.activeCaps(owner, name, user) }
	if !d.mayCapActive(owner) {
		capsOf = nil
	}
	risen := d.store.Redrive(ctx, owner, user, ids, capsOf)
	var ready []queue.Ready
	for i, one := range risen {
		if one.Err == nil {
			ready = append(ready, one.Ready)
			d.metrics.Requeued.WithLabelValues("redrive").Inc()
			d.Changed(ids[i])
		}
	}
	d.Wake(ready)
	return risen
}

// mayCapActive says whether any job of the tenant can come under a cap on active
// jobs.
func (d *Dispatcher) mayCapActive(owner tenant.ID) bool {
	return d.limits.mayCapActive(owner) || d.lanes.mayCapActive(owner)
}
