package deadletter

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

const forgetDeadSQL = `
WITH gone AS (
  DELETE FROM dead_letters
  WHERE id = ANY(ARRAY(SELECT id FROM dead_letters WHERE died_at < statement_timestamp() - @retention::interval
                         AND tenant_id <> ALL(` + store.MovingSQL + `)
                       ORDER BY died_at LIMIT @batch FOR UPDATE SKIP LOCKED))
  RETURNING ` + dependency.RemovedColumns + `
)` + dependency.RemovedSQL

// ForgetDead deletes at most batch dead letters, of any tenants, that are past their retention.
func (s *Letters) ForgetDead(ctx context.Context, batch int) (int, error) {
	if s.retention <= 0 {
		return 0, nil
	}
	ctx = store.WithClass(ctx, store.ClassLists)
	gone, err := store.Query(ctx, s.Store, pgx.RowToStructByName[dependency.Gone], forgetDeadSQL, store.Args{"retention": s.retention, "batch": batch})
	if err != nil {
		return 0, fmt.Errorf("deadletter: forget: %w", err)
	}
	if _, told := dependency.IDs(gone); told {
		s.edges.Appended()
		s.gates.Appended()
	}
	return len(gone), nil
}
