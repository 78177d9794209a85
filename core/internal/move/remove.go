package move

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
)

const (
	removeAuditSQL = `
DELETE FROM audit_log WHERE id = ANY(ARRAY(SELECT id FROM audit_log WHERE tenant_id = @tenant_id ORDER BY uuid_send(id) LIMIT @batch))`
	removeKeysSQL = `
DELETE FROM api_keys WHERE tenant_id = @tenant_id`
	removeTenantSQL = `
DELETE FROM tenants WHERE id = @tenant_id`
)

// removeAll removes what a cell has of the tenant, in batches; name is the cell's. The home cell keeps its part of the
// audit log.
func (m *Mover) removeAll(ctx context.Context, in *cell.Cell, name string) error {
	var place tenants.RemovalPlace
	for {
		removed, next := 0, place
		err := in.InTx(ctx, func(tx pgx.Tx) (err error) {
			if removed, next, err = in.Tenants.RemoveSome(ctx, tx, m.tenant, place, removeBatch); err != nil || removed > 0 || name == "" {
				return err
			}
			done, err := tx.Exec(ctx, removeAuditSQL, store.Args{"tenant_id": m.tenant, "batch": removeBatch})
			removed = int(done.RowsAffected())
			return err
		})
		if err != nil {
			return fmt.Errorf("remove: %w", err)
		}
		if removed == 0 {
			return nil
		}
		place = next
	}
}

// forgetCopy removes the copies of the tenant's row and keys from a cell that is not home.
func (m *Mover) forgetCopy(ctx context.Context, in *cell.Cell, name string) error {
	if name == "" {
		return nil
	}
	for _, sql := range []string{removeKeysSQL, removeTenantSQL} {
		if err := m.do(ctx, in, sql); err != nil {
			return err
		}
	}
	return nil
}

const (
	stagedAuditSQL = `
CREATE TEMP TABLE staged_audit (LIKE audit_log) ON COMMIT DROP`
	// An earlier run may have copied some.
	storeAuditSQL = `
INSERT INTO audit_log SELECT * FROM staged_audit ON CONFLICT (id) DO NOTHING`
)

// copyAudit copies the tenant's entries that lie in the source. Those of the home cell are read there for all tenants.
func (m *Mover) copyAudit(ctx context.Context) error {
	if m.from == "" {
		return nil
	}
	return m.inBoth(ctx, func(b between) error {
		if _, err := b.target.Exec(ctx, stagedAuditSQL); err != nil {
			return err
		}
		if _, err := b.copyInto(ctx, "audit_log", "staged_audit", "t.tenant_id = "+quoted(m.tenant), nil); err != nil {
			return err
		}
		_, err := b.target.Exec(ctx, storeAuditSQL)
		return err
	})
}

// remove removes the tenant from the source, which takes no writes of it until nothing is left, and ends the move.
func (m *Mover) remove(ctx context.Context) error {
	if err := m.do(ctx, m.target, forgetFenceSQL); err != nil {
		return err
	}
	if err := m.copyAudit(ctx); err != nil {
		return err
	}
	if err := m.removeAll(ctx, m.source, m.from); err != nil {
		return err
	}
	if err := m.forgetCopy(ctx, m.source, m.from); err != nil {
		return err
	}
	if err := m.do(ctx, m.source, forgetFenceSQL); err != nil {
		return err
	}
	return m.do(ctx, m.home, endSQL)
}

// Abort undoes a move that has not arrived. The source serves again at once; what is in the target goes then.
func (m *Mover) Abort(ctx context.Context) error {
	return m.withLock(ctx, func(ctx context.Context) error {
		_, under, err := Place(ctx, m.home, m.tenant)
		switch {
		case err != nil:
			return err
		case under.Phase == "":
			return ErrNoMove
		case under.Phase == Removing:
			return ErrTooLate
		}
		if err := m.refuseArrival(ctx); err != nil {
			return err
		}
		if err := m.stay(ctx, under.Phase); err != nil {
			return err
		}
		if err := m.do(ctx, m.source, forgetFenceSQL); err != nil {
			return err
		}
		if err := m.removeAll(ctx, m.target, m.to); err != nil {
			return err
		}
		if err := m.forgetCopy(ctx, m.target, m.to); err != nil {
			return err
		}
		if err := m.do(ctx, m.target, forgetFenceSQL); err != nil {
			return err
		}
		return m.do(ctx, m.home, endSQL)
	})
}

// stay has the directory say that the move is being aborted. One that is switched already can be aborted only if the target has lost
// the tenant: see refuseArrival.
func (m *Mover) stay(ctx context.Context, phase string) error {
	return m.home.InTx(ctx, func(tx pgx.Tx) error {
		version, err := store.NextVersion(ctx, tx)
		if err != nil {
			return err
		}
		if err := m.setPhase(ctx, tx, phase, Aborting); err != nil || phase != Switched {
			return err
		}
		return m.place(ctx, tx, m.from, version)
	})
}

// refuseArrivalSQL waits for a copy that is under way.
const refuseArrivalSQL = `
UPDATE tenant_fences SET state = 'left' WHERE tenant_id = @tenant_id AND state <> 'here'`

// refuseArrival keeps the target from serving: a run that was killed may have sent its last statement.
func (m *Mover) refuseArrival(ctx context.Context) error {
	if err := m.do(ctx, m.target, refuseArrivalSQL); err != nil {
		return err
	}
	state, err := m.fenceOf(ctx, m.target)
	if err == nil && state == fenceHere {
		err = ErrTooLate
	}
	return err
}
