package submits

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// lanesPerStep and orphansPerStep bound one statement.
	lanesPerStep   = 1000
	orphansPerStep = 500
	// redrivenTime bounds the move of one lane's jobs beside a redrive; the duty moves the rest.
	redrivenTime = time.Second
)

// Orphans are waiting jobs whose lane was deleted.
type Orphans struct {
	store     *cell.Cell
	cached    *cache.Memory
	publisher *publish.Publisher
	log       *slog.Logger
}

// MoveOrphans moves waiting jobs of deleted lanes to existing ones: no claim would find them. It
// gives how many it moved. It ends when none is left, or after about within: jobs may come back as
// fast as they are moved.
func (o *Orphans) MoveOrphans(ctx context.Context, within time.Duration) (moved int, err error) {
	for until := time.Now().Add(within); ; {
		n, left, err := o.moveOrphansOnce(ctx, until, within/10)
		moved += n
		if err != nil || !left || time.Now().After(until) {
			return moved, err
		}
	}
}

// moveOrphansOnce visits each deleted lane once, for about perLane. left says that it did not move all.
func (o *Orphans) moveOrphansOnce(ctx context.Context, until time.Time, perLane time.Duration) (moved int, left bool, err error) {
	for after := lanes.ID(-1); ; { // 0 is no lane: jobs in it are orphans too
		orphans, last, err := o.store.Lanes.OrphanLanes(ctx, after, lanesPerStep)
		if err != nil {
			return moved, left, err
		}
		for _, lane := range orphans {
			n, more, err := o.moveOrphansOf(ctx, lane, perLane)
			moved, left = moved+n, left || more
			if err != nil || time.Now().After(until) {
				return moved, true, err
			}
		}
		if after = last; last == 0 {
			return moved, left, nil
		}
	}
}

// moveOrphansOf moves the waiting jobs of a deleted lane, for about within; left says that there may
// be more.
func (o *Orphans) moveOrphansOf(ctx context.Context, lane lanes.ID, within time.Duration) (moved int, left bool, err error) {
	refreshed := false
	for until := time.Now().Add(within); ; {
		jobs, err := o.store.Lanes.JobsOfLane(ctx, lane, orphansPerStep)
		if err != nil || len(jobs) == 0 {
			return moved, false, err
		}
		if moved > 0 && time.Now().After(until) {
			return moved, true, nil
		}
		lanes, err := o.lanesOfOrphans(ctx, jobs)
		if err != nil {
			return moved, false, err
		}
		move := movesFrom(lane, jobs, lanes)
		if len(move.jobs) == 0 && move.known && !refreshed {
			refreshed = true
			o.cached.Lanes.ReadAll()
			if err := o.publisher.Refresh(ctx); err != nil {
				return moved, false, err
			}
			continue
		}
		if len(move.jobs) == 0 {
			o.log.WarnContext(ctx, "jobs stay without a lane until their tenant may use another lane", "lane", lane)
			return moved, false, nil
		}
		if err := o.store.Claims.Move(ctx, move.jobs, move.to); err != nil {
			return moved, false, err
		}
		moved += len(move.jobs)
		o.publisher.Wake(move.ready)
	}
}

// orphanMove is which jobs of a deleted lane go where, and those of them that are ready.
type orphanMove struct {
	jobs  []claim.MisroutedJob
	to    []lanes.ID
	ready []jobs.Ready
	// known says that the deleted lane is still in this core's cache.
	known bool
}

func movesFrom(lane lanes.ID, found []lanes.Orphan, lanes []lanes.ID) (move orphanMove) {
	for i, job := range found {
		switch lanes[i] {
		case lane:
			move.known = true
		case 0: // its tenant has reached a bound on lanes
		default:
			from := jobs.Ready{Lane: lane, Priority: job.Priority, ID: job.ID}
			move.jobs, move.to = append(move.jobs, claim.MisroutedJob{Ready: from, User: job.UserID}), append(move.to, lanes[i])
			if job.ReadyAt != nil {
				move.ready = append(move.ready, jobs.Ready{Lane: lanes[i], Priority: job.Priority, At: *job.ReadyAt, ID: job.ID})
			}
		}
	}
	return move
}

// lanesOfOrphans gives the lane of each job, cached or made now; 0 where none can be made.
func (o *Orphans) lanesOfOrphans(ctx context.Context, jobs []lanes.Orphan) ([]lanes.ID, error) {
	asks := make([]lanes.Ask, len(jobs))
	wanted := map[tenant.ID]map[lanes.Ask]bool{}
	for i, job := range jobs {
		if err := o.cached.Limits.Load(ctx, job.TenantID); err != nil {
			return nil, err
		}
		asks[i] = lanes.Ask{Key: o.cached.LaneOf(job.TenantID, job.Queue, job.Type, job.Tags, store.NullIfEmpty(job.UserID), job.Key, job.Budgeted), RequestedBy: job.UserID}
		if wanted[job.TenantID] == nil {
			wanted[job.TenantID] = map[lanes.Ask]bool{}
		}
		wanted[job.TenantID][asks[i]] = true
	}
	found := map[lanes.Ask]lanes.ID{}
	for owner, keys := range wanted {
		list := slices.Collect(maps.Keys(keys))
		made, err := o.cached.Maker.Ensure(ctx, owner, list)
		if err != nil {
			return nil, err
		}
		for i, lane := range made {
			found[list[i]] = lane.ID
		}
	}
	ids := make([]lanes.ID, len(jobs))
	for i := range asks {
		ids[i] = found[asks[i]]
	}
	return ids, nil
}

// moveRedriven does the same at once for jobs that were redriven into deleted lanes: a dead letter
// outlives its lane.
func (o *Orphans) moveRedriven(ctx context.Context, redriven []lanes.ID) {
	gone := map[lanes.ID]bool{}
	for _, lane := range redriven {
		if _, known := o.cached.Lanes.ByID(lane); lane != 0 && !known {
			gone[lane] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	orphans, err := o.store.Lanes.Orphaned(ctx, slices.Collect(maps.Keys(gone)))
	for _, lane := range orphans {
		_, _, moveErr := o.moveOrphansOf(ctx, lane, redrivenTime)
		err = errors.Join(err, moveErr)
	}
	if err != nil {
		o.log.WarnContext(ctx, "jobs of forgotten lanes are moved by the next run of the duty", "error", err)
	}
}
