package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Ended redrives have the retention of dead letters.
const forgetRedrivesSQL = `
DELETE FROM redrives
WHERE id = ANY(ARRAY(SELECT id FROM redrives WHERE ended_at < statement_timestamp() - @retention::interval
                       AND tenant_id <> ALL(` + store.MovingSQL + `)
                     ORDER BY ended_at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING id`

const forgetAuditSQL = `
DELETE FROM audit_log
WHERE id = ANY(ARRAY(SELECT id FROM audit_log WHERE at < statement_timestamp() - @retention::interval
                     ORDER BY at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING id`

// ForgetRedrives deletes at most batch redrives, of any tenants, that are past their retention.
func (s *Forgetter) ForgetRedrives(ctx context.Context, batch int) (int, error) {
	return s.forget(store.WithClass(ctx, store.ClassLists), forgetRedrivesSQL, s.periods.DeadLetters, batch)
}

// ForgetAudit deletes at most batch audit entries, of any tenants, that are past their
// retention.
func (s *Forgetter) ForgetAudit(ctx context.Context, batch int) (int, error) {
	return s.forget(store.WithClass(ctx, store.ClassLists), forgetAuditSQL, s.periods.Audit, batch)
}

// Runs have the retention of finished jobs. A run is named by its place: its key has three columns.
const forgetRunsSQL = `
DELETE FROM schedule_runs
WHERE ctid = ANY(ARRAY(SELECT ctid FROM schedule_runs
                       WHERE at AT TIME ZONE 'UTC' < (statement_timestamp() - @retention::interval) AT TIME ZONE 'UTC'
                         AND tenant_id <> ALL(` + store.MovingSQL + `)
                       ORDER BY at AT TIME ZONE 'UTC' LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING tenant_id`

// ForgetRuns deletes at most batch runs of schedules, of any tenants, that are past their retention.
func (s *Forgetter) ForgetRuns(ctx context.Context, batch int) (int, error) {
	return s.forget(store.WithClass(ctx, store.ClassLists), forgetRunsSQL, s.periods.Finished, batch)
}

func (s *Forgetter) forget(ctx context.Context, sql string, retention time.Duration, batch int) (int, error) {
	if retention <= 0 {
		return 0, nil
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowTo[uuid.UUID], sql, store.Args{"retention": retention, "batch": batch})
	if err != nil {
		return 0, fmt.Errorf("retention: forget: %w", err)
	}
	return len(rows), nil
}
