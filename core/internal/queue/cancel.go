package queue

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// visibleSQL is a tenant's job as its caller may see it: a user-bound one sees
// its own user's jobs alone.
const visibleSQL = `id = @id AND tenant_id = @tenant_id AND (@user::text = '' OR user_id = @user)`

// cancelWaitingSQL ends a job that nobody has started.
const cancelWaitingSQL = `
WITH ended AS (
  DELETE FROM jobs
  WHERE ` + visibleSQL + ` AND state IN ('blocked', 'scheduled', 'queued')
  RETURNING ` + jobColumns + `, counted
), ` + usage.LeaveCountsSQL + `
INSERT INTO finished_jobs (` + jobColumns + `, state, result, finished_at)
SELECT ` + jobColumns + `, 'cancelled', NULL, statement_timestamp()
FROM ended
RETURNING ` + finishedRow

// finishedRow is a finished job in the shape of jobRow, with names.
const finishedRow = jobColumns + `, state, NULL::uuid AS lease_id, NULL::timestamptz AS lease_expires_at, result,
  NULL::text AS reason, finished_at`

// requestCancelSQL asks the holder to stop: it is told at its next heartbeat.
const requestCancelSQL = `
UPDATE jobs SET cancel_requested = true
WHERE ` + visibleSQL + ` AND state = 'running'
RETURNING ` + liveColumns

// Cancelling is what a cancel came to.
type Cancelling string

// The cancelled job waited and has ended, or it runs and its holder was asked, or it had
// been cancelled before.
const (
	CancelEnded Cancelling = "ended"
	CancelAsked Cancelling = "asked"
	CancelStood Cancelling = "stood"
)

// Cancel ends a waiting job at once, and asks for the end of a running one. A job
// that is cancelled already is given as it is; one that ended otherwise is
// ErrTerminal. A repeat changes nothing.
func (s *Jobs) Cancel(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.JobSummary, Cancelling, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	args := pgx.StrictNamedArgs{"id": id, "tenant_id": owner, "user": user}
	// The job may start, or go back in line, between the two statements. That it
	// does so each time is a matter of chance that gets small fast.
	const rounds = 10
	for range rounds {
		for _, step := range []struct {
			sql string
			did Cancelling
		}{{cancelWaitingSQL, CancelEnded}, {requestCancelSQL, CancelAsked}} {
			rows, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[JobRow], step.sql, args)
			if err != nil {
				return api.JobSummary{}, "", fmt.Errorf("queue: cancel: %w", err)
			}
			if len(rows) == 1 {
				return rows[0].Summary(), step.did, nil
			}
		}
		found, err := s.Get(ctx, owner, user, id)
		if err != nil {
			return api.JobSummary{}, "", err
		}
		switch job.State(found.State) {
		case job.Cancelled:
			return found.JobSummary, CancelStood, nil
		case job.Completed, job.DeadLetter:
			return api.JobSummary{}, "", ErrTerminal
		default: // it has moved on; once more
		}
	}
	return api.JobSummary{}, "", fmt.Errorf("queue: cancel: %w: the job changed hands %d times", store.ErrOverloaded, rounds)
}
