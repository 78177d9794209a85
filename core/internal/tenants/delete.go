package tenants

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// How a tenant is deleted.
//
//   - Delete marks its row, revokes its keys, pauses its queues, so that no core claims from them, and
//     stops its schedules, in one transaction. Cores read the mark as a change of its limits, and refuse its
//     submits from then on.
//   - RemoveData removes its data, a batch in each transaction, whichever core and however often it is
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
UPDATE tenants SET deleting_at = statement_timestamp(), updated_at = statement_timestamp(), version = @version WHERE id = @tenant_id AND deleting_at IS NULL`
	revokeAllSQL = `
UPDATE api_keys SET revoked_at = statement_timestamp() WHERE tenant_id = @tenant_id AND revoked_at IS NULL`
	pauseAllSQL = `
UPDATE queues SET paused = true, updated_at = statement_timestamp() WHERE tenant_id = @tenant_id`
	stopSchedulesSQL = `
UPDATE schedules SET next_at = NULL, due_at = NULL, updated_at = statement_timestamp() WHERE tenant_id = @tenant_id AND due_at IS NOT NULL`
)

// Delete begins the deletion of a tenant, and gives the tenant. A repeat changes nothing. One that is moved is refused.
func (s *Tenants) Delete(ctx context.Context, id tenant.ID) (api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	if err := s.InShortTx(ctx, func(batch *pgx.Batch) {
		store.QueueTakesJobs(batch, []tenant.ID{id})
	}, func(tx pgx.Tx) (*pgx.Batch, error) {
		version, err := store.NextVersion(ctx, tx)
		if err != nil {
			return nil, err
		}
		return nil, markDeleted(ctx, tx, id, version)
	}); err != nil {
		return api.Tenant{}, fmt.Errorf("tenants: delete tenant: %w", err)
	}
	return s.Get(ctx, id)
}

func markDeleted(ctx context.Context, tx pgx.Tx, id tenant.ID, version int64) error {
	args := store.Args{"tenant_id": id}
	marked, err := tx.Exec(ctx, markTenantSQL, store.Args{"tenant_id": id, "version": version})
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

// Deleting lists tenants whose data is to be removed, the oldest deletion first.
func (s *Tenants) Deleting(ctx context.Context, most int) ([]tenant.ID, error) {
	ids, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowTo[tenant.ID], deletingTenantsSQL, store.Args{"most": most})
	if err != nil {
		return nil, fmt.Errorf("tenants: deleting tenants: %w", store.NotApplied(err))
	}
	return ids, nil
}

const (
	// lockRemovalSQL lets one core at a time remove a tenant's data.
	lockRemovalSQL = `
SELECT deleting_at < statement_timestamp() - @settles::interval FROM tenants
WHERE id = @tenant_id AND deleting_at IS NOT NULL AND deleted_at IS NULL AND id <> ALL(` + store.MovingSQL + `)
FOR NO KEY UPDATE SKIP LOCKED`
	removeKeysSQL = `
DELETE FROM api_keys WHERE ctid = ANY(ARRAY(SELECT ctid FROM api_keys WHERE tenant_id = @tenant_id LIMIT @batch))`
	noteRemovedSQL = `
UPDATE tenants SET removed = removed + @n WHERE id = @tenant_id`
	endRemovalSQL = `
UPDATE tenants SET deleted_at = statement_timestamp(), overrides = '{}', updated_at = statement_timestamp() WHERE id = @tenant_id`
)

// RemoveData removes at most about batch rows of a tenant that is being deleted, after a place, and gives how many and
// where the next batch begins. It gives 0 where nothing is left, or another core is at it.
func (s *Tenants) RemoveData(ctx context.Context, id tenant.ID, place RemovalPlace, batch int) (removed int, next RemovalPlace, err error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		removed, next = 0, place // of the first try, see InTx
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
		if removed, next, err = removeSome(ctx, tx, id, place, batch); err != nil || removed == 0 && !settled[0] {
			return err
		}
		if removed > 0 {
			_, err = tx.Exec(ctx, noteRemovedSQL, store.Args{"tenant_id": id, "n": removed})
			return err
		}
		keys, err := tx.Exec(ctx, removeKeysSQL, store.Args{"tenant_id": id, "batch": batch})
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
		return 0, place, fmt.Errorf("tenants: remove tenant data: %w", err)
	}
	return removed, next, nil
}

// RemoveSome removes at most about batch rows of a tenant that is not in this cell, after a place and in the caller's
// transaction, and gives how many: 0 where nothing is left. Its row and keys stay.
func (s *Tenants) RemoveSome(ctx context.Context, tx pgx.Tx, id tenant.ID, place RemovalPlace, batch int) (int, RemovalPlace, error) {
	if err := s.lockCounts(ctx, tx, id); err != nil {
		return 0, place, err
	}
	return removeSome(ctx, tx, id, place, batch)
}

// lockCounts: nothing of the tenant is counted meanwhile.
func (s *Tenants) lockCounts(ctx context.Context, tx pgx.Tx, id tenant.ID) error {
	for _, class := range []store.LockClass{store.LockSubmit, store.LockClaim} {
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": s.LockKey(class, id)}); err != nil {
			return err
		}
	}
	return nil
}
