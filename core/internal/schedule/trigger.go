package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// TriggerCandidate reads what a trigger of a schedule submits. user, where not empty, is the only
// user whose schedules the caller may see.
func (s *Schedules) TriggerCandidate(ctx context.Context, owner tenant.ID, user, name string) (Candidate, error) {
	row, err := s.getRow(ctx, owner, user, name)
	if err != nil {
		return Candidate{}, err
	}
	return Candidate{TenantID: owner, Name: name, Revision: row.Revision, Job: row.job()}, nil
}

const lockTriggeredSQL = `
SELECT statement_timestamp() FROM schedules
WHERE tenant_id = @tenant_id AND name = @name AND revision = @revision
FOR UPDATE`

const addRunSQL = `
INSERT INTO schedule_runs (tenant_id, name, at, job_id) VALUES (@tenant_id, @name, @at, @job_id)`

const noteTriggerSQL = `
UPDATE schedules SET last_at = @at, last_job_id = @job_id, last_skipped = NULL, made_job_id = @job_id
WHERE tenant_id = @tenant_id AND name = @name`

// TriggerSchedule submits one job of a schedule now, beside its ticks: they stay as they are. The
// candidate's template is filled in, and may have an Idempotency-Key. ErrChanged says that the
// schedule is no longer as the candidate was read.
func (s *Schedules) TriggerSchedule(ctx context.Context, candidate Candidate) (answer submit.Answer, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	for range store.DeadlockTries {
		answer, err = s.trigger(ctx, &candidate)
		if !store.Deadlocked(err) && !store.IsUnique(err) { // another run of the same microsecond
			break
		}
	}
	if err != nil {
		return submit.Answer{}, fmt.Errorf("schedule: trigger: %w", err)
	}
	return answer, nil
}

func (s *Schedules) trigger(ctx context.Context, candidate *Candidate) (answer submit.Answer, err error) {
	locks := s.submits.Locks([]submit.Submission{candidate.Template})
	var found []time.Time
	err = s.InShortTx(ctx, func(first *pgx.Batch) {
		store.QueueTakesJobs(first, []tenant.ID{candidate.TenantID})
		named := store.Args{"tenant_id": candidate.TenantID, "name": candidate.Name, "revision": candidate.Revision}
		first.Queue(lockTriggeredSQL, named).Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, pgx.RowTo[time.Time])
			return err
		})
		locks.Lock(ctx, first)
	}, func(tx pgx.Tx) (*pgx.Batch, error) {
		if len(found) == 0 {
			return nil, ErrChanged
		}
		if expires := candidate.Job.ExpiresAfterMS; expires != nil {
			candidate.Template.Jobs[0].Deadline = new(found[0].Add(time.Duration(*expires) * time.Millisecond))
		}
		answers, last, err := locks.Store(ctx, tx, []submit.Submission{candidate.Template})
		if err != nil {
			return nil, err
		}
		if answer = answers[0]; len(answer.Jobs) == 0 || answer.Jobs[0].Row == nil { // replayed, or refused
			return last, nil
		}
		return last, candidate.noteRun(ctx, last, found[0], answer.Jobs[0].Row.ID)
	})
	return answer, locks.Committed(err)
}

// noteRun queues the run of a triggered job, and its audit entry.
func (c *Candidate) noteRun(ctx context.Context, batch *pgx.Batch, now time.Time, job uuid.UUID) error {
	run := store.Args{"tenant_id": c.TenantID, "name": c.Name, "at": now, "job_id": job}
	batch.Queue(addRunSQL, run)
	batch.Queue(noteTriggerSQL, run)
	return audit.Record(ctx, queued{batch}, audit.Event{
		Tenant: &c.TenantID, Action: api.AuditScheduleTrigger, Object: c.Name, Detail: map[string]any{"job_id": job},
	})
}

// queued lets a batch be recorded in.
type queued struct{ *pgx.Batch }

// Exec queues a statement.
func (q queued) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	q.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}
