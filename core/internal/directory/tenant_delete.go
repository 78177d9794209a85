package directory

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// How a tenant is deleted.
//
//   - DeleteTenant marks its row, revokes its keys, pauses its queues, so that no core claims from them, and
//     stops its schedules, in one transaction. Cores read the mark as a change of its limits, and refuse its
//     submits from then on.
//   - RemoveTenantData removes its data, a batch in each transaction, whichever core and however often it is
//     called. Running jobs go too: their holders hear that the lease is lost.
//   - A core or a gateway may go on for a while with what it has cached, so the deletion ends at the earliest
//     removalSettles after it was asked for, when nothing is left. The row stays, and says so.
//
// The audit log stays for its retention. So do attempts of jobs that were no longer kept: nothing but their
// job says whose they are in an index.

// removalSettles is longer than gateways trust a key, and cores a lane, that they have cached.
const removalSettles = 2 * time.Minute

const (
	markTenantSQL = `
UPDATE tenants SET deleting_at = statement_timestamp(), updated_at = statement_timestamp() WHERE id = @tenant_id AND deleting_at IS NULL`
	revokeAllSQL = `
UPDATE api_keys SET revoked_at = statement_timestamp() WHERE tenant_id = @tenant_id AND revoked_at IS NULL`
	pauseAllSQL = `
UPDATE queues SET paused = true, updated_at = statement_timestamp() WHERE tenant_id = @tenant_id`
	stopSchedulesSQL = `
UPDATE schedules SET next_at = NULL, due_at = NULL, updated_at = statement_timestamp() WHERE tenant_id = @tenant_id AND due_at IS NOT NULL`
)

// DeleteTenant begins the deletion of a tenant, and gives the tenant. A repeat changes nothing.
func (s *Directory) DeleteTenant(ctx context.Context, id tenant.ID) (api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	if err := s.InTx(ctx, func(tx pgx.Tx) error { return markDeleted(ctx, tx, id) }); err != nil {
		return api.Tenant{}, fmt.Errorf("directory: delete tenant: %w", err)
	}
	return s.GetTenant(ctx, id)
}

func markDeleted(ctx context.Context, tx pgx.Tx, id tenant.ID) error {
	args := store.Args{"tenant_id": id}
	marked, err := tx.Exec(ctx, markTenantSQL, args)
	if err != nil || marked.RowsAffected() == 0 {
		return err
	}
	for _, sql := range []string{revokeAllSQL, pauseAllSQL, stopSchedulesSQL} {
		if _, err := tx.Exec(ctx, sql, args); err != nil {
			return err
		}
	}
	return audit.Record(ctx, tx, audit.Event{Tenant: &id, Action: api.AuditTenantDelete, Object: id.String()})
}

const deletingTenantsSQL = `
SELECT id FROM tenants WHERE deleting_at IS NOT NULL AND deleted_at IS NULL ORDER BY deleting_at LIMIT @most`

// DeletingTenants lists tenants whose data is to be removed, the oldest deletion first.
func (s *Directory) DeletingTenants(ctx context.Context, most int) ([]tenant.ID, error) {
	ids, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowTo[tenant.ID], deletingTenantsSQL, store.Args{"most": most})
	if err != nil {
		return nil, fmt.Errorf("directory: deleting tenants: %w", store.NothingChanged(err))
	}
	return ids, nil
}

// withJobsSQL removes the edges and attempts of the jobs that ended has.
const withJobsSQL = `edges AS (
  DELETE FROM dependencies WHERE child_id = ANY(ARRAY(SELECT id FROM ended))
), tried AS (
  DELETE FROM attempts WHERE job_id = ANY(ARRAY(SELECT id FROM ended)) AND tenant_id = @tenant_id
)`

