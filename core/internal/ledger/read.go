package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// openSQL counts a tenant's jobs on the days of the range that are not closed: at most @most rows of each table. A read is
// one statement with one snapshot: a day that is closed meanwhile is counted here or in the ledger, never twice.
//
// Live jobs are found by their ids, which have the gateway's time: a day before the first open one is enough.
const openSQL = `
WITH bound AS (
  SELECT max(day) AS closed, min(day) + 1 AS begins, (max(day) + 1)::timestamp AT TIME ZONE 'UTC' AS since FROM ledger_days
), ended AS (
  SELECT type, user_id, state, created_at, started_at, finished_at FROM finished_jobs
  WHERE (SELECT closed FROM bound) < @to::date AND tenant_id = @tenant_id AND finished_at >= (SELECT since FROM bound) AND ` + tenant.OwnQueueSQL + `
  LIMIT @most + 1
), live AS (
  SELECT type, user_id, created_at FROM jobs
  WHERE (SELECT closed FROM bound) < @to::date AND tenant_id = @tenant_id AND ` + tenant.OwnQueueSQL + `
    AND uuid_send(id) >= (SELECT decode(lpad(to_hex((extract(epoch FROM since - interval '1 day') * 1000)::bigint), 12, '0') || repeat('00', 10), 'hex') FROM bound)
  LIMIT @most + 1
), dead AS (
  SELECT type, user_id, created_at, died_at FROM dead_letters
  WHERE (SELECT closed FROM bound) < @to::date AND tenant_id = @tenant_id AND ` + tenant.OwnQueueSQL + `
  ORDER BY uuid_send(id) DESC
  LIMIT @most + 1
), entries AS (
  SELECT day, type, user_id, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms FROM ledger_entries
  WHERE (SELECT closed FROM bound) < @to::date AND tenant_id = @tenant_id AND day > (SELECT closed FROM bound)
  LIMIT @most + 1
), flows AS (
  SELECT (finished_at AT TIME ZONE 'UTC')::date AS day, type, COALESCE(user_id, '') AS user_id, 0 AS accepted, (state = 'completed')::integer AS completed,
         0 AS dead_letter, 0 AS redriven, (state = 'cancelled')::integer AS cancelled, 0 AS discarded, ` + ranSQL + ` AS running_ms, 0 AS failed_running_ms
  FROM ended
  UNION ALL SELECT (created_at AT TIME ZONE 'UTC')::date, type, COALESCE(user_id, ''), 1, 0, 0, 0, 0, 0, 0, 0 FROM ended
  UNION ALL SELECT (created_at AT TIME ZONE 'UTC')::date, type, COALESCE(user_id, ''), 1, 0, 0, 0, 0, 0, 0, 0 FROM live
  UNION ALL SELECT (created_at AT TIME ZONE 'UTC')::date, type, COALESCE(user_id, ''), 1, 0, 0, 0, 0, 0, 0, 0 FROM dead
  UNION ALL SELECT (died_at AT TIME ZONE 'UTC')::date, type, COALESCE(user_id, ''), 0, 0, 1, 0, 0, 0, 0, 0 FROM dead
  UNION ALL SELECT day, type, user_id, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms FROM entries
), open AS (
  SELECT CASE @by::text WHEN 'type' THEN type WHEN 'user' THEN user_id ELSE '' END AS name, day,
         accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms
  FROM flows
  WHERE day > (SELECT closed FROM bound) AND day BETWEEN @from::date AND @to::date
), capped AS (
  SELECT (SELECT count(*) FROM ended) > @most OR (SELECT count(*) FROM live) > @most OR (SELECT count(*) FROM dead) > @most
         OR (SELECT count(*) FROM entries) > @most AS capped
)`

const sumsSQL = `sum(accepted)::bigint AS accepted, sum(completed)::bigint AS completed, sum(dead_letter)::bigint AS dead_letter,
       sum(redriven)::bigint AS redriven, sum(cancelled)::bigint AS cancelled, sum(discarded)::bigint AS discarded, sum(running_ms)::bigint AS running_ms,
       sum(failed_running_ms)::bigint AS failed_running_ms`

// byDaySQL has a row for each day of the range.
const byDaySQL = openSQL + `
SELECT bound.closed, bound.begins, capped.capped, days.at::date AS day, days.at::date > bound.closed AS open, NULL::text AS name,
       COALESCE(accepted, 0) AS accepted, COALESCE(completed, 0) AS completed, COALESCE(dead_letter, 0) AS dead_letter, COALESCE(redriven, 0) AS redriven,
       COALESCE(cancelled, 0) AS cancelled, COALESCE(discarded, 0) AS discarded, COALESCE(running_ms, 0) AS running_ms,
       COALESCE(failed_running_ms, 0) AS failed_running_ms
FROM bound CROSS JOIN capped CROSS JOIN generate_series(@from::date::timestamp, @to::date::timestamp, interval '1 day') AS days(at)
LEFT JOIN (
  SELECT day, ` + sumsSQL + ` FROM (
    SELECT day, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms FROM ledger
    WHERE tenant_id = @tenant_id AND by = @by AND name = '' AND day BETWEEN @from::date AND @to::date
    UNION ALL
    SELECT day, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms FROM open
  ) AS counted
  GROUP BY day
) AS sums ON sums.day = days.at::date
ORDER BY days.at`

