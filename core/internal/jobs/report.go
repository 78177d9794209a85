package jobs

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Report is a lease to extend, with what its holder reports of the job.
type Report struct {
	job.Lease
	// Progress replaces the job's; nil leaves it as it is.
	Progress *api.Progress
	// Checkpoint is JSON that replaces the job's; nil leaves it as it is.
	Checkpoint []byte
}

// Plain are leases to extend.
func Plain(leases []job.Lease) []Report {
	reports := make([]Report, len(leases))
	for i := range leases {
		reports[i].Lease = leases[i]
	}
	return reports
}

// reportSQL is heartbeatSQL with reports. The ids are sorted, each there once, so that a row's place is found by binary
// search: a join would lock rows in another order, see heldSQL.
const reportSQL = `
WITH held AS (
UPDATE jobs
SET ` + extendSQL + `,
    progress = COALESCE((@progress::text[])[` + reportPlaceSQL + `]::json, progress),
    checkpoint = COALESCE((@checkpoints::text[])[` + reportPlaceSQL + `]::json, checkpoint),
    -- what the checkpoint adds to a claim's answer
    size = size + CASE WHEN (@checkpoints::text[])[` + reportPlaceSQL + `] IS NULL THEN 0
      ELSE octet_length((@checkpoints::text[])[` + reportPlaceSQL + `]) - COALESCE(octet_length(checkpoint::text), 0) END
WHERE ` + heldSQL + beatSQL

const reportPlaceSQL = `width_bucket(id, @ids::uuid[])`

// Report extends the leases, of any tenants, that are still held, stores what their holders report, and gives those.
// Of a job that is named twice the lease with the higher epoch counts, and of the same lease the later report. A lease
// that is no longer held stores nothing.
func (s *Jobs) Report(ctx context.Context, reports []Report) (map[job.Lease]Beat, error) {
	var leases []job.Lease
	told := map[uuid.UUID]Report{}
	for _, one := range reports {
		if one.Progress == nil && one.Checkpoint == nil {
			leases = append(leases, one.Lease)
			continue
		}
		before, twice := told[one.Job]
		if twice && before.Lease != one.Lease {
			if before.Epoch > one.Epoch {
				one, before = before, one
			}
			leases = append(leases, before.Lease) // which is lost
		} else if twice {
			one = before.followedBy(one)
		}
		told[one.Job] = one
	}
	held, err := s.Heartbeat(ctx, leases)
	if err != nil || len(told) == 0 {
		return held, err
	}
	beats, err := store.Query(store.WithClass(ctx, store.ClassOutcomes), s.Store, scanBeat, reportSQL, reportArgs(told))
	if err != nil {
		return nil, fmt.Errorf("jobs: report: %w", err)
	}
	for _, beat := range beats {
		held[beat.lease()] = beat
	}
	return held, nil
}

// followedBy is a report after which another one came.
func (r Report) followedBy(next Report) Report {
	if next.Progress == nil {
		next.Progress = r.Progress
	}
	if next.Checkpoint == nil {
		next.Checkpoint = r.Checkpoint
	}
	return next
}

func reportArgs(told map[uuid.UUID]Report) store.Args {
	reports := make([]Report, 0, len(told))
	for _, one := range told {
		reports = append(reports, one)
	}
	slices.SortFunc(reports, func(a, b Report) int { return bytes.Compare(a.Job[:], b.Job[:]) })
	leases := make([]job.Lease, len(reports))
	progress, checkpoints := make([]*string, len(reports)), make([]*string, len(reports))
	for i, one := range reports {
		leases[i] = one.Lease
		if one.Progress != nil {
			text := string(store.JSON(read.StoredProgress{Progress: *one.Progress, Epoch: one.Epoch}))
			progress[i] = &text
		}
		if one.Checkpoint != nil {
			text := string(one.Checkpoint)
			checkpoints[i] = &text
		}
	}
	args := leaseArgs(leases)
	args["progress"], args["checkpoints"] = progress, checkpoints
	return args
}
