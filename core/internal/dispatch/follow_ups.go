package dispatch

import (
	"context"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// FollowUp works off some of a tenant's follow-ups, and publishes what became of their children. done
// counts them, more says that there may be others.
func (d *Dispatcher) FollowUp(ctx context.Context, owner tenant.ID) (done int, more bool, err error) {
	followed, err := d.store.Jobs.FollowUp(ctx, owner)
	if err != nil {
		return 0, false, err
	}
	ready := make([]jobs.Ready, 0, len(followed.Unblocked))
	changed, scheduled := make([]uuid.UUID, 0, len(followed.Unblocked)), false
	for _, one := range followed.Unblocked {
		changed = append(changed, one.ID)
		if one.State == job.Scheduled {
			scheduled = true
			continue
		}
		ready = append(ready, jobs.Ready{Lane: one.LaneID, Priority: one.Priority, At: *one.ReadyAt})
	}
	d.metrics.Unblocked.Add(float64(len(followed.Unblocked)))
	d.metrics.Cancelled.Add(float64(len(followed.Cancelled)))
	d.countReaped(followed.Cancelled)
	d.Changed(changed...)
	d.Ended(jobs.IDs(followed.Cancelled)...)
	d.Wake(ready)
	if scheduled {
		d.scheduled()
	}
	return followed.Done, followed.More, nil
}
