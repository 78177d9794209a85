// Package workflow has the tables of workflows: which jobs belong together, and under which refs.
// The jobs themselves, and how they come after each other, are those of packages submit, queue and
// dependency. A workflow's state is read from its jobs, never kept beside them.
package workflow

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Workflows has the statements.
type Workflows struct{ *store.Store }

// New is a workflow that is to be stored with its jobs, or jobs for one that is stored.
type New struct {
	ID uuid.UUID
	// Name and Metadata belong to a new one.
	Name     string
	Metadata []byte
	// Add says that the workflow exists.
	Add bool
	// Refs run in parallel to the jobs of the submission.
	Refs []string
}

const (
	addSQL = `
INSERT INTO workflows (id, tenant_id, user_id, name, metadata, created_at)
VALUES (@id, @tenant_id, @user_id, @name, @metadata, statement_timestamp())`

	addJobsSQL = `
INSERT INTO workflow_jobs (workflow_id, ref, job_id)
SELECT @id, ref, job_id FROM unnest(@refs::text[], @jobs::uuid[]) AS j(ref, job_id)`
)

// Add queues the statements that store a workflow, or what is added to one; jobs run in parallel to
// its refs. user is that of a user-bound credential, empty for none.
func Add(batch *pgx.Batch, owner tenant.ID, user string, made *New, jobs []uuid.UUID) {
	if !made.Add {
		batch.Queue(addSQL, store.Args{
			"id": made.ID, "tenant_id": owner, "user_id": store.NullIfEmpty(user), "name": made.Name, "metadata": string(made.Metadata),
		})
	}
	batch.Queue(addJobsSQL, store.Args{"id": made.ID, "refs": made.Refs, "jobs": jobs})
}

// Row is a workflow with the counts of its jobs.
type Row struct {
	ID         uuid.UUID
	Name       string
	UserID     *string
	Metadata   []byte
	CreatedAt  time.Time
	Blocked    int
	Scheduled  int
	Waiting    int
	Queued     int
	Running    int
	Completed  int
	Cancelled  int
	DeadLetter int
	State      string
	// EndedAt is when the last of the ended jobs has ended; nil for none.
	EndedAt *time.Time
}

// Workflow is what its tenant sees.
func (r *Row) Workflow() api.Workflow {
	shown := api.Workflow{
		ID: r.ID.String(), Name: r.Name, State: r.State, User: r.UserID, Metadata: store.Metadata(r.Metadata), CreatedAt: api.At(r.CreatedAt),
		Counts: api.WorkflowCounts{
			Blocked: r.Blocked, Scheduled: r.Scheduled, Waiting: r.Waiting, Queued: r.Queued, Running: r.Running,
			Completed: r.Completed, Cancelled: r.Cancelled, DeadLetter: r.DeadLetter,
		},
	}
	if shown.State != api.WorkflowRunning {
		shown.FinishedAt = api.AtOrNil(r.EndedAt)
	}
	return shown
}
