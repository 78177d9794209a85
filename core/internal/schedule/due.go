package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const nextScheduleSQL = `
SELECT statement_timestamp() AS now,
       (SELECT due_at FROM schedules WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1) - statement_timestamp() AS until`

// NextDue says when a schedule is due.
type NextDue struct {
	// Now is PostgreSQL's clock.
	Now time.Time
	// Until is the time until a schedule, of any tenant, is due; nil where none ever is.
	Until *time.Duration
}

// NextSchedule finds out when the next schedule is due.
func (s *Schedules) NextSchedule(ctx context.Context) (NextDue, error) {
	next, err := store.Query(ctx, s.Store, pgx.RowToStructByName[NextDue], nextScheduleSQL, store.Args{})
	if err != nil {
		return NextDue{}, fmt.Errorf("schedule: next: %w", store.NothingChanged(err))
	}
	return next[0], nil
}

// Candidate is a due schedule, as it was without a lock.
type Candidate struct {
	TenantID tenant.ID
	Name     string
	Revision int64
	// Job is the job of each tick.
	Job api.ScheduleJob
	// Template is the submission of a tick's job, but for its id and deadline. The caller fills it
	// in: lanes must be committed before the step, and caps be known.
	Template submit.Submission
}

const (
	// dueWindow is how many due schedules are read, oldest first. Where there are more, a tenant
	// may have filled the window, and each tenant's are read.
	dueWindow = 1000
	// dueBytes bounds the jobs of the candidates together.
	dueBytes = 8 << 20

	// Tenants take turns: first each tenant's longest overdue.
	dueInTurn = `
SELECT tenant_id, name, revision, job, read FROM (
  SELECT tenant_id, name, revision, rank, due_at, count(*) OVER () AS read, sum(size) OVER (ORDER BY rank, due_at, tenant_id, name) - size AS before FROM ranked
) AS chosen CROSS JOIN LATERAL (
  SELECT job FROM schedules s WHERE s.tenant_id = chosen.tenant_id AND s.name = chosen.name LIMIT 1
) AS template
WHERE before < @bytes
ORDER BY rank, due_at, tenant_id, name
LIMIT @most`

	oldestDue = `oldest AS MATERIALIZED (
  SELECT tenant_id, name, revision, size, due_at FROM schedules
  WHERE due_at <= statement_timestamp()
  ORDER BY due_at
  LIMIT @window
)`

	dueSchedulesSQL = `
WITH ` + oldestDue + `, ranked AS MATERIALIZED (
  SELECT oldest.*, row_number() OVER (PARTITION BY tenant_id ORDER BY due_at, name) AS rank FROM oldest
)` + dueInTurn

	// dueByTenantSQL adds the first of each tenant, from tenant to tenant by the index.
	dueByTenantSQL = `
WITH RECURSIVE ` + oldestDue + `, owners AS (
  (SELECT uuid_send(tenant_id) AS owner FROM schedules WHERE due_at IS NOT NULL ORDER BY uuid_send(tenant_id) LIMIT 1)
  UNION ALL
  SELECT (SELECT uuid_send(s.tenant_id) FROM schedules s WHERE s.due_at IS NOT NULL AND uuid_send(s.tenant_id) > owners.owner
          ORDER BY uuid_send(s.tenant_id) LIMIT 1)
  FROM owners WHERE owners.owner IS NOT NULL
), firsts AS (
  SELECT theirs.* FROM owners CROSS JOIN LATERAL (
    SELECT tenant_id, name, revision, size, due_at FROM schedules s
    WHERE uuid_send(s.tenant_id) = owners.owner AND s.due_at <= statement_timestamp()
    ORDER BY s.due_at
    LIMIT 25
  ) AS theirs
), ranked AS MATERIALIZED (
  SELECT every.*, row_number() OVER (PARTITION BY tenant_id ORDER BY due_at, name) AS rank
  FROM (SELECT * FROM oldest UNION SELECT * FROM firsts) AS every
)` + dueInTurn
)

// DueSchedules lists schedules, of any tenants, that are due: at most most, tenants in turn.
func (s *Schedules) DueSchedules(ctx context.Context, most int) ([]Candidate, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	due, read, err := s.due(ctx, dueSchedulesSQL, dueWindow, most)
	if err == nil && read == dueWindow {
		due, _, err = s.due(ctx, dueByTenantSQL, dueWindow, most)
	}
	if err != nil {
		return nil, fmt.Errorf("schedule: due: %w", store.NothingChanged(err))
	}
	return due, nil
}

// due runs one of the two statements. read is how many due schedules it has looked at.
func (s *Schedules) due(ctx context.Context, sql string, window, most int) (due []Candidate, read int, err error) {
	due, err = store.Query(ctx, s.Store, func(row pgx.CollectableRow) (Candidate, error) {
		var one Candidate
		var job []byte
		if err := row.Scan(&one.TenantID, &one.Name, &one.Revision, &job, &read); err != nil {
			return one, err
		}
		one.Job = (&scheduleRow{Job: job}).job()
		return one, nil
	}, sql, store.Args{"window": window, "most": most, "bytes": dueBytes})
	return due, read, err
}
