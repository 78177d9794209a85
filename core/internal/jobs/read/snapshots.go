package read

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// snapshotsSQL gives what watchers compare of jobs in all three tables.
var snapshotsSQL = `
SELECT id, state, epoch, cancel_requested, progress, CASE WHEN linked THEN ` + lastOutputSQL("jobs.id") + ` END AS said FROM jobs WHERE id = ANY(@ids::uuid[])
UNION ALL
SELECT id, state, epoch, false, NULL, NULL FROM finished_jobs WHERE id = ANY(@ids::uuid[]) AND finished_at >= @since
UNION ALL
SELECT id, 'dead_letter', epoch, false, NULL, NULL FROM dead_letters WHERE id = ANY(@ids::uuid[])`

// Snapshot is what watchers compare of a job.
type Snapshot struct{ State, Version string }

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
		version := api.JobVersion(one.State, one.Epoch, one.CancelRequested, progressOf(one.Progress, one.Epoch), one.Said)
		snapshots[one.ID] = Snapshot{one.State, version}
	}
	return snapshots, nil
}
