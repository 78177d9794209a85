package schedule

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/timing"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lockScheduleSQL waits for a step or another change of the same schedule.
const lockScheduleSQL = `
SELECT ` + scheduleColumns + ` FROM schedules WHERE tenant_id = @tenant_id AND name = @name FOR UPDATE`

const countSchedulesSQL = `
SELECT count(*), count(*) FILTER (WHERE user_id = @user) FROM (SELECT user_id FROM schedules WHERE tenant_id = @tenant_id LIMIT @most) AS c`

// userSchedules is how many of a tenant's schedules keys that are bound to one user may make.
const userSchedules = api.MaxSchedules / 2

// putScheduleSQL stores all that is asked for. What was worked off stays, and so does when the
// schedule was made, from which an interval counts.
const putScheduleSQL = `
INSERT INTO schedules (tenant_id, name, user_id, cron, every_ms, timezone, job, size, overlap, catch_up, catch_up_max, starts_at, ends_at, windows, label,
                       paused_at, next_at, due_at, owed_until, revision, created_at, updated_at)
VALUES (@tenant_id, @name, @user_id, @cron, @every_ms, @timezone, @job, @size, @overlap, @catch_up, @catch_up_max, @starts_at, @ends_at, @windows, @label,
        @paused_at, @next_at, @due_at, @owed_until, 1, @now, @now)
ON CONFLICT (tenant_id, name) DO UPDATE
SET user_id = excluded.user_id, cron = excluded.cron, every_ms = excluded.every_ms, timezone = excluded.timezone, job = excluded.job,
    size = excluded.size, overlap = excluded.overlap, catch_up = excluded.catch_up, catch_up_max = excluded.catch_up_max,
    starts_at = excluded.starts_at, ends_at = excluded.ends_at, windows = excluded.windows, label = excluded.label, paused_at = excluded.paused_at, next_at = excluded.next_at,
    due_at = excluded.due_at, owed_until = excluded.owed_until, refused_at = @refused_at, revision = schedules.revision + 1,
    updated_at = excluded.updated_at
RETURNING ` + scheduleColumns

// PutSchedule makes a schedule, or replaces all of its settings. user, where not empty, is the only
// user whose schedules the caller may see and change. Where its ticks are at other times than
// before, they begin after now; otherwise none is lost or made again.
func (s *Schedules) PutSchedule(ctx context.Context, owner tenant.ID, user, name string, request api.ScheduleRequest) (api.Schedule, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	request.Timezone = cmp.Or(request.Timezone, api.DefaultTimezone)
	if _, err := timing.New(&request, time.Time{}); err != nil { // before any statement
		return api.Schedule{}, err
	}
	if _, err := timing.NewWindows(request.Windows); err != nil {
		return api.Schedule{}, err
	}
	var made scheduleRow
	err := s.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		// Serialised in a tenant, for the bound.
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": s.LockKey(store.LockSchedules, owner)}); err != nil {
			return err
		}
		now, err := store.Clock(ctx, tx)
		if err != nil {
			return err
		}
		old, err := lockSchedule(ctx, tx, owner, name)
		if err != nil {
			return err
		}
		if old == nil {
			err = checkBound(ctx, tx, owner, user)
		} else if user != "" && store.OrElse(old.job().User, "") != user {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		args, err := putArgs(owner, name, &request, old, now)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, putScheduleSQL, args)
		if err != nil {
			return err
		}
		if made, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[scheduleRow]); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditSchedulePut, Object: name, Detail: putDetail(&request)})
	})
	if err != nil {
		return api.Schedule{}, fmt.Errorf("schedule: put: %w", err)
	}
	return made.wire(), nil
}

// putDetail is the request without the payload, which may be anything.
func putDetail(r *api.ScheduleRequest) map[string]any {
	return map[string]any{
		"cron": r.Cron, "every_ms": r.EveryMS, "timezone": r.Timezone, "overlap": r.Overlap, "catch_up": r.CatchUp,
		"starts_at": r.StartsAt, "ends_at": r.EndsAt, "windows": store.EmptyIfNil(r.Windows), "paused": r.Paused, "label": r.Label,
		"job": map[string]any{"type": r.Job.Type, "queue": cmp.Or(r.Job.Queue, api.DefaultQueue), "user": r.Job.User},
	}
}

