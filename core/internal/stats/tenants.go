package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// readTenantsSQL reads one range of one index twice: who had the most, and then by steps. To group by tenant and step at once
// takes twice as long. All but the first are together, as the nil UUID.
const readTenantsSQL = `
WITH placed AS MATERIALIZED (
  SELECT tenant_id, row_number() OVER (ORDER BY sum(started) DESC, tenant_id) AS place
  FROM job_stats
  WHERE queue = '' AND at >= @from AND at < @to
  GROUP BY 1
  HAVING sum(started) > 0
), named AS (
  SELECT CASE WHEN place <= @most THEN tenant_id ELSE '00000000-0000-0000-0000-000000000000' END AS tenant_id,
         min(place) AS place, min(name) AS name, sum(weight)::bigint AS weight, count(*) AS tenants
  FROM placed
  JOIN tenants ON tenants.id = placed.tenant_id
  GROUP BY 1
), attempts AS (
  SELECT COALESCE(named.tenant_id, '00000000-0000-0000-0000-000000000000') AS tenant_id,
         date_bin(@step::interval, job_stats.at, '1970-01-01 00:00:00+00') AS at,
         sum(started)::bigint AS started, sum(completed)::bigint AS completed, sum(running_ms)::bigint AS running_ms
  FROM job_stats
  LEFT JOIN named ON named.tenant_id = job_stats.tenant_id
  WHERE queue = '' AND at >= @from AND at < @to
  GROUP BY 1, 2
)
-- without others that had attempts there may be some whose attempts ended
SELECT tenant_id, COALESCE(name, '') AS name, COALESCE(weight, 0) AS weight, COALESCE(tenants, 0) AS tenants, at, started, completed, running_ms
FROM attempts
LEFT JOIN named USING (tenant_id)
ORDER BY place`

type tenantRow struct {
	TenantID  tenant.ID
	Name      string
	Weight    int64
	Tenants   int
	At        time.Time
	Started   int64
	Completed int64
	RunningMs int64
}

// TenantStats crosses tenants: it gives the attempts of those with the most, and of the others together. What is absent in
// the request is its default.
func (s *Stats) TenantStats(ctx context.Context, request hop.StatsRequest) (api.TenantStats, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	asked, err := s.rangeOf(ctx, request)
	if err != nil {
		return api.TenantStats{}, err
	}
	if asked.to.Sub(asked.from) > api.MaxTenantStatsHours*time.Hour {
		return api.TenantStats{}, problem.Invalid(problem.FieldError{Field: "from", Message: fmt.Sprintf(
			"must be at most %d hours before to, where its step begins", api.MaxTenantStatsHours)})
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[tenantRow], readTenantsSQL, store.Args{
		"step": asked.length, "from": asked.from, "to": asked.to, "most": api.MaxStatsTenants,
	})
	if err != nil {
		return api.TenantStats{}, fmt.Errorf("stats: tenants: %w", store.NotApplied(err))
	}
	made := api.TenantStats{
		From: api.At(asked.from), To: api.At(asked.to), Step: asked.step,
		Tenants: []api.StatsTenant{}, Others: api.StatsOthers{TenantAttempts: asked.noAttempts()},
	}
	for _, row := range rows {
		of := &made.Others.TenantAttempts
		if row.TenantID == uuid.Nil {
			made.Others.Tenants, made.Others.Weight = row.Tenants, row.Weight
		} else {
			id := row.TenantID.String()
			if last := len(made.Tenants) - 1; last < 0 || made.Tenants[last].TenantID != id {
				made.Tenants = append(made.Tenants, api.StatsTenant{TenantID: id, Name: row.Name, Weight: int(row.Weight), TenantAttempts: asked.noAttempts()})
			}
			of = &made.Tenants[len(made.Tenants)-1].TenantAttempts
		}
		of.Started, of.Completed, of.RunningMS = of.Started+row.Started, of.Completed+row.Completed, of.RunningMS+row.RunningMs
		item := &of.Items[int(row.At.Sub(asked.from)/asked.length)]
		item.Started, item.RunningMS = row.Started, row.RunningMs
	}
	return made, nil
}

// noAttempts are those of a range in which nothing happened.
func (s span) noAttempts() api.TenantAttempts {
	made := api.TenantAttempts{Items: make([]api.TenantStatsItem, s.points())}
	for i := range made.Items {
		made.Items[i].At = api.At(s.from.Add(time.Duration(i) * s.length))
	}
	return made
}
