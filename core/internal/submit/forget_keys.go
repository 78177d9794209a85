package submit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// How long an Idempotency-Key is retained at least, and how long after the end of its job.
const (
	keyAge      = 24 * time.Hour
	keyAfterEnd = time.Hour
)

// forgetKeysSQL reads the next keys by age, and deletes those whose jobs are neither live nor just
// finished. It gives where the next batch begins.
const forgetKeysSQL = `
WITH old AS (
  SELECT tenant_id, user_id, operation, key, job_ids, created_at
  FROM idempotency_keys
  WHERE created_at > @after AND created_at < statement_timestamp() - @age::interval
  ORDER BY created_at
  LIMIT @batch
), gone AS (
  DELETE FROM idempotency_keys k
  USING old
  WHERE (k.tenant_id, k.user_id, k.operation, k.key) = (old.tenant_id, old.user_id, old.operation, old.key)
    AND k.tenant_id <> ALL(` + store.MovingSQL + `)
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = ANY(old.job_ids))
    AND NOT EXISTS (SELECT FROM finished_jobs f WHERE f.id = ANY(old.job_ids)
                    AND f.finished_at > statement_timestamp() - @after_end::interval)
  RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS forgotten, count(*) AS seen, max(created_at) AS last FROM old`

// ForgottenKeys is the result of one batch.
type ForgottenKeys struct {
	Forgotten, Seen int64
	// Last is the youngest key read; nil if there was none.
	Last *time.Time
}

// ForgetKeys reads at most batch old Idempotency-Keys, of any tenants, after a time, and deletes
// those past their retention.
func (s *Submitter) ForgetKeys(ctx context.Context, after time.Time, batch int) (ForgottenKeys, error) {
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[ForgottenKeys], forgetKeysSQL, store.Args{
		"after": after, "age": keyAge, "after_end": keyAfterEnd, "batch": batch,
	})
	if err != nil {
		return ForgottenKeys{}, fmt.Errorf("submit: forget keys: %w", err)
	}
	return rows[0], nil
}
