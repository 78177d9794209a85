package queues

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// How a queue is deleted. No statement that stores a job reads the row of its queue, and a core uses the
// lanes and settings that it has cached: a job may be stored while its queue is deleted, and shortly after.
//
//   - The row is replaced by one of the same name with default settings, marked as deleted. Cores read it as
//     any change, and forget the settings. It is kept for deletedKept.
//   - The lanes are retired, and deleted later (see lanes.IdleTime): a job that is stored in one of them meanwhile
//     is claimed as any other.
//   - A queue is there again as soon as a job asks for a lane of it, or its settings are changed. Where a job
//     asked for nothing, because its lane was cached, SettleDeleted finds it.

// deletedKept is how long the row of a deleted queue is kept: longer than any core uses the
// lanes that it has cached.
const deletedKept = time.Hour

const (
	retireQueueSQL = `
UPDATE lanes SET retired_at = statement_timestamp() WHERE tenant_id = @tenant_id AND queue = @name AND retired_at IS NULL`
	// A new row has the default of every setting.
	removeQueueSQL = `
DELETE FROM queues WHERE tenant_id = @tenant_id AND name = @name AND ` + lanes.QueueThere
	markDeletedSQL = `
INSERT INTO queues (tenant_id, name, created_at, updated_at, deleted_at)
VALUES (@tenant_id, @name, statement_timestamp(), statement_timestamp(), statement_timestamp())`
	forgetRateSQL = `
DELETE FROM rate_log WHERE tenant_id = @tenant_id AND split_part(queue, '/', 1) = @name`
)

// Delete deletes a tenant's queue without live jobs and dead letters: its settings and its lanes. One
// that is not there is deleted already. A queue with jobs is refused with queue_not_empty.
func (s *Queues) Delete(ctx context.Context, owner tenant.ID, name string) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	named := store.Args{"tenant_id": owner, "name": name}
	err := s.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(caps.LockTimeoutSQL, store.Args{"timeout": caps.LockTimeout(ctx)})
		batch.Queue(store.AdvisoryLockSQL, store.Args{"key": s.LockKey(store.LockLane, owner)}) // no lane is made meanwhile
		batch.Queue(retireQueueSQL, named)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		depths, err := countDepths(ctx, tx, owner, name)
		if err != nil {
			return err
		}
		if refusal := depths.notEmpty(name); refusal != nil {
			return refusal
		}
		removed, err := tx.Exec(ctx, removeQueueSQL, named)
		if err != nil || removed.RowsAffected() == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, markDeletedSQL, named); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, forgetRateSQL, named); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditQueueDelete, Object: name})
	})
	if err != nil {
		return fmt.Errorf("queues: delete queue: %w", err)
	}
	return nil
}

// notEmpty is the refusal to delete a queue with these jobs; nil where there are none.
func (d *Depths) notEmpty(name string) *problem.Problem {
	var held []string
	for _, one := range []struct {
		count int64
		what  string
	}{
		{d.Blocked, "blocked"}, {d.Scheduled, "scheduled"}, {d.Waiting, "waiting"}, {d.Queued, "queued"}, {d.Running, "running"}, {d.DeadLetter, "dead_letter"},
	} {
		switch {
		case one.count > d.Most:
			held = append(held, fmt.Sprintf("more than %d %s", d.Most, one.what))
		case one.count > 0:
			held = append(held, fmt.Sprintf("%d %s", one.count, one.what))
		}
	}
	if len(held) == 0 {
		return nil
	}
	return problem.New(problem.QueueNotEmpty, fmt.Sprintf(
		"The queue %q is not empty: %s. Cancel its jobs or wait until they end, and redrive or discard its dead letters.", name, strings.Join(held, ", ")))
}

// settleQueuesSQL looks at rows of deleted queues, in the order of their deletion. One that has jobs all the
// same is there again; one that was changed since is no deleted queue; the others go when they are old.
const settleQueuesSQL = `
WITH picked AS (
  SELECT tenant_id, name, deleted_at, updated_at FROM queues
  WHERE deleted_at IS NOT NULL AND (deleted_at, tenant_id, name) > (@after::timestamptz, @tenant_id::uuid, @name::text)
    AND tenant_id <> ALL(` + store.MovingSQL + `)
  ORDER BY deleted_at, tenant_id, name
  LIMIT @most
  FOR UPDATE SKIP LOCKED
), running AS MATERIALIZED (
  SELECT lane_id FROM jobs WHERE state = 'running'
), used AS (
  SELECT tenant_id, name FROM picked
  WHERE EXISTS (SELECT FROM dead_letters d WHERE d.tenant_id = picked.tenant_id AND d.queue = picked.name)
     OR EXISTS (
       SELECT FROM lanes l
       WHERE l.tenant_id = picked.tenant_id AND l.queue = picked.name
         AND (EXISTS (SELECT FROM jobs j WHERE j.state = 'queued' AND j.lane_id = l.id)
           OR EXISTS (SELECT FROM jobs j WHERE j.state IN ('blocked', 'scheduled', 'waiting') AND j.lane_id = l.id)
           OR l.id IN (SELECT lane_id FROM running)))
), back AS (
  UPDATE queues SET deleted_at = NULL, updated_at = statement_timestamp()
  WHERE (tenant_id, name) IN (SELECT tenant_id, name FROM used UNION ALL SELECT tenant_id, name FROM picked WHERE deleted_at <> updated_at)
  RETURNING 1
), forgotten AS (
  DELETE FROM queues
  WHERE (tenant_id, name) IN (SELECT tenant_id, name FROM picked WHERE deleted_at = updated_at AND deleted_at < statement_timestamp() - @kept::interval
                              EXCEPT SELECT tenant_id, name FROM used)
  RETURNING 1
)
SELECT (SELECT count(*) FROM picked) AS seen, (SELECT count(*) FROM back) AS back, (SELECT count(*) FROM forgotten) AS forgotten,
       last.tenant_id, last.name, last.deleted_at
FROM (VALUES (1)) AS one LEFT JOIN (SELECT tenant_id, name, deleted_at FROM picked ORDER BY deleted_at DESC, tenant_id DESC, name DESC LIMIT 1) AS last ON true`

// DeletedPlace is the place of a deleted queue in the order of SettleDeleted; the zero value is the
// beginning.
type DeletedPlace struct {
	at     time.Time
	tenant tenant.ID
	name   string
}

// SettledDeleted is the result of SettleDeleted.
type SettledDeleted struct {
	// Back are there again, Forgotten left nothing behind.
	Seen, Back, Forgotten int
	TenantID              *uuid.UUID
	Name                  *string
	DeletedAt             *time.Time
}

// Next is where the next batch begins.
func (q *SettledDeleted) Next() DeletedPlace {
	if q.DeletedAt == nil {
		return DeletedPlace{}
	}
	return DeletedPlace{*q.DeletedAt, *q.TenantID, *q.Name}
}

// SettleDeleted looks at no more than most deleted queues, of any tenants, after a place.
func (s *Queues) SettleDeleted(ctx context.Context, after DeletedPlace, most int) (SettledDeleted, error) {
	done, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[SettledDeleted], settleQueuesSQL,
		store.Args{"after": after.at, "tenant_id": after.tenant, "name": after.name, "most": most, "kept": deletedKept})
	if err != nil {
		return SettledDeleted{}, fmt.Errorf("queues: deleted queues: %w", err)
	}
	return done[0], nil
}
