package schedule

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const pauseScheduleSQL = `
UPDATE schedules
SET paused_at = @paused_at, next_at = @next_at, due_at = @next_at, owed_until = @owed_until, refused_at = NULL,
    revision = revision + 1, updated_at = @now
WHERE tenant_id = @tenant_id AND name = @name
RETURNING ` + scheduleColumns

// PauseSchedule pauses or resumes a tenant's schedule. A repeat changes nothing.
func (s *Schedules) PauseSchedule(ctx context.Context, owner tenant.ID, user, name string, paused bool) (api.Schedule, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	action := api.AuditScheduleResume
	if paused {
		action = api.AuditSchedulePause
	}
	var row scheduleRow
	err := s.changeSchedule(ctx, owner, user, name, func(tx pgx.Tx, found *scheduleRow) error {
		if row = *found; (row.PausedAt != nil) == paused {
			return nil
		}
		now, err := store.Clock(ctx, tx)
		if err != nil {
			return err
		}
		times, err := row.timing()
		if err != nil {
			return err
		}
		row.setPaused(times, paused, now)
		rows, err := tx.Query(ctx, pauseScheduleSQL, store.Args{
			"tenant_id": owner, "name": name, "paused_at": row.PausedAt, "next_at": row.NextAt, "owed_until": row.OwedUntil, "now": now,
		})
		if err != nil {
			return err
		}
		if row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[scheduleRow]); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: action, Object: name})
	})
	if err != nil {
		return api.Schedule{}, fmt.Errorf("schedule: pause: %w", err)
	}
	return row.wire(), nil
}

const (
	// runsPerStep bounds how many runs one transaction deletes: a schedule may have many millions.
	runsPerStep   = 10_000
	deleteRunsSQL = `
DELETE FROM schedule_runs
WHERE ctid = ANY(ARRAY(SELECT ctid FROM schedule_runs WHERE tenant_id = @tenant_id AND name = @name ORDER BY at LIMIT @most))`
	deleteScheduleSQL = `
DELETE FROM schedules WHERE tenant_id = @tenant_id AND name = @name`
)

// DeleteSchedule forgets a tenant's schedule and its runs. The jobs that it made stay. The runs go first, in steps, so
// that a call that ends before all of them are gone has not been in vain: a repeat goes on.
func (s *Schedules) DeleteSchedule(ctx context.Context, owner tenant.ID, user, name string) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	for gone := false; !gone; {
		err := s.changeSchedule(ctx, owner, user, name, func(tx pgx.Tx, _ *scheduleRow) error {
			runs, err := tx.Exec(ctx, deleteRunsSQL, store.Args{"tenant_id": owner, "name": name, "most": runsPerStep})
			if err != nil || runs.RowsAffected() == runsPerStep {
				return err
			}
			gone = true
			if _, err := tx.Exec(ctx, deleteScheduleSQL, store.Args{"tenant_id": owner, "name": name}); err != nil {
				return err
			}
			return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditScheduleDelete, Object: name})
		})
		if err != nil {
			return fmt.Errorf("schedule: delete: %w", err)
		}
	}
	return nil
}

// changeSchedule runs work in a transaction that has locked the schedule. One that is not there, or
// is another user's, is store.ErrNotFound.
func (s *Schedules) changeSchedule(ctx context.Context, owner tenant.ID, user, name string, work func(pgx.Tx, *scheduleRow) error) error {
	return s.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		found, err := lockSchedule(ctx, tx, owner, name)
		if err != nil {
			return err
		}
		if found == nil || user != "" && store.OrElse(found.job().User, "") != user {
			return store.ErrNotFound
		}
		return work(tx, found)
	})
}
