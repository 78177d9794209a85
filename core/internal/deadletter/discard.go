package deadletter

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const discardSQL = `
WITH gone AS (
  DELETE FROM dead_letters
  WHERE ` + deadByID + ` AND (@user::text = '' OR user_id = @user)
  RETURNING ` + dependency.RemovedColumns + `
)` + dependency.RemovedSQL

// Discard deletes dead letters of a tenant and gives which of the ids existed.
func (s *Letters) Discard(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var gone []uuid.UUID
	var told bool
	err := s.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, discardSQL, store.Args{"ids": ids, "tenant_id": owner, "user": user})
		if err != nil {
			return err
		}
		deleted, err := pgx.CollectRows(rows, pgx.RowToStructByName[dependency.Gone])
		if err != nil {
			return err
		}
		gone, told = dependency.IDs(deleted)
		return audit.RecordJobs(ctx, tx, owner, api.AuditDiscard, gone)
	})
	if err != nil {
		return nil, fmt.Errorf("deadletter: discard: %w", err)
	}
	if told {
		s.edges.Appended()
		s.gates.Appended()
	}
	return idSet(gone), nil
}

func idSet(ids []uuid.UUID) map[uuid.UUID]bool {
	set := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

const countDeadSQL = `
SELECT id FROM dead_letters WHERE ` + deadByID + ` AND (@user::text = '' OR user_id = @user)`

// Dead gives which of the ids are dead letters of a tenant.
func (s *Letters) Dead(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowTo[uuid.UUID], countDeadSQL, store.Args{"ids": ids, "tenant_id": owner, "user": user})
	if err != nil {
		return nil, fmt.Errorf("deadletter: dead letters: %w", store.NotApplied(err))
	}
	return idSet(rows), nil
}
