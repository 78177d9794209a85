package read

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
)

// snapshotsSQL gives what watchers compare of jobs in all three tables.
var snapshotsSQL = `
SELECT id, state, epoch, cancel_requested, progress, CASE WHEN linked THEN ` + lastOutputSQL("jobs.id") + ` END AS said FROM jobs WHERE id = ANY(@ids::uuid[])
UNION ALL
SELECT id, state, epoch, false, NULL, NULL FROM finished_jobs WHERE id = ANY(@ids::uuid[]) AND finished_at >= @since
UNION ALL
SELECT id, 'dead_letter', epoch, false, NULL, NULL FROM dead_letters WHERE id = ANY(@ids::uuid[])`

// Snapshot is what watchers compare of a job. Hidden is the version for those who do not see the progress's message.
type Snapshot struct{ State, Version, Hidden string }

// SnapshotOf makes that of a job with these properties.
func SnapshotOf(state string, epoch int64, cancelRequested bool, progress *api.Progress, output *string) Snapshot {
	made := Snapshot{State: state, Version: api.JobVersion(state, epoch, cancelRequested, progress, output)}
	if made.Hidden = made.Version; progress != nil && progress.Message != nil {
		made.Hidden = api.JobVersion(state, epoch, cancelRequested, &api.Progress{Percent: progress.Percent, Message: new(jobtype.Hidden)}, output)
	}
	return made
}

// Snapshots gives what watchers compare of jobs of any tenants. It is the fallback for lost notifications, one
// statement for all watches.
func (s *Reader) Snapshots(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Snapshot, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	type row struct {
		ID              uuid.UUID
		State           string
		Epoch           int64
		CancelRequested bool
		Progress        []byte
		Said            *string
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[row], snapshotsSQL, store.Args{"ids": ids, "since": retention.Since(ids...)})
	if err != nil {
		return nil, fmt.Errorf("jobs: snapshots: %w", store.NotApplied(err))
	}
	snapshots := make(map[uuid.UUID]Snapshot, len(rows))
	for _, one := range rows {
		snapshots[one.ID] = SnapshotOf(one.State, one.Epoch, one.CancelRequested, progressOf(one.Progress, one.Epoch), one.Said)
	}
	return snapshots, nil
}
