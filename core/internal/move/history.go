package move

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// makeDays makes the partitions in the target that rows of the source need.
func (m *Mover) makeDays(ctx context.Context) error {
	for _, table := range []string{retention.FinishedJobs, retention.Attempts, retention.Output} {
		days, err := m.source.Retention.Days(ctx, table)
		if err != nil {
			return err
		}
		if err := m.target.Retention.MakeDays(ctx, table, days); err != nil {
			return err
		}
	}
	return nil
}

const (
	todaySQL = `
SELECT date_trunc('day', statement_timestamp(), 'UTC')`
	// finishedSQL counts the tenant's finished jobs by day.
	finishedSQL = `
SELECT (finished_at AT TIME ZONE 'UTC')::date AS day, count(*) AS n FROM finished_jobs WHERE tenant_id = @tenant_id GROUP BY 1 ORDER BY 1`
)

// copyEarlier copies the jobs that finished on days before today, a transaction for each day. Nothing can be added to them, so
// that a day of which both cells have the same number later is the same.
func (m *Mover) copyEarlier(ctx context.Context) error {
	if err := m.makeDays(ctx); err != nil {
		return err
	}
	today, err := store.Query(ctx, m.source.Store, pgx.RowTo[time.Time], todaySQL, store.Args{})
	if err != nil {
		return store.NotApplied(err)
	}
	var days []time.Time
	if err := m.inBoth(ctx, func(b between) (err error) {
		days, err = m.differing(ctx, b)
		return err
	}); err != nil {
		return err
	}
	for _, day := range days {
		if !day.Before(today[0]) {
			continue
		}
		if err := m.inBoth(ctx, func(b between) error {
			if err := m.stillArriving(ctx, b); err != nil {
				return err
			}
			if err := m.mapLanes(ctx, b); err != nil {
				return err
			}
			return m.copyDay(ctx, b, day)
		}); err != nil {
			return err
		}
	}
	return nil
}

// differing are the days of which the two cells do not have the same number of finished jobs, in order.
func (m *Mover) differing(ctx context.Context, b between) (days []time.Time, err error) {
	type finished struct {
		Day time.Time
		N   int64
	}
	differ := map[time.Time]int64{}
	for sign, tx := range map[int64]pgx.Tx{1: b.source, -1: b.target} {
		rows, err := tx.Query(ctx, finishedSQL, store.Args{"tenant_id": m.tenant})
		if err != nil {
			return nil, err
		}
		counts, err := pgx.CollectRows(rows, pgx.RowToStructByName[finished])
		if err != nil {
			return nil, err
		}
		for _, one := range counts {
			differ[one.Day.UTC()] += sign * one.N
		}
	}
	for day, n := range differ {
		if n != 0 {
			days = append(days, day)
		}
	}
	slices.SortFunc(days, time.Time.Compare)
	return days, nil
}

// forgetDaySQL removes what an earlier run has copied of a day.
const forgetDaySQL = `
WITH ended AS (
  DELETE FROM finished_jobs
  WHERE tenant_id = @tenant_id AND finished_at >= @day::date::timestamp AT TIME ZONE 'UTC' AND finished_at < (@day::date + 1)::timestamp AT TIME ZONE 'UTC'
  RETURNING id
), edges AS (
  DELETE FROM dependencies WHERE child_id = ANY(ARRAY(SELECT id FROM ended))
), said AS (
  DELETE FROM job_output WHERE job_id = ANY(ARRAY(SELECT id FROM ended)) AND tenant_id = @tenant_id
)
DELETE FROM attempts WHERE job_id = ANY(ARRAY(SELECT id FROM ended)) AND tenant_id = @tenant_id`

// copyDay copies the jobs that finished on a day.
func (m *Mover) copyDay(ctx context.Context, b between, day time.Time) error {
	if _, err := b.target.Exec(ctx, forgetDaySQL, store.Args{"tenant_id": m.tenant, "day": day}); err != nil {
		return err
	}
	from, to := day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly)
	return m.copyEnded(ctx, b, "finished_jobs", fmt.Sprintf("t.finished_at >= '%s 00:00:00+00' AND t.finished_at < '%s 00:00:00+00'", from, to))
}

// copyEnded copies the ended jobs of a table that a condition selects, with their attempts, edges and output. A job that was claimed once and
// completed has no attempt.
func (m *Mover) copyEnded(ctx context.Context, b between, name, condition string) error {
	own := "t.tenant_id = " + quoted(m.tenant)
	if _, err := b.copyRows(ctx, name, own+" AND "+condition, nil); err != nil {
		return err
	}
	tried := "true"
	if name == "finished_jobs" {
		tried = "(t.epoch > 1 OR t.state <> 'completed')"
	}
	for _, of := range []struct{ table, column, which string }{{"attempts", "job_id", tried}, {"dependencies", "child_id", "t.linked"}, {"job_output", "job_id", "t.linked"}} {
		jobs := fmt.Sprintf("%s AND %s IN (SELECT t.id FROM %s AS t WHERE %s AND %s AND %s)", own, "t."+of.column, name, own, condition, of.which)
		if _, err := b.copyRows(ctx, of.table, jobs, nil); err != nil {
			return err
		}
	}
	return nil
}
