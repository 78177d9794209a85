package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

const forgetDeadSQL = `
DELETE FROM dead_letters
WHERE id = ANY(ARRAY(SELECT id FROM dead_letters WHERE died_at < statement_timestamp() - @keep::interval
                     ORDER BY died_at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING id`

// ForgetDead deletes at most batch dead letters, of any tenants, that are past
// their retention.
func (s *Forgetter) ForgetDead(ctx context.Context, batch int) (int, error) {
	return s.forget(store.WithClass(ctx, store.ClassLists), forgetDeadSQL, s.periods.DeadLetters, batch)
}

// Redrives that have ended are kept for as long as dead letters.
const forgetRedrivesSQL = `
DELETE FROM redrives
WHERE id = ANY(ARRAY(SELECT id FROM redrives WHERE ended_at < statement_timestamp() - @keep::interval
                     ORDER BY ended_at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING id`

const forgetAuditSQL = `
DELETE FROM audit_log
WHERE id = ANY(ARRAY(SELECT id FROM audit_log WHERE at < statement_timestamp() - @keep::interval
                     ORDER BY at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING id`

// ForgetRedrives deletes at most batch redrives, of any tenants, that ended before
// their retention.
func (s *Forgetter) ForgetRedrives(ctx context.Context, batch int) (int, error) {
	return s.forget(store.WithClass(ctx, store.ClassLists), forgetRedrivesSQL, s.periods.DeadLetters, batch)
}

// ForgetAudit deletes at most batch audit entries, of any tenants, that are past their
// retention.
func (s *Forgetter) ForgetAudit(ctx context.Context, batch int) (int, error) {
	return s.forget(store.WithClass(ctx, store.ClassLists), forgetAuditSQL, s.periods.Audit, batch)
}

func (s *Forgetter) forget(ctx context.Context, sql string, keep time.Duration, batch int) (int, error) {
	if keep <= 0 {
		return 0, nil
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowTo[uuid.UUID], sql, pgx.StrictNamedArgs{"keep": keep, "batch": batch})
	if err != nil {
		return 0, fmt.Errorf("retention: forget: %w", err)
	}
	return len(rows), nil
}

// How long an Idempotency-Key is remembered at least, and how long after its job
// has finished.
const (
	KeyAge      = 24 * time.Hour
	KeyAfterEnd = time.Hour
)

// forgetKeysSQL looks at the next keys by age, and forgets those whose jobs are
// neither live nor just finished. It gives where the next batch begins.
const forgetKeysSQL = `
WITH old AS MATERIALIZED (
  SELECT tenant_id, user_id, operation, key, job_ids, created_at
  FROM idempotency_keys
  WHERE created_at > @after AND created_at < statement_timestamp() - @age::interval
  ORDER BY created_at
  LIMIT @batch
), gone AS (
  DELETE FROM idempotency_keys k
  USING old
  WHERE (k.tenant_id, k.user_id, k.operation, k.key) = (old.tenant_id, old.user_id, old.operation, old.key)
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = ANY(old.job_ids))
    AND NOT EXISTS (SELECT FROM finished_jobs f WHERE f.id = ANY(old.job_ids)
                    AND f.finished_at > statement_timestamp() - @after_end::interval)
  RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS forgotten, count(*) AS seen, max(created_at) AS last FROM old`

// Forgotten is what one batch came to.
type Forgotten struct {
	Forgotten, Seen int64
	// Last is the youngest key looked at; nil if there was none.
	Last *time.Time
}

// ForgetKeys looks at no more than batch old Idempotency-Keys, of any tenants,
// after a time, and forgets those that are of no use any more.
func (s *Forgetter) ForgetKeys(ctx context.Context, after time.Time, batch int) (Forgotten, error) {
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[Forgotten], forgetKeysSQL, pgx.StrictNamedArgs{
		"after": after, "age": KeyAge, "after_end": KeyAfterEnd, "batch": batch,
	})
	if err != nil {
		return Forgotten{}, fmt.Errorf("retention: forget keys: %w", err)
	}
	return rows[0], nil
}
