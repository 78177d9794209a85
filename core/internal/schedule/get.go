package schedule

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

const getScheduleSQL = `
SELECT ` + scheduleColumns + ` FROM schedules
WHERE tenant_id = @tenant_id AND name = @name AND (@user::text = '' OR user_id = @user)`

// GetSchedule reads one of a tenant's schedules; user, where not empty, is the only user whose
// schedules the caller may see.
func (s *Schedules) GetSchedule(ctx context.Context, owner tenant.ID, user, name string) (api.Schedule, error) {
	row, err := s.getRow(ctx, owner, user, name)
	if err != nil {
		return api.Schedule{}, err
	}
	return row.wire(), nil
}

func (s *Schedules) getRow(ctx context.Context, owner tenant.ID, user, name string) (*scheduleRow, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[scheduleRow], getScheduleSQL, store.Args{"tenant_id": owner, "name": name, "user": user})
	if err != nil {
		return nil, fmt.Errorf("schedule: get: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return nil, store.ErrNotFound
	}
	return rows[0], nil
}

// listSchedulesSQL gives each schedule with how its newest runs ended: a job that is in none of the three tables is no
// longer kept. The bound of finished_at is that of retention.Since. A page ends with the schedule whose job fills it: 200 of
// 256 KiB each would be an answer of 50 MiB.
const listSchedulesSQL = `
SELECT listed.*, recent.ats, recent.jobs, recent.skips, recent.states
FROM (
  SELECT ` + scheduleColumns + `, COALESCE(sum(size) OVER before, 0) AS bytes_before,
         row_number() OVER (ORDER BY name) AS place, count(*) OVER () AS found
  FROM (
    SELECT ` + scheduleColumns + `, size FROM schedules
    WHERE tenant_id = @tenant_id AND name > @after AND (@user::text = '' OR user_id = @user)
    ORDER BY name
    LIMIT @size + 1
  ) AS next
  WINDOW before AS (ORDER BY name ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) AS listed
CROSS JOIN LATERAL (
  SELECT array_agg(run.at ORDER BY run.at DESC) AS ats, array_agg(run.job_id ORDER BY run.at DESC) AS jobs,
         array_agg(run.skipped ORDER BY run.at DESC) AS skips, array_agg(ended.state ORDER BY run.at DESC) AS states
  FROM (
    SELECT at, job_id, skipped FROM schedule_runs
    WHERE tenant_id = listed.tenant_id AND name = listed.name
    ORDER BY at DESC
    LIMIT @runs
  ) AS run
  LEFT JOIN LATERAL (
    SELECT state FROM jobs WHERE id = run.job_id
    UNION ALL
    SELECT state FROM finished_jobs WHERE id = run.job_id
      AND finished_at >= earliest_end(run.job_id)
    UNION ALL
    SELECT 'dead_letter' FROM dead_letters WHERE id = run.job_id
  ) AS ended ON true
) AS recent
WHERE place <= @size AND bytes_before < @bytes
ORDER BY listed.name`

// listedRow is a schedule with its newest runs; nil where it has none.
type listedRow struct {
	scheduleRow
	// BytesBefore are those of the jobs before it on the page.
	BytesBefore int64
	// Place is its place on the page, from 1, and Found how many there are, up to one more than the page may have.
	Place, Found int64
	Ats          []time.Time
	Jobs         []*uuid.UUID
	Skips        []*string
	States       []*string
}

func (r *listedRow) wire() api.Schedule {
	shown := r.scheduleRow.wire()
	runs := make([]api.ScheduleOutcome, len(r.Ats))
	for i, at := range r.Ats {
		runs[i] = api.ScheduleOutcome{ScheduleRun: api.ScheduleRun{At: api.At(at), JobID: idText(r.Jobs[i]), Skipped: r.Skips[i]}, State: r.States[i]}
	}
	shown.RecentRuns = &runs
	return shown
}

// ListSchedules gives a page of a tenant's schedules by name, after one of them, each with its newest runs. The page's token
// is its last name.
func (s *Schedules) ListSchedules(ctx context.Context, owner tenant.ID, user, after string, size int) (api.Page[api.Schedule], error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[listedRow], listSchedulesSQL,
		store.Args{"tenant_id": owner, "after": after, "user": user, "size": size, "bytes": api.MaxPageBytes, "runs": api.RecentRunsShown})
	page := api.Page[api.Schedule]{Items: make([]api.Schedule, len(rows))}
	if err != nil {
		return page, fmt.Errorf("schedule: list: %w", store.NotApplied(err))
	}
	for i, row := range rows {
		page.Items[i] = row.wire()
	}
	if n := len(rows); n > 0 && rows[n-1].Found > rows[n-1].Place {
		page.NextPageToken = &rows[n-1].Name
	}
	return page, nil
}

const runsSQL = `
SELECT at, job_id, skipped FROM schedule_runs
WHERE tenant_id = @tenant_id AND name = @name AND at < COALESCE(@before::timestamptz, 'infinity')
ORDER BY at DESC
LIMIT @size`

type runRow struct {
	At      time.Time
	JobID   *uuid.UUID
	Skipped *string
}

// ScheduleRuns gives the runs of a tenant's schedule before an instant, or all for nil, newest first.
func (s *Schedules) ScheduleRuns(ctx context.Context, owner tenant.ID, user, name string, before *time.Time, size int) ([]api.ScheduleRun, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	if _, err := s.getRow(ctx, owner, user, name); err != nil {
		return nil, err
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[runRow], runsSQL,
		store.Args{"tenant_id": owner, "name": name, "before": before, "size": size})
	if err != nil {
		return nil, fmt.Errorf("schedule: runs: %w", store.NotApplied(err))
	}
	shown := make([]api.ScheduleRun, len(rows))
	for i, row := range rows {
		shown[i] = api.ScheduleRun{At: api.At(row.At), JobID: idText(row.JobID), Skipped: row.Skipped}
	}
	return shown, nil
}

// missedSQL: a tick that is not worked off, or that a cap has refused, for a minute, or after the one before it, and ticks that were left out in the
// last minute.
const missedSQL = `
SELECT name, CASE WHEN refused_at IS NOT NULL THEN 'refused' WHEN next_at < statement_timestamp() - @late::interval THEN 'late' ELSE 'missed' END AS why,
       COALESCE(refused_at, next_at) AS at
FROM schedules
WHERE tenant_id = @tenant_id AND paused_at IS NULL
  AND (refused_at < statement_timestamp() - @late::interval
       OR refused_at IS NOT NULL AND (SELECT r.skipped FROM schedule_runs AS r WHERE r.tenant_id = schedules.tenant_id AND r.name = schedules.name AND r.at < refused_at ORDER BY r.at DESC LIMIT 1) = 'cap'
       OR next_at < statement_timestamp() - @late::interval OR missed_at > statement_timestamp() - @late::interval)
ORDER BY name
LIMIT @most`

// Missed is a schedule whose ticks do not make their jobs. Why is refused where a cap refuses the tick at At, late where
// that is not worked off, and missed where ticks were left out a moment ago because they were too late.
type Missed struct {
	Name string
	Why  string
	At   *time.Time
}

// Missed lists a tenant's schedules whose ticks do not make their jobs.
func (s *Schedules) Missed(ctx context.Context, owner tenant.ID, most int) ([]Missed, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[Missed], missedSQL, store.Args{"tenant_id": owner, "late": missedAfter, "most": most})
	if err != nil {
		return nil, fmt.Errorf("schedule: missed: %w", store.NotApplied(err))
	}
	return found, nil
}
