package dispatch

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// lanesPerStep and orphansPerStep bound one statement.
	lanesPerStep   = 1000
	orphansPerStep = 500
)

// MoveOrphans moves waiting jobs of deleted lanes to existing ones: no claim would find them. It
// gives how many it moved.
func (d *Dispatcher) MoveOrphans(ctx context.Context) (moved int, err error) {
	for after := directory.LaneID(-1); ; { // 0 is no lane: jobs in it are orphans too
		orphans, last, err := d.store.OrphanLanes(ctx, after, lanesPerStep)
		if err != nil {
			return moved, err
		}
		for _, lane := range orphans {
			n, err := d.moveOrphansOf(ctx, lane)
			moved += n
			if err != nil {
				return moved, err
			}
		}
		if after = last; last == 0 {
			return moved, nil
		}
	}
}

// moveOrphansOf moves the waiting jobs of a deleted lane.
func (d *Dispatcher) moveOrphansOf(ctx context.Context, lane directory.LaneID) (moved int, err error) {
	refreshed := false
	for {
		jobs, err := d.store.JobsOfLane(ctx, lane, orphansPerStep)
		if err != nil || len(jobs) == 0 {
			return moved, err
		}
		lanes, err := d.lanesOfOrphans(ctx, jobs)
		if err != nil {
			return moved, err
		}
		var misrouted []claim.MisroutedJob
		var to []directory.LaneID
		var ready []queue.Ready
		known := false
		for i, job := range jobs {
			if lanes[i] == lane { // deleted, and still in this core's cache
				known = true
				continue
			}
			if lanes[i] == 0 {
				continue // its tenant has reached a bound on lanes
			}
			misroutedJob := claim.MisroutedJob{Ready: queue.Ready{Lane: lane, Priority: job.Priority, ID: job.ID}, User: job.UserID}
			misrouted, to = append(misrouted, misroutedJob), append(to, lanes[i])
			if job.ReadyAt != nil {
				ready = append(ready, queue.Ready{Lane: lanes[i], Priority: job.Priority, At: *job.ReadyAt, ID: job.ID})
			}
		}
		if len(misrouted) == 0 && known && !refreshed {
			refreshed = true
			d.lanes.ReadAll()
			if err := d.Refresh(ctx); err != nil {
				return moved, err
			}
			continue
		}
		if len(misrouted) == 0 {
			d.log.WarnContext(ctx, "jobs stay without a lane until their tenant may use another lane", "lane", lane)
			return moved, nil
		}
		if err := d.store.Move(ctx, misrouted, to); err != nil {
			return moved, err
		}
		moved += len(misrouted)
		d.Wake(ready)
	}
}

// lanesOfOrphans gives the lane of each job, cached or made now; 0 where none can be made.
func (d *Dispatcher) lanesOfOrphans(ctx context.Context, jobs []directory.Orphan) ([]directory.LaneID, error) {
	asks := make([]directory.LaneAsk, len(jobs))
	wanted := map[tenant.ID]map[directory.LaneAsk]bool{}
	for i, job := range jobs {
		if err := d.limits.Load(ctx, job.TenantID); err != nil {
			return nil, err
		}
		asks[i] = directory.LaneAsk{LaneKey: d.laneOf(job.TenantID, job.Queue, job.Type, job.Tags, null.Text(job.UserID)), For: job.UserID}
		if wanted[job.TenantID] == nil {
			wanted[job.TenantID] = map[directory.LaneAsk]bool{}
		}
		wanted[job.TenantID][asks[i]] = true
	}
	found := map[directory.LaneAsk]directory.LaneID{}
	for owner, keys := range wanted {
		list := slices.Collect(maps.Keys(keys))
		made, err := d.maker.ensure(ctx, owner, list)
		if err != nil {
			return nil, err
		}
		for i, lane := range made {
			found[list[i]] = lane.ID
		}
	}
	ids := make([]directory.LaneID, len(jobs))
	for i := range asks {
		ids[i] = found[asks[i]]
	}
	return ids, nil
}

// moveRedriven does the same at once for jobs that were redriven into deleted lanes: a dead letter
// outlives its lane.
func (d *Dispatcher) moveRedriven(ctx context.Context, redriven []queue.Ready) {
	gone := map[directory.LaneID]bool{}
	for _, one := range redriven {
		if _, known := d.lanes.ByID(one.Lane); !known {
			gone[one.Lane] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	orphans, err := d.store.Orphaned(ctx, slices.Collect(maps.Keys(gone)))
	for _, lane := range orphans {
		_, moveErr := d.moveOrphansOf(ctx, lane)
		err = errors.Join(err, moveErr)
	}
	if err != nil {
		d.log.WarnContext(ctx, "jobs of forgotten lanes are moved by the next run of the duty", "error", err)
	}
}
