package read

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// attemptsSQL reads a job and its attempts in one snapshot: one that ends meanwhile is in either.
const attemptsSQL = `
SELECT found.*, (
  SELECT json_agg(a ORDER BY a.epoch) FROM (
    SELECT attempt, epoch, kind, worker_id, started_at, ended_at, error_type, error_message, error_stack, next_run_at
    FROM attempts
    WHERE job_id = @id AND ended_at >= @since AND tenant_id = @tenant_id AND epoch > @after
    ORDER BY epoch
    LIMIT @size) AS a) AS attempts
FROM (` + getSQL + `) AS found`

type attemptRow struct {
	Attempt      int32      `json:"attempt"`
	Epoch        int64      `json:"epoch"`
	Kind         string     `json:"kind"`
	WorkerID     *string    `json:"worker_id"`
	StartedAt    *time.Time `json:"started_at"`
	EndedAt      time.Time  `json:"ended_at"`
	ErrorType    *string    `json:"error_type"`
	ErrorMessage *string    `json:"error_message"`
	ErrorStack   *string    `json:"error_stack"`
	NextRunAt    *time.Time `json:"next_run_at"`
}

// jobWithAttempts is a row of attemptsSQL.
type jobWithAttempts struct {
	Row

	Attempts []attemptRow
}

func (r *attemptRow) wire() api.Attempt {
	attempt := api.Attempt{
		Attempt: int(r.Attempt), Epoch: r.Epoch, Kind: r.Kind, WorkerID: r.WorkerID, StartedAt: api.AtOrNil(r.StartedAt),
		EndedAt: &api.Time{Time: r.EndedAt}, NextRunAt: api.AtOrNil(r.NextRunAt),
	}
	if r.ErrorType != nil && r.ErrorMessage != nil && r.ErrorStack != nil {
		attempt.Error = &api.JobError{Type: *r.ErrorType, Message: *r.ErrorMessage, Stack: *r.ErrorStack}
	}
	return attempt
}

// Attempts lists a job's executions by epoch, at most size of them with an epoch above after. The
// running one, and the one that completed the job, are read from the job.
func (s *Reader) Attempts(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, after int64, size int) ([]api.Attempt, error) {
	rows, err := s.withAttempts(ctx, owner, id, after, size)
	if err != nil {
		return nil, err
	}
	found, _, err := visible(jobsOf(rows), user)
	if err != nil {
		return nil, err
	}
	return attemptsOf(found, rows[0].Attempts, after, size), nil
}

// FindWithAttempts is Find with the job's first attempts, in one statement.
func (s *Reader) FindWithAttempts(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (
	found *api.Job, linked map[uuid.UUID]*api.JobSummary, attempts []api.Attempt, err error,
) {
	rows, err := s.withAttempts(ctx, owner, id, 0, api.MaxPageSize)
	if err != nil {
		return nil, nil, nil, err
	}
	if found, linked, err = visible(jobsOf(rows), user); err != nil {
		return nil, nil, nil, err
	}
	return found, linked, attemptsOf(found, rows[0].Attempts, 0, api.MaxPageSize), nil
}

func (s *Reader) withAttempts(ctx context.Context, owner tenant.ID, id uuid.UUID, after int64, size int) ([]jobWithAttempts, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[jobWithAttempts], attemptsSQL, store.Args{
		"id": id, "since": retention.Since(id), "tenant_id": owner, "after": after, "size": size,
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: attempts: %w", store.NotApplied(err))
	}
	return rows, nil
}

func jobsOf(rows []jobWithAttempts) []*Row {
	jobs := make([]*Row, len(rows))
	for i := range rows {
		jobs[i] = &rows[i].Row
	}
	return jobs
}

// attemptsOf are a job's attempts: those that ended otherwise than by its completion, and its last.
func attemptsOf(found *api.Job, ended []attemptRow, after int64, size int) []api.Attempt {
	attempts := make([]api.Attempt, 0, len(ended)+1)
	for i := range ended {
		attempts = append(attempts, ended[i].wire())
	}
	if last := lastAttempt(found); last != nil && last.Epoch > after && len(attempts) < size {
		known := func(a api.Attempt) bool { return a.Epoch >= last.Epoch }
		if !slices.ContainsFunc(attempts, known) {
			attempts = append(attempts, *last)
		}
	}
	return attempts
}

// lastAttempt is the attempt that only the job's row has, nil for none.
func lastAttempt(found *api.Job) *api.Attempt {
	attempt := &api.Attempt{Attempt: found.Attempt, Epoch: found.Epoch, WorkerID: found.WorkerID, StartedAt: found.StartedAt}
	switch found.State {
	case api.StateRunning:
		attempt.Kind = "running"
	case api.StateCompleted:
		attempt.Kind, attempt.EndedAt = "completed", found.FinishedAt
	default:
		return nil
	}
	return attempt
}
