package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// oneSQL is a job of a workflow, in whichever table it is; none where it is no longer kept.
const oneSQL = `(
  SELECT type, state, started_at, NULL::timestamptz AS ended_at, false AS by_person FROM jobs WHERE id = job_id
  UNION ALL
  SELECT type, state, started_at, finished_at, state = 'cancelled' AND (last_error->>'type') IS DISTINCT FROM '` + api.ErrorParentFailed + `'
  FROM finished_jobs WHERE id = job_id AND finished_at >= earliest_end(job_id)
  UNION ALL
  SELECT type, 'dead_letter', started_at, died_at, false FROM dead_letters WHERE id = job_id
) AS one`

// rowSQL are the columns of Row for a workflow w.
const rowSQL = `w.id, w.name, w.user_id, w.metadata, w.created_at, c.blocked, c.scheduled, c.waiting, c.queued, c.running, c.completed, c.cancelled,
  c.dead_letter, ` + stateSQL + ` AS state, c.ended_at`

// stateSQL is a workflow's state by the counts of its jobs.
const stateSQL = `CASE
  WHEN c.blocked + c.scheduled + c.waiting + c.queued + c.running > 0 THEN '` + api.WorkflowRunning + `'
  WHEN c.dead_letter > 0 THEN '` + api.WorkflowFailed + `'
  WHEN c.cancelled = 0 THEN '` + api.WorkflowCompleted + `'
  WHEN c.by_person THEN '` + api.WorkflowCancelled + `'
  ELSE '` + api.WorkflowFailed + `' END`

const countsSQL = `
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE state = 'blocked') AS blocked, count(*) FILTER (WHERE state = 'scheduled') AS scheduled,
         count(*) FILTER (WHERE state = 'waiting') AS waiting,
         count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running,
         count(*) FILTER (WHERE state = 'completed') AS completed, count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
         count(*) FILTER (WHERE state = 'dead_letter') AS dead_letter,
         COALESCE(bool_or(by_person), false) AS by_person, max(ended_at) AS ended_at
  FROM workflow_jobs CROSS JOIN LATERAL ` + oneSQL + `
  WHERE workflow_id = w.id
) AS c`

const visibleSQL = `w.id = @id AND w.tenant_id = @tenant_id AND (@user::text = '' OR w.user_id = @user)`

const getSQL = `
SELECT ` + rowSQL + `
FROM workflows AS w ` + countsSQL + `
WHERE ` + visibleSQL

func visibleArgs(owner tenant.ID, user string, id uuid.UUID) store.Args {
	return store.Args{"id": id, "tenant_id": owner, "user": user}
}

// Workflow gives one of a tenant's workflows, with the counts of its jobs. user, where not empty, is
// the only user whose workflows the caller may see.
func (s *Workflows) Workflow(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Workflow, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[Row], getSQL, visibleArgs(owner, user, id))
	if err != nil {
		return api.Workflow{}, fmt.Errorf("workflow: get: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return api.Workflow{}, store.ErrNotFound
	}
	return rows[0].Workflow(), nil
}

const jobsSQL = `
SELECT ref, job_id, type, state, started_at, ended_at
FROM workflow_jobs CROSS JOIN LATERAL ` + oneSQL + `
WHERE workflow_id = @id
ORDER BY job_id`

type jobRow struct {
	Ref       string
	JobID     uuid.UUID
	Type      string
	State     string
	StartedAt *time.Time
	EndedAt   *time.Time
}

// edgesSQL looks each job's edges up: a join may read all edges there are.
const edgesSQL = `
SELECT child_id, parent_id, on_failed
FROM workflow_jobs CROSS JOIN LATERAL (
  SELECT child_id, parent_id, on_failed FROM dependencies WHERE child_id = job_id OFFSET 0) AS edge
WHERE workflow_id = @id
ORDER BY child_id, parent_id`

type edgeRow struct {
	ChildID  uuid.UUID
	ParentID uuid.UUID
	OnFailed string
}

