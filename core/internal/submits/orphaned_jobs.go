package submits

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// lanesPerStep and orphansPerStep bound one statement.
	lanesPerStep   = 1000
	orphansPerStep = 500
	// redrivenTime bounds the move of one lane's jobs beside a redrive; the duty moves the rest.
	redrivenTime = time.Second
)

// MoveOrphans moves waiting jobs of deleted lanes to existing ones: no claim would find them. It
// gives how many it moved. It ends when none is left, or after about within: jobs may come back as
// fast as they are moved.
func (s *Submits) MoveOrphans(ctx context.Context, within time.Duration) (moved int, err error) {
	for until := time.Now().Add(within); ; {
		n, left, err := s.moveOrphansOnce(ctx, until, within/10)
		moved += n
		if err != nil || !left || time.Now().After(until) {
			return moved, err
		}
	}
}

// moveOrphansOnce visits each deleted lane once, for about perLane. left says that it did not move all.
func (s *Submits) moveOrphansOnce(ctx context.Context, until time.Time, perLane time.Duration) (moved int, left bool, err error) {
	for after := lanes.ID(-1); ; { // 0 is no lane: jobs in it are orphans too
		orphans, last, err := s.store.Lanes.OrphanLanes(ctx, after, lanesPerStep)
		if err != nil {
			return moved, left, err
		}
		for _, lane := range orphans {
			n, more, err := s.moveOrphansOf(ctx, lane, perLane)
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
func (s *Submits) moveOrphansOf(ctx context.Context, lane lanes.ID, within time.Duration) (moved int, left bool, err error) {
	refreshed := false
	for until := time.Now().Add(within); ; {
		jobs, err := s.store.Lanes.JobsOfLane(ctx, lane, orphansPerStep)
		if err != nil || len(jobs) == 0 {
			return moved, false, err
		}
		if moved > 0 && time.Now().After(until) {
			return moved, true, nil
		}
		lanes, err := s.lanesOfOrphans(ctx, jobs)
		if err != nil {
			return moved, false, err
		}
		move := movesFrom(lane, jobs, lanes)
		if len(move.jobs) == 0 && move.known && !refreshed {
			refreshed = true
			s.cached.Lanes.ReadAll()
			if err := s.publisher.Refresh(ctx); err != nil {
				return moved, false, err
			}
			continue
		}
		if len(move.jobs) == 0 {
			s.log.WarnContext(ctx, "jobs stay without a lane until their tenant may use another lane", "lane", lane)
			return moved, false, nil
		}
		if err := s.store.Claims.Move(ctx, move.jobs, move.to); err != nil {
			return moved, false, err
		}
		moved += len(move.jobs)
		s.publisher.Wake(move.ready)
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
func (s *Submits) lanesOfOrphans(ctx context.Context, jobs []lanes.Orphan) ([]lanes.ID, error) {
	asks := make([]lanes.Ask, len(jobs))
	wanted := map[tenant.ID]map[lanes.Ask]bool{}
	for i, job := range jobs {
		if err := s.cached.Limits.Load(ctx, job.TenantID); err != nil {
			return nil, err
		}
		asks[i] = lanes.Ask{Key: s.cached.LaneOf(job.TenantID, job.Queue, job.Type, job.Tags, null.Text(job.UserID)), For: job.UserID}
		if wanted[job.TenantID] == nil {
			wanted[job.TenantID] = map[lanes.Ask]bool{}
		}
		wanted[job.TenantID][asks[i]] = true
	}
	found := map[lanes.Ask]lanes.ID{}
	for owner, keys := range wanted {
		list := slices.Collect(maps.Keys(keys))
		made, err := s.cached.Maker.Ensure(ctx, owner, list)
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
func (s *Submits) moveRedriven(ctx context.Context, redriven []lanes.ID) {
	gone := map[lanes.ID]bool{}
	for _, lane := range redriven {
		if _, known := s.cached.Lanes.ByID(lane); lane != 0 && !known {
			gone[lane] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	orphans, err := s.store.Lanes.Orphaned(ctx, slices.Collect(maps.Keys(gone)))
	for _, lane := range orphans {
		_, _, moveErr := s.moveOrphansOf(ctx, lane, redrivenTime)
		err = errors.Join(err, moveErr)
	}
	if err != nil {
		s.log.WarnContext(ctx, "jobs of forgotten lanes are moved by the next run of the duty", "error", err)
	}
}
