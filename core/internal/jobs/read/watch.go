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

// looksSQL gives what watchers compare of jobs in all three tables.
const looksSQL = `
SELECT id, state, epoch, cancel_requested, progress FROM jobs WHERE id = ANY(@ids::uuid[])
UNION ALL
SELECT id, state, epoch, false, NULL FROM finished_jobs WHERE id = ANY(@ids::uuid[]) AND finished_at >= @since
UNION ALL
SELECT id, 'dead_letter', epoch, false, NULL FROM dead_letters WHERE id = ANY(@ids::uuid[])`

// Look is what watchers compare of a job.
type Look struct{ State, Version string }

// Looks gives what watchers compare of jobs of any tenants. It is the fallback for lost notifications, one
// statement for all watches.
func (s *Reader) Looks(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Look, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	type look struct {
		ID              uuid.UUID
		State           string
		Epoch           int64
		CancelRequested bool
		Progress        []byte
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[look], looksSQL, store.Args{"ids": ids, "since": retention.Since(ids...)})
	if err != nil {
		return nil, fmt.Errorf("jobs: looks: %w", store.NothingChanged(err))
	}
	looks := make(map[uuid.UUID]Look, len(rows))
	for _, row := range rows {
		version := api.JobVersion(row.State, row.Epoch, row.CancelRequested, progressOf(row.Progress, row.Epoch))
		looks[row.ID] = Look{row.State, version}
	}
	return looks, nil
}
