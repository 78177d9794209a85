package read

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// getSQL reads the three tables in one statement, and so in one snapshot: a job that moves between
// tables is in exactly one of them. @since is retention.Since(id): without it each day's partition
// is opened.
const getSQL = `
SELECT ` + liveColumns + ` FROM jobs WHERE id = @id AND tenant_id = @tenant_id
UNION ALL
SELECT ` + finishedColumns + ` FROM finished_jobs WHERE id = @id AND finished_at >= @since AND tenant_id = @tenant_id
UNION ALL
SELECT ` + deadColumns + ` FROM dead_letters WHERE id = @id AND tenant_id = @tenant_id`

// Get reads one job of a tenant. user, where not empty, is the only user whose
// jobs the caller may see. Unknown, foreign and another user's are ErrNotFound.
func (s *Reader) Get(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Job, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	found, linked, err := s.Find(ctx, owner, user, id)
	if err == nil {
		err = s.AddParents(ctx, user, linked)
	}
	return *found, err
}

// Find is Get without parents; linked has the job where it has some, for AddParents.
func (s *Reader) Find(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (found *api.Job, linked map[uuid.UUID]*api.JobSummary, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[Row], getSQL, getArgs(owner, id))
	if err != nil {
		return &api.Job{}, nil, fmt.Errorf("jobs: get: %w", store.NotApplied(err))
	}
	return visible(rows, user)
}

// existingSQL reads no more of the jobs than their ids.
const existingSQL = `
SELECT id FROM jobs WHERE id = ANY(@ids::uuid[]) AND uuid_send(tenant_id) = uuid_send(@tenant_id::uuid) AND (@user::text = '' OR user_id = @user)
UNION ALL
SELECT id FROM finished_jobs
WHERE id = ANY(@ids::uuid[]) AND finished_at >= @since AND uuid_send(tenant_id) = uuid_send(@tenant_id::uuid) AND (@user::text = '' OR user_id = @user)
UNION ALL
SELECT id FROM dead_letters WHERE id = ANY(@ids::uuid[]) AND uuid_send(tenant_id) = uuid_send(@tenant_id::uuid) AND (@user::text = '' OR user_id = @user)`

// Existing gives which of the ids are jobs of a tenant, in any state; user as for Get.
func (s *Reader) Existing(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	known := make(map[uuid.UUID]bool, len(ids))
	if len(ids) == 0 {
		return known, nil
	}
	args := store.Args{"ids": ids, "tenant_id": owner, "user": user, "since": retention.Since(ids...)}
	found, err := store.Query(store.WithClass(ctx, store.ClassSubmits), s.Store, pgx.RowTo[uuid.UUID], existingSQL, args)
	if err != nil {
		return nil, fmt.Errorf("jobs: existing: %w", store.NotApplied(err))
	}
	for _, id := range found {
		known[id] = true
	}
	return known, nil
}

// GetIn is Get in a transaction.
func GetIn(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string, id uuid.UUID) (api.Job, error) {
	rows, err := tx.Query(ctx, getSQL, getArgs(owner, id))
	if err != nil {
		return api.Job{}, err
	}
	collected, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[Row])
	if err != nil {
		return api.Job{}, err
	}
	found, linked, err := visible(collected, user)
	if err == nil {
		err = AddParentsIn(ctx, tx, user, linked)
	}
	return *found, err
}

func getArgs(owner tenant.ID, id uuid.UUID) store.Args {
	return store.Args{"id": id, "tenant_id": owner, "since": retention.Since(id)}
}

// visible is the one row that was found, as its caller may see it; linked has it where it has parents
// to be added.
func visible(rows []*Row, user string) (found *api.Job, linked map[uuid.UUID]*api.JobSummary, err error) {
	if len(rows) == 0 || (user != "" && (rows[0].UserID == nil || *rows[0].UserID != user)) {
		return &api.Job{}, nil, store.ErrNotFound
	}
	shown := rows[0].Job()
	if rows[0].Linked {
		linked = map[uuid.UUID]*api.JobSummary{rows[0].ID: &shown.JobSummary}
	}
	return &shown, linked, nil
}
