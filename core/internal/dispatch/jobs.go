package dispatch

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Cancel ends a tenant's waiting job, or requests the cancel of a running one.
func (d *Dispatcher) Cancel(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (summary api.JobSummary, requested bool, err error) {
	summary, did, err := d.store.Jobs.Cancel(ctx, owner, user, id)
	if err == nil && did == jobs.CancelEnded {
		d.metrics.Cancelled.Inc()
		d.countCancelled(owner, &summary)
		d.Ended(id)
	}
	if err == nil && did == jobs.CancelRequested {
		d.watches.WakeForVersion(id)
	}
	return summary, did == jobs.CancelRequested, err
}

// DeleteJob forgets an ended job of a tenant.
func (d *Dispatcher) DeleteJob(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) error {
	state, err := d.store.Jobs.DeleteJob(ctx, owner, user, id)
	if err != nil {
		return err
	}
	if state == job.DeadLetter {
		d.metrics.Discarded.Inc()
	}
	d.Changed(id)
	return nil
}

// Discard deletes dead letters of a tenant and gives which of the ids existed.
func (d *Dispatcher) Discard(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	gone, err := d.store.DeadLetters.Discard(ctx, owner, user, ids)
	d.metrics.Discarded.Add(float64(len(gone)))
	d.Changed(slices.Collect(maps.Keys(gone))...)
	return gone, err
}

// Redrive queues a tenant's dead letters again.
func (d *Dispatcher) Redrive(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) []deadletter.Redriven {
	if err := d.limits.Load(ctx, owner); err != nil {
		refused := make([]deadletter.Redriven, len(ids))
		for i := range refused {
			refused[i].Err = err
		}
		return refused
	}
	redriven := d.store.DeadLetters.Redrive(ctx, owner, user, ids, d.capsOf(owner))
	d.redriven(ctx, redriven)
	return redriven
}

// StepRedrive processes one batch of a redrive by filter. worked says that this core held it.
func (d *Dispatcher) StepRedrive(ctx context.Context, due deadletter.DueRedrive, random float64) (worked bool, err error) {
	if err := d.limits.Load(ctx, due.TenantID); err != nil {
		return false, err
	}
	step, err := d.store.DeadLetters.StepRedrive(ctx, due.ID, d.capsOf(due.TenantID), random)
	if err != nil {
		return false, err
	}
	d.redriven(ctx, step.Redriven)
	d.metrics.Discarded.Add(float64(len(step.Discarded)))
	d.Changed(step.Discarded...)
	return step.Worked, nil
}

// capsOf gives the caps on active jobs of a tenant; nil where there are none.
func (d *Dispatcher) capsOf(owner tenant.ID) deadletter.CapsOf {
	if !d.mayCapActive(owner) {
		return nil
	}
	return func(name string, user *string) []caps.Cap { return d.activeCaps(owner, name, user) }
}

// redriven publishes jobs that were queued again.
func (d *Dispatcher) redriven(ctx context.Context, found []deadletter.Redriven) {
	var ready []jobs.Ready
	for _, one := range found {
		if one.Err == nil {
			if one.Ready.Lane != 0 {
				ready = append(ready, one.Ready)
			}
			d.metrics.Requeued.WithLabelValues(metrics.Redrive).Inc()
			d.Changed(one.ID)
		}
	}
	d.Wake(ready)
	d.moveRedriven(ctx, ready)
}

// mayCapActive says whether any job of the tenant can be under a cap on active jobs.
func (d *Dispatcher) mayCapActive(owner tenant.ID) bool {
	return d.limits.MayCapActive(owner) || d.lanes.MayCapActive(owner)
}
