package queue

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// statesSQL gives the states of jobs in all three tables.
const statesSQL = `
SELECT id, state FROM jobs WHERE id = ANY(@ids::uuid[])
UNION ALL
SELECT id, state FROM finished_jobs WHERE id = ANY(@ids::uuid[]) AND finished_at >= @since
UNION ALL
SELECT id, 'dead_letter' FROM dead_letters WHERE id = ANY(@ids::uuid[])`

// States gives the states of jobs of any tenants. It is the fallback for lost notifications, one
// statement for all watches.
func (s *Jobs) States(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	type jobState struct {
		ID    uuid.UUID
		State string
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[jobState], statesSQL, store.Args{"ids": ids, "since": retention.Since(ids...)})
	if err != nil {
		return nil, fmt.Errorf("queue: states: %w", store.NothingChanged(err))
	}
	states := make(map[uuid.UUID]string, len(rows))
	for _, row := range rows {
		states[row.ID] = row.State
	}
	return states, nil
}
