package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// When PostgreSQL's clock is set back, schedules may have been worked off in what is the future
// again, maybe years ahead. Without this they would wait until then.

// Place is a place in a walk through the schedules of all tenants. The zero value is the start.
type Place struct {
	Tenant tenant.ID
	Name   string
}

// futureSQL walks through the schedules by their key. It gives those that were worked off or changed
// later than now, and the last one read.
const futureSQL = `
WITH chunk AS MATERIALIZED (
  SELECT *, GREATEST(ticked_at, updated_at) > statement_timestamp() AS future FROM schedules
  WHERE (tenant_id, name) > (@tenant_id, @name)
  ORDER BY tenant_id, name
  LIMIT @most
)
SELECT * FROM (
  SELECT ` + scheduleColumns + `, statement_timestamp() AS now, future,
         lead(name) OVER (ORDER BY tenant_id, name) IS NULL AS last, count(*) OVER () AS read
  FROM chunk
) AS judged
WHERE future OR last
ORDER BY tenant_id, name`

type futureRow struct {
	scheduleRow
	Now    time.Time
	Future bool
	Last   bool
	Read   int64
}

// rewindSQL leaves a schedule alone that was worked off or changed meanwhile.
const rewindSQL = `
UPDATE schedules s
SET next_at = moved.next_at, due_at = moved.next_at, owed_until = NULL, refused_at = NULL, ticked_at = @now,
    created_at = LEAST(created_at, @now), updated_at = LEAST(updated_at, @now), paused_at = LEAST(paused_at, @now)
FROM unnest(@tenants::uuid[], @names::text[], @revisions::bigint[], @was::timestamptz[], @next_ats::timestamptz[])
     AS moved(tenant_id, name, revision, was_at, next_at)
WHERE s.tenant_id = moved.tenant_id AND s.name = moved.name AND s.revision = moved.revision
  AND s.next_at IS NOT DISTINCT FROM moved.was_at
  AND s.tenant_id <> ALL(` + store.MovingSQL + `)`

// RewindSchedules moves the schedules of the next most, of any tenants, to their first tick after now
// that were worked off in what is the future again. Ticks that have their run are not made again. It
// gives where to go on; the zero place is the end.
func (s *Schedules) RewindSchedules(ctx context.Context, from Place, most int) (rewound int, next Place, err error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[futureRow], futureSQL,
		store.Args{"tenant_id": from.Tenant, "name": from.Name, "most": most})
	if err != nil {
		return 0, from, fmt.Errorf("schedule: rewind: %w", store.NotApplied(err))
	}
	var tenants []uuid.UUID
	var names []string
	var revisions []int64
	var was, nexts []*time.Time
	for _, row := range rows {
		if row.Last && row.Read == int64(most) {
			next = Place{row.TenantID, row.Name}
		}
		if !row.Future {
			continue
		}
		if row.CreatedAt.After(row.Now) {
			row.CreatedAt = row.Now
		}
		times, err := row.timing()
		if err != nil {
			continue
		}
		tenants, names, revisions = append(tenants, row.TenantID), append(names, row.Name), append(revisions, row.Revision)
		was, nexts = append(was, row.NextAt), append(nexts, nextAfter(times, row.Now))
	}
	if len(names) == 0 {
		return 0, next, nil
	}
	if err := store.Exec(ctx, s.Store, rewindSQL, store.Args{
		"tenants": tenants, "names": names, "revisions": revisions, "was": was, "next_ats": nexts, "now": rows[0].Now,
	}); err != nil {
		return 0, from, fmt.Errorf("schedule: rewind: %w", err)
	}
	return len(names), next, nil
}