// removeSQL are the statements that remove a tenant's data, each at most about a batch of rows, in the order
// in which they are run: one has nothing to do before the next begins.
var removeSQL = []string{
	removeRows("redrives", "tenant_id"),
	removeRows("schedules", "tenant_id"),
	// They leave the counts that they are in, as jobs that end. Rows are locked in the order of ids, as in
	// every statement.
	`
WITH ended AS (
  DELETE FROM jobs
  WHERE id = ANY(ARRAY(SELECT id FROM jobs WHERE id = ANY(ARRAY(
    SELECT id FROM jobs WHERE tenant_id = @tenant_id ORDER BY uuid_send(id) DESC LIMIT @batch)) ORDER BY id FOR UPDATE))
  RETURNING id, tenant_id, user_id, queue, type, counted
), ` + withJobsSQL + `, ` + usage.LeaveCountsSQL + `
SELECT id FROM ended`,
	`
WITH ended AS (
  DELETE FROM dead_letters
  WHERE id = ANY(ARRAY(SELECT id FROM dead_letters WHERE id = ANY(ARRAY(
    SELECT id FROM dead_letters WHERE tenant_id = @tenant_id ORDER BY uuid_send(id) DESC LIMIT @batch)) ORDER BY id FOR UPDATE))
  RETURNING id
), ` + withJobsSQL + `
SELECT id FROM ended`,
	`
WITH picked AS MATERIALIZED (
  SELECT id, finished_at FROM finished_jobs WHERE tenant_id = @tenant_id ORDER BY uuid_send(id) DESC LIMIT @batch
), ended AS (
  DELETE FROM finished_jobs USING picked WHERE finished_jobs.id = picked.id AND finished_jobs.finished_at = picked.finished_at
  RETURNING finished_jobs.id
), ` + withJobsSQL + `
SELECT id FROM ended`,
	// A workflow has up to 1,000 jobs.
	`
WITH ended AS (
  DELETE FROM workflows
  WHERE id = ANY(ARRAY(SELECT id FROM workflows WHERE tenant_id = @tenant_id ORDER BY uuid_send(id) DESC LIMIT GREATEST(@batch / 100, 1)))
  RETURNING id
), jobs_of AS (
  DELETE FROM workflow_jobs WHERE workflow_id = ANY(ARRAY(SELECT id FROM ended))
)
SELECT id FROM ended`,
	removeRows("follow_ups", "tenant_id"),
	removeRows("webhook_events", "tenant_id"),
	removeRows("webhooks", "tenant_id"),
	removeRows("job_types", "tenant_id"),
	removeRows("schedule_runs", "tenant_id"),
	removeRows("idempotency_keys", "tenant_id"),
	removeRows("workers", "owner"),
	removeRows("rate_log", "tenant_id"),
	removeRows("job_stats", "tenant_id"),
	removeRows("limit_stats", "tenant_id"),
	removeRows("ledger", "tenant_id"),
	removeRows("ledger_entries", "tenant_id"),
	removeRows("lanes", "tenant_id"),
	removeRows("typed_lanes", "tenant_id"),
	removeRows("queues", "tenant_id"),
	removeRows("usage_counts", "tenant_id"),
	// A count and its credits go together: each is wrong without the other.
	`
WITH picked AS MATERIALIZED (
  SELECT DISTINCT counter, name FROM usage_log WHERE tenant_id = @tenant_id ORDER BY counter, name LIMIT GREATEST(@batch / 100, 1)
), credits AS (
  DELETE FROM usage_credits AS c USING picked WHERE c.tenant_id = @tenant_id AND c.counter = picked.counter AND c.name = picked.name
)
DELETE FROM usage_log AS l USING picked WHERE l.tenant_id = @tenant_id AND l.counter = picked.counter AND l.name = picked.name`,
	removeRows("usage_credits", "tenant_id"),
}

// removeRows removes rows of a table by their place: no two of these tables have keys alike.
func removeRows(table, owner string) string {
	return `
DELETE FROM ` + table + ` WHERE ctid = ANY(ARRAY(SELECT ctid FROM ` + table + ` WHERE ` + owner + ` = @tenant_id LIMIT @batch))`
}

const (
	// lockRemovalSQL lets one core at a time remove a tenant's data.
	lockRemovalSQL = `
SELECT deleting_at < statement_timestamp() - @settles::interval FROM tenants
WHERE id = @tenant_id AND deleting_at IS NOT NULL AND deleted_at IS NULL
FOR NO KEY UPDATE SKIP LOCKED`
	noteRemovedSQL = `
UPDATE tenants SET removed = removed + @n WHERE id = @tenant_id`
	endRemovalSQL = `
UPDATE tenants SET deleted_at = statement_timestamp(), overrides = '{}', updated_at = statement_timestamp() WHERE id = @tenant_id`
)

// RemoveTenantData removes at most about batch rows of a tenant that is being deleted, and gives how many. It
// gives 0 where nothing is left, or another core is at it.
func (s *Directory) RemoveTenantData(ctx context.Context, id tenant.ID, batch int) (removed int, err error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, lockRemovalSQL, store.Args{"tenant_id": id, "settles": removalSettles})
		if err != nil {
			return err
		}
		settled, err := pgx.CollectRows(rows, pgx.RowTo[bool])
		if err != nil || len(settled) == 0 {
			return err
		}
		if err := s.lockCounts(ctx, tx, id); err != nil {
			return err
		}
		if removed, err = removeSome(ctx, tx, id, batch); err != nil || removed == 0 && !settled[0] {
			return err
		}
		if removed > 0 {
			_, err = tx.Exec(ctx, noteRemovedSQL, store.Args{"tenant_id": id, "n": removed})
			return err
		}
		keys, err := tx.Exec(ctx, removeRows("api_keys", "tenant_id"), store.Args{"tenant_id": id, "batch": batch})
		if err != nil {
			return err
		}
		if removed = int(keys.RowsAffected()); removed > 0 {
			_, err = tx.Exec(ctx, noteRemovedSQL, store.Args{"tenant_id": id, "n": removed})
			return err
		}
		_, err = tx.Exec(ctx, endRemovalSQL, store.Args{"tenant_id": id})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("directory: remove tenant data: %w", err)
	}
	return removed, nil
}

// RemoveSome removes at most about batch rows of a tenant that is not in this cell, in the caller's transaction, and
// gives how many: 0 where nothing is left. Its row and keys stay.
func (s *Directory) RemoveSome(ctx context.Context, tx pgx.Tx, id tenant.ID, batch int) (int, error) {
	if err := s.lockCounts(ctx, tx, id); err != nil {
		return 0, err
	}
	return removeSome(ctx, tx, id, batch)
}

// lockCounts: nothing of the tenant is counted meanwhile.
func (s *Directory) lockCounts(ctx context.Context, tx pgx.Tx, id tenant.ID) error {
	for _, class := range []store.LockClass{store.LockSubmit, store.LockClaim} {
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": s.LockKey(class, id)}); err != nil {
			return err
		}
	}
	return nil
}

// removeSome runs the statements until one of them has removed something.
func removeSome(ctx context.Context, tx pgx.Tx, id tenant.ID, batch int) (int, error) {
	for _, sql := range removeSQL {
		done, err := tx.Exec(ctx, sql, store.Args{"tenant_id": id, "batch": batch})
		if err != nil {
			return 0, err
		}
		if n := int(done.RowsAffected()); n > 0 {
			return n, nil
		}
	}
	return 0, nil
}
