package queue

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// idTimeSQL is the earliest time at which the parent can have ended, by its id (a UUID v7), see
// retention.Since: PostgreSQL opens no partition of an earlier day.
const idTimeSQL = `to_timestamp(('x' || substr(parent_id::text, 1, 8) || substr(parent_id::text, 10, 4))::bit(48)::bigint / 1000.0) - interval '1 day'`

// afterSQL reads the edges to the parents of jobs, with the state of those that are still kept.
const afterSQL = `
SELECT child_id, parent_id, on_failed, resolved_at IS NULL AS waits, parent.state, parent.user_id
FROM dependencies LEFT JOIN LATERAL (
  SELECT state, user_id FROM jobs WHERE id = parent_id
  UNION ALL
  SELECT state, user_id FROM finished_jobs WHERE id = parent_id AND finished_at >= ` + idTimeSQL + `
  UNION ALL
  SELECT 'dead_letter', user_id FROM dead_letters WHERE id = parent_id
) AS parent ON true
WHERE child_id = ANY(@ids::uuid[]) AND tenant_id = @tenant_id
ORDER BY child_id, parent_id`

type edgeRow struct {
	ChildID  uuid.UUID
	ParentID uuid.UUID
	OnFailed string
	Waits    bool
	State    *string
	UserID   *string
}

// parents are what a job shows of the jobs that it comes after.
type parents struct {
	after []api.JobDependency
	// waits counts those that it waits for, also of other users.
	waits int
}

func parentsByChild(rows []edgeRow, user string) map[uuid.UUID]*parents {
	found := map[uuid.UUID]*parents{}
	for i := range rows {
		row := &rows[i]
		one := found[row.ChildID]
		if one == nil {
			one = &parents{}
			found[row.ChildID] = one
		}
		if row.Waits {
			one.waits++
		}
		if row.State != nil && (user == "" || row.UserID != nil && *row.UserID == user) {
			one.after = append(one.after, api.JobDependency{JobID: row.ParentID.String(), State: *row.State, OnFailed: row.OnFailed})
		}
	}
	return found
}

// show adds the parents to a job.
func (p *parents) show(summary *api.JobSummary) {
	if p == nil {
		return
	}
	if len(p.after) > 0 {
		summary.After = p.after
	}
	if job.State(summary.State) == job.Blocked {
		summary.BlockedBy = &p.waits
	}
}

// AddParents adds the parents of linked jobs to what is shown of them, by id; of one user only where
// user is not empty.
func (s *Jobs) AddParents(ctx context.Context, owner tenant.ID, user string, linked map[uuid.UUID]*api.JobSummary) error {
	if len(linked) == 0 {
		return nil
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[edgeRow], afterSQL, afterArgs(owner, linked))
	if err != nil {
		return fmt.Errorf("queue: parents: %w", store.NothingChanged(err))
	}
	addParents(rows, user, linked)
	return nil
}

// addParentsIn is AddParents in a transaction.
func addParentsIn(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string, linked map[uuid.UUID]*api.JobSummary) error {
	if len(linked) == 0 {
		return nil
	}
	found, err := tx.Query(ctx, afterSQL, afterArgs(owner, linked))
	if err != nil {
		return err
	}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByName[edgeRow])
	addParents(rows, user, linked)
	return err
}

func afterArgs(owner tenant.ID, linked map[uuid.UUID]*api.JobSummary) store.Args {
	ids := make([]uuid.UUID, 0, len(linked))
	for id := range linked {
		ids = append(ids, id)
	}
	return store.Args{"ids": ids, "tenant_id": owner}
}

func addParents(rows []edgeRow, user string, linked map[uuid.UUID]*api.JobSummary) {
	by := parentsByChild(rows, user)
	for id, summary := range linked {
		by[id].show(summary)
	}
}
