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
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const appendLimitsSQL = `
WITH ` + movingSQL + `, stored AS (
INSERT INTO limit_stats (tenant_id, limit_name, name, grain, at, used, allowed, refused)
SELECT tenant_id, limit_name, name, 0, coalesce(at, date_trunc('minute', statement_timestamp())), used, allowed, refused
FROM unnest(@tenants::uuid[], @limits::text[], @names::text[], @minutes::timestamptz[], @used::bigint[], @allowed::bigint[], @refused::bigint[])
     AS part(tenant_id, limit_name, name, at, used, allowed, refused)
WHERE tenant_id <> ALL((SELECT tenants FROM moving)::uuid[])
RETURNING 1
)
SELECT count(*) FROM stored`

// AppendLimitStats appends uses, all or none, in one statement. It does nothing where there are none.
func (s *Stats) AppendLimitStats(ctx context.Context, pending PendingLimits) error {
	keys := keysOf(pending)
	if len(keys) == 0 {
		return nil
	}
	n := len(keys)
	tenants, limits, names, minutes := make([]uuid.UUID, n), make([]string, n), make([]string, n), make([]*time.Time, n)
	used, allowed, refused := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, k := range keys {
		tenants[i], limits[i], names[i] = k.Tenant, k.limit, k.Name
		if k.minute != 0 {
			minutes[i] = new(time.Unix(k.minute*60, 0))
		}
		used[i], allowed[i], refused[i] = pending[k].Used, pending[k].Allowed, pending[k].Refused
	}
	err := store.Exec(store.WithClass(ctx, store.ClassLists), s.Store, appendLimitsSQL, store.Args{
		"tenants": tenants, "limits": limits, "names": names, "minutes": minutes, "used": used, "allowed": allowed, "refused": refused,
	})
	if err != nil {
		return fmt.Errorf("stats: append limits: %w", err)
	}
	return nil
}

// usedSQL is the use of several rows of a limit: the largest of a cap, the sum of a rate.
const usedSQL = `CASE WHEN limit_name LIKE '%-active' OR limit_name LIKE '%-running' THEN max(used) ELSE sum(used)::bigint END`

// readLimitsSQL reads one range of one index: of the tenant's limits, or of a queue's. A user may have a queue's name.
const readLimitsSQL = `
SELECT limit_name, date_bin(@step::interval, at, '1970-01-01 00:00:00+00') AS at,
       ` + usedSQL + ` AS used, max(allowed) AS allowed, sum(refused)::bigint AS refused
FROM limit_stats
WHERE tenant_id = @tenant_id AND name = @queue AND at >= @from AND at < @to
  AND (@queue = '' OR limit_name IN ('queue-active', 'queue-running'))
GROUP BY 1, 2
ORDER BY 1, 2`

// maxRefusals bounds who is named in one answer.
const maxRefusals = 20

// readRefusedSQL gives who was refused the most. What was refused to a user or a key is also in the row of all.
const readRefusedSQL = `
SELECT limit_name, name, sum(refused)::bigint AS refused, max(at) AS last_at
FROM limit_stats
WHERE tenant_id = @tenant_id AND at >= @from AND at < @to AND refused > 0
  AND (name <> '' OR limit_name LIKE 'tenant-%')
GROUP BY 1, 2
ORDER BY 3 DESC, 1, 2
LIMIT @most`

type limitRow struct {
	LimitName string
	At        time.Time
	Used      int64
	Allowed   int64
	Refused   int64
}

type refusedRow struct {
	LimitName string
	Name      string
	Refused   int64
	LastAt    time.Time
}

// LimitStats gives what was used of a tenant's limits, or of a queue's, by steps, without the steps in which nothing
// asked for room; and who was refused the most. What is absent in the request is its default.
func (s *Stats) LimitStats(ctx context.Context, owner tenant.ID, request hop.StatsRequest) (api.LimitStats, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	asked, err := s.rangeOf(ctx, request)
	if err != nil {
		return api.LimitStats{}, err
	}
	args := store.Args{"tenant_id": owner, "queue": request.Queue, "step": asked.length, "from": asked.from, "to": asked.to}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[limitRow], readLimitsSQL, args)
	if err != nil {
		return api.LimitStats{}, fmt.Errorf("stats: limits: %w", store.NotApplied(err))
	}
	args = store.Args{"tenant_id": owner, "from": asked.from, "to": asked.to, "most": maxRefusals}
	refused, err := store.Query(ctx, s.Store, pgx.RowToStructByName[refusedRow], readRefusedSQL, args)
	if err != nil {
		return api.LimitStats{}, fmt.Errorf("stats: refusals: %w", store.NotApplied(err))
	}
	made := api.LimitStats{
		From: api.At(asked.from), To: api.At(asked.to), Step: asked.step,
		Limits: []api.LimitHistory{}, Refused: make([]api.LimitRefusals, len(refused)),
	}
	if request.Queue != "" {
		made.Queue = &request.Queue
	}
	for _, row := range rows {
		if last := len(made.Limits) - 1; last < 0 || made.Limits[last].Name != row.LimitName {
			made.Limits = append(made.Limits, api.LimitHistory{Name: row.LimitName})
		}
		of := &made.Limits[len(made.Limits)-1]
		limit := row.Allowed
		if isRate(row.LimitName) {
			limit *= int64(asked.length / time.Minute)
		}
		of.Items = append(of.Items, api.LimitStatsItem{At: api.At(row.At), Used: row.Used, Limit: limit, Refused: row.Refused})
	}
	for i, row := range refused {
		made.Refused[i] = api.LimitRefusals{Name: row.LimitName, Refused: row.Refused, LastAt: api.At(row.LastAt)}
		if row.Name != "" {
			made.Refused[i].Whose = &row.Name
		}
	}
	return made, nil
}
