package outbox

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	pruneEvery = 10 * time.Second
	pruneBatch = 1000
)

const pruneSQL = `
DELETE FROM forgequeue_outbox
WHERE id IN (
  SELECT id FROM forgequeue_outbox
  WHERE state = 'sent' AND ended_at < statement_timestamp() - $1::interval
  ORDER BY ended_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED)`

// prune deletes sent rows past their retention, in steps. Without a retention it deletes those of a relay that had one.
func (r *Relay) prune(ctx context.Context) {
	for ctx.Err() == nil {
		deleted := int64(0)
		err := within(ctx, func(ctx context.Context) error {
			tag, err := r.o.Table.pool.Exec(ctx, pruneSQL, r.o.Retain, pruneBatch)
			deleted = tag.RowsAffected()
			return err
		})
		if err != nil {
			r.failure(ctx, "prune", err)
		}
		if deleted < pruneBatch {
			_ = wait.About(ctx, pruneEvery)
		}
	}
}