// byNameSQL has the first names after a place, of closed days by the key of the ledger. A row without a name says that
// there is none.
const byNameSQL = openSQL + `, closed AS MATERIALIZED (
  SELECT name, ` + sumsSQL + ` FROM ledger
  WHERE tenant_id = @tenant_id AND by = @by AND (@after::text IS NULL OR name > @after) AND day BETWEEN @from::date AND @to::date
  GROUP BY name ORDER BY name LIMIT @size
)
SELECT bound.closed, bound.begins, capped.capped, NULL::date AS day, @to::date > bound.closed AS open, sums.name,
       COALESCE(accepted, 0) AS accepted, COALESCE(completed, 0) AS completed, COALESCE(dead_letter, 0) AS dead_letter, COALESCE(redriven, 0) AS redriven,
       COALESCE(cancelled, 0) AS cancelled, COALESCE(discarded, 0) AS discarded, COALESCE(running_ms, 0) AS running_ms,
       COALESCE(failed_running_ms, 0) AS failed_running_ms
FROM bound CROSS JOIN capped
LEFT JOIN (
  SELECT name, ` + sumsSQL + ` FROM (
    SELECT name, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms FROM closed
    UNION ALL
    SELECT name, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms FROM open WHERE @after::text IS NULL OR name > @after
  ) AS counted
  GROUP BY name ORDER BY name LIMIT @size
) AS sums ON true
ORDER BY sums.name`

type usageRow struct {
	Closed, Begins  *time.Time
	Capped          bool
	Day             *time.Time
	Open            *bool
	Name            *string
	Accepted        int64
	Completed       int64
	DeadLetter      int64
	Redriven        int64
	Cancelled       int64
	Discarded       int64
	RunningMs       int64
	FailedRunningMs int64
}

// Usage gives a tenant's counts by day, type or user. By type and user it gives the first size names after a place, "" for
// the beginning; a place is "=" and a name.
func (l *Ledger) Usage(ctx context.Context, owner tenant.ID, request hop.UsageRequest, after string, size int) (api.Usage, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	made, refused, err := l.Range(ctx, request)
	if err != nil {
		return api.Usage{}, fmt.Errorf("ledger: usage: %w", err)
	}
	if refused != nil {
		return api.Usage{}, refused
	}
	args := store.Args{"tenant_id": owner, "by": made.By, "from": made.From, "to": made.To, "most": api.MaxOpenRows}
	sql := byDaySQL
	if made.By != api.ByDay {
		sql = byNameSQL
		args["after"], args["size"] = placeOf(after), size
	}
	rows, err := store.Query(ctx, l.Store, pgx.RowToStructByName[usageRow], sql, args)
	if err != nil {
		return api.Usage{}, fmt.Errorf("ledger: usage: %w", store.NotApplied(err))
	}
	for i := range rows {
		row := &rows[i]
		made.Capped = row.Capped
		if row.Closed != nil && row.Begins != nil {
			made.ClosedThrough, made.Begins = row.Closed.Format(time.DateOnly), row.Begins.Format(time.DateOnly)
		}
		if item, ok := row.item(made.By); ok {
			made.Items = append(made.Items, item)
		}
	}
	return made, nil
}

// Place is the place of an item in its list.
func Place(item api.UsageItem) string {
	switch {
	case item.Type != nil:
		return "=" + *item.Type
	case item.User != nil:
		return "=" + *item.User
	}
	return "="
}

func placeOf(after string) *string {
	if after == "" {
		return nil
	}
	name := after[1:]
	return &name
}

func (r *usageRow) item(by string) (item api.UsageItem, ok bool) {
	item = api.UsageItem{
		Open: r.Open != nil && *r.Open, Accepted: r.Accepted, Completed: r.Completed, DeadLetter: r.DeadLetter, Redriven: r.Redriven,
		Cancelled: r.Cancelled, Discarded: r.Discarded, RunningMS: r.RunningMs, FailedRunningMS: r.FailedRunningMs,
	}
	switch {
	case by == api.ByDay && r.Day != nil:
		day := r.Day.Format(time.DateOnly)
		item.Day = &day
	case r.Name == nil:
		return item, false
	case by == api.ByType:
		item.Type = r.Name
	case *r.Name != "":
		item.User = r.Name
	}
	return item, true
}

// Range fills in the defaults of a request: the current month, by PostgreSQL's clock.
func (l *Ledger) Range(ctx context.Context, request hop.UsageRequest) (made api.Usage, refused *problem.Problem, err error) {
	made = api.Usage{From: request.From, To: request.To, By: request.By, Items: []api.UsageItem{}}
	if made.By == "" {
		made.By = api.ByDay
	}
	if made.To == "" {
		now, err := l.Now(ctx)
		if err != nil {
			return made, nil, err
		}
		made.To = now.UTC().Format(time.DateOnly)
	}
	to, err := time.Parse(time.DateOnly, made.To)
	if err != nil {
		return made, problem.Invalid(problem.FieldError{Field: "to", Message: "must be a date such as 2026-11-24"}), nil
	}
	if made.From == "" {
		made.From = to.AddDate(0, 0, 1-to.Day()).Format(time.DateOnly)
	}
	from, err := time.Parse(time.DateOnly, made.From)
	switch {
	case err != nil:
		return made, problem.Invalid(problem.FieldError{Field: "from", Message: "must be a date such as 2026-11-24"}), nil
	case from.After(to):
		return made, problem.Invalid(problem.FieldError{Field: "from", Message: "must not be after to"}), nil
	case to.Sub(from) >= api.MaxUsageDays*24*time.Hour:
		return made, problem.Invalid(problem.FieldError{Field: "from", Message: fmt.Sprintf("the range must have at most %d days", api.MaxUsageDays)}), nil
	}
	return made, nil, nil
}