// WorkflowDetail gives a workflow with its jobs that are still kept, in the order in which they were
// submitted.
func (s *Workflows) WorkflowDetail(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.WorkflowDetail, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	found, err := s.Workflow(ctx, owner, user, id)
	if err != nil {
		return api.WorkflowDetail{}, err
	}
	jobs, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[jobRow], jobsSQL, store.Args{"id": id})
	if err != nil {
		return api.WorkflowDetail{}, fmt.Errorf("workflow: jobs: %w", store.NotApplied(err))
	}
	edges, err := store.Query(ctx, s.Store, pgx.RowToStructByName[edgeRow], edgesSQL, store.Args{"id": id})
	if err != nil {
		return api.WorkflowDetail{}, fmt.Errorf("workflow: edges: %w", store.NotApplied(err))
	}
	return api.WorkflowDetail{Workflow: found, Jobs: shownJobs(jobs, edges)}, nil
}

func shownJobs(rows []*jobRow, edges []edgeRow) []api.WorkflowJob {
	places := make(map[uuid.UUID]int, len(rows))
	shown := make([]api.WorkflowJob, len(rows))
	for i, row := range rows {
		places[row.JobID] = i
		shown[i] = api.WorkflowJob{
			Ref: row.Ref, ID: row.JobID.String(), Type: row.Type, State: row.State, After: []api.JobDependency{},
			StartedAt: api.AtOrNil(row.StartedAt), FinishedAt: api.AtOrNil(row.EndedAt),
		}
	}
	for _, edge := range edges {
		child, kept := places[edge.ChildID]
		parent, parentKept := places[edge.ParentID]
		if !kept || !parentKept {
			continue
		}
		ref := rows[parent].Ref
		shown[child].After = append(shown[child].After, api.JobDependency{
			JobID: edge.ParentID.String(), Ref: &ref, State: rows[parent].State, OnFailed: edge.OnFailed,
		})
	}
	return shown
}

// pageJobs bounds the jobs whose states a page reads: those of its last workflow may go beyond.
const pageJobs = 10_000

// olderSQL is the newest workflow before a place, with the number of its jobs.
func olderSQL(place string) string {
	return `(
    SELECT id, name, user_id, metadata, created_at, (SELECT count(*) FROM workflow_jobs WHERE workflow_id = older.id) AS jobs
    FROM workflows AS older
    WHERE tenant_id = @tenant_id AND uuid_send(id) < uuid_send(` + place + `)
    ORDER BY uuid_send(id) DESC
    LIMIT 1
  )`
}

// listSQL reads the next chunk of a tenant's workflows, newest first. It goes from workflow to workflow, so
// that it stops at pageJobs; it then says that it has read all that a page may read.
var listSQL = `
WITH RECURSIVE chunk AS (
  SELECT first.*, 1 AS place, first.jobs AS total FROM ` + olderSQL("@before::uuid") + ` AS first
  UNION ALL
  SELECT next.*, chunk.place + 1, chunk.total + next.jobs
  FROM chunk CROSS JOIN LATERAL ` + olderSQL("chunk.id") + ` AS next
  WHERE chunk.place < @chunk AND chunk.total < @page_jobs
)
-- false for a workflow without a user, where the filter has one
SELECT ` + rowSQL + `, COALESCE((@user::text IS NULL OR w.user_id = @user) AND (@name::text IS NULL OR w.name = @name)
         AND (@state::text IS NULL OR ` + stateSQL + ` = @state), false) AS hit,
       CASE WHEN max(w.total) OVER () >= @page_jobs THEN @page_rows ELSE count(*) OVER () END AS read
FROM chunk AS w ` + countsSQL + `
ORDER BY uuid_send(w.id) DESC`

// Listed is a workflow of a chunk.
type Listed struct {
	Row
	Hit  bool
	Read int64
}

// Match is for store.PageOf.
func (l *Listed) Match() (id uuid.UUID, hit bool, read int64) { return l.ID, l.Hit, l.Read }

// ListWorkflows gives a page of a tenant's workflows that match, newest first.
func (s *Workflows) ListWorkflows(ctx context.Context, owner tenant.ID, user string, filter api.WorkflowFilter, size int, token string) (api.Page[api.Workflow], error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	args := store.Args{
		"page_jobs": pageJobs, "page_rows": api.MaxPageRows, "tenant_id": owner, "user": store.NullIfEmpty(user), "name": store.NullIfEmpty(filter.Name), "state": store.NullIfEmpty(filter.State),
	}
	return store.PageOf(ctx, s.Store, "workflows", listSQL, args, size, token, func(row *Listed) api.Workflow { return row.Workflow() })
}