// lockSchedule gives nil where there is none.
func lockSchedule(ctx context.Context, tx pgx.Tx, owner tenant.ID, name string) (*scheduleRow, error) {
	rows, err := tx.Query(ctx, lockScheduleSQL, store.Args{"tenant_id": owner, "name": name})
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[scheduleRow])
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// checkBound is for a new schedule; user is that of the key.
func checkBound(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string) error {
	var n, own int
	if err := tx.QueryRow(ctx, countSchedulesSQL, store.Args{"tenant_id": owner, "user": store.NullIfEmpty(user), "most": api.MaxSchedules}).Scan(&n, &own); err != nil {
		return err
	}
	switch {
	case n >= api.MaxSchedules:
		return ErrTooManySchedules
	case user != "" && own >= userSchedules:
		return ErrTooManyUserSchedules
	}
	return nil
}

func putArgs(owner tenant.ID, name string, r *api.ScheduleRequest, old *scheduleRow, now time.Time) (store.Args, error) {
	job := store.JSON(r.Job)
	row := scheduleRow{CreatedAt: now}
	if old != nil {
		row = *old
	}
	times, err := timing.New(r, row.CreatedAt)
	if err != nil {
		return nil, err
	}
	if old == nil || !old.sameTimes(r) && !old.owesTheSame(times, now) {
		row.NextAt, row.OwedUntil, row.RefusedAt = nextAfter(times, now), nil, nil
	}
	row.setPaused(times, r.Paused, now)
	return store.Args{
		"tenant_id": owner, "name": name, "user_id": r.Job.User, "cron": r.Cron, "every_ms": r.EveryMS, "timezone": r.Timezone,
		"job": string(job), "size": len(job), "overlap": cmp.Or(r.Overlap, api.OverlapAllow), "catch_up": cmp.Or(r.CatchUp, api.CatchUpNone),
		"catch_up_max": store.OrElse(r.CatchUpMax, api.DefaultCatchUpMax), "starts_at": store.TimeOrNil(r.StartsAt), "ends_at": store.TimeOrNil(r.EndsAt), "label": r.Label,
		"windows": windowsOf(r), "paused_at": row.PausedAt, "next_at": row.NextAt, "due_at": row.dueAt(now), "refused_at": row.RefusedAt,
		"owed_until": row.OwedUntil, "now": now,
	}, nil
}

// windowsOf is nil for none.
func windowsOf(r *api.ScheduleRequest) any {
	if len(r.Windows) == 0 {
		return nil
	}
	return r.Windows
}

// sameTimes says whether the ticks are at the same times as before.
func (r *scheduleRow) sameTimes(asked *api.ScheduleRequest) bool {
	return equal(r.Cron, asked.Cron) && equal(r.EveryMs, asked.EveryMS) && r.Timezone == asked.Timezone &&
		sameTime(r.StartsAt, store.TimeOrNil(asked.StartsAt)) && sameTime(r.EndsAt, store.TimeOrNil(asked.EndsAt))
}

// owesTheSame says whether the ticks that are due, and are still to be worked off, would have come with the new timing
// too: none is lost where only the end is another, or the name of the zone. It compares the first of very many.
func (r *scheduleRow) owesTheSame(times *timing.Ticks, now time.Time) bool {
	const compared = 1000
	before, err := r.timing()
	if err != nil || r.NextAt == nil || r.NextAt.After(now) {
		return false
	}
	at, ok := times.Next(r.NextAt.Add(-1))
	for next, n := r.NextAt, 0; n < compared; n++ {
		if due := next != nil && !next.After(now); !due || !ok || !at.Equal(*next) {
			return !due && (!ok || at.After(now))
		}
		next = nextAfter(before, at)
		at, ok = times.Next(at)
	}
	return true
}

func equal[T comparable](a, b *T) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func sameTime(a, b *time.Time) bool { return (a == nil) == (b == nil) && (a == nil || a.Equal(*b)) }

// dueAt is when the schedule is to be looked at: now where a tick that a cap has refused is tried again.
func (r *scheduleRow) dueAt(now time.Time) *time.Time {
	if r.RefusedAt != nil {
		return &now
	}
	return r.NextAt
}

// setPaused pauses or resumes. Ticks from the moment of the pause on are skipped; those of a pause
// that was over before they were worked off are not made when it ends. Where a tick of before the pause is
// still to be worked off, it is not lost: those of the pause are then late ticks too.
func (r *scheduleRow) setPaused(times *timing.Ticks, paused bool, now time.Time) {
	switch {
	case paused && r.PausedAt == nil:
		r.PausedAt, r.RefusedAt = &now, nil
	case !paused && r.PausedAt != nil:
		if r.NextAt != nil && !r.NextAt.After(now) && !r.NextAt.Before(*r.PausedAt) {
			r.NextAt, r.OwedUntil = nextAfter(times, now), nil
		}
		r.PausedAt, r.RefusedAt = nil, nil
	}
}
