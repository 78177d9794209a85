package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Ledger has the statements.
type Ledger struct{ *store.Store }

// closeMargin is the time from the end of a day until it is closed, for statements that have begun and are not shown
// as running yet.
const closeMargin = 5 * time.Minute

const (
	// nextDaySQL gives the first day that is not closed, and whether it is over.
	nextDaySQL = `
SELECT day, day::timestamp AT TIME ZONE 'UTC' AS from, (day + 1)::timestamp AT TIME ZONE 'UTC' AS to,
       (day + 1)::timestamp AT TIME ZONE 'UTC' <= statement_timestamp() - @margin::interval AS over
FROM (SELECT max(day) + 1 AS day FROM ledger_days HAVING count(*) > 0) AS next`
	// heldSQL gives the oldest transaction by which a row of the day may be missing. It is written by a statement that began on it, so by a
	// transaction that did. pg_stat_activity is read in a statement before the count: the count's snapshot then has all
	// of them. It hides the transactions of other roles; they are not core's. Citus allows it beside no table.
	heldSQL = `
SELECT pid, COALESCE(application_name, '') AS application, COALESCE(usename, '') AS role, xact_start AS since
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND xact_start < @to
ORDER BY xact_start
LIMIT 1`
)

// Day is a day of the ledger.
type Day struct {
	Day      time.Time
	From, To time.Time
	// Over says that the day has ended, with a margin. Holder is what keeps one that is over from being closed: the oldest
	// transaction that began before its end; nil for none.
	Over   bool
	Holder *Holder `db:"-"`
}

// Holder is a session with an open transaction.
type Holder struct {
	PID               int32
	Application, Role string
	Since             time.Time
}

// countDaySQL counts a day from what is there and what was left, all in the one snapshot of this statement. Jobs that
// were accepted on it may have ended on any later day.
const countDaySQL = `
WITH flows AS (
  SELECT tenant_id, type, COALESCE(user_id, '') AS user_id, 0::bigint AS accepted, count(*) FILTER (WHERE state = 'completed') AS completed,
         0::bigint AS dead_letter, 0::bigint AS redriven, count(*) FILTER (WHERE state = 'cancelled') AS cancelled, 0::bigint AS discarded,
         COALESCE(sum(` + ranSQL + `), 0) AS running_ms, 0::bigint AS failed_running_ms
  FROM finished_jobs WHERE finished_at >= @from AND finished_at < @to AND ` + tenant.OwnQueueSQL + `
  GROUP BY 1, 2, 3
  UNION ALL
  SELECT tenant_id, type, COALESCE(user_id, ''), count(*), 0, 0, 0, 0, 0, 0, 0
  FROM finished_jobs WHERE finished_at >= @from AND created_at >= @from AND created_at < @to AND ` + tenant.OwnQueueSQL + `
  GROUP BY 1, 2, 3
  UNION ALL
  SELECT tenant_id, type, COALESCE(user_id, ''), count(*), 0, 0, 0, 0, 0, 0, 0
  FROM jobs WHERE created_at >= @from AND created_at < @to AND ` + tenant.OwnQueueSQL + `
  GROUP BY 1, 2, 3
  UNION ALL
  SELECT tenant_id, type, COALESCE(user_id, ''), count(*) FILTER (WHERE created_at >= @from AND created_at < @to), 0,
         count(*) FILTER (WHERE died_at >= @from AND died_at < @to), 0, 0, 0, 0, 0
  FROM dead_letters WHERE (created_at >= @from AND created_at < @to OR died_at >= @from AND died_at < @to) AND ` + tenant.OwnQueueSQL + `
  GROUP BY 1, 2, 3
  UNION ALL
  SELECT tenant_id, type, user_id, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms
  FROM ledger_entries WHERE day = @day::date
)
INSERT INTO ledger (tenant_id, by, name, day, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms)
SELECT tenant_id, CASE WHEN GROUPING(type) = 0 THEN 'type' WHEN GROUPING(user_id) = 0 THEN 'user' ELSE 'day' END,
       COALESCE(type, user_id, ''), @day::date,
       sum(accepted), sum(completed), sum(dead_letter), sum(redriven), sum(cancelled), sum(discarded), sum(running_ms), sum(failed_running_ms)
FROM flows
GROUP BY GROUPING SETS ((tenant_id), (tenant_id, type), (tenant_id, user_id))`

const (
	closeDaySQL = `
INSERT INTO ledger_days (day, closed_at) VALUES (@day, statement_timestamp())`
	forgetEntriesSQL = `
DELETE FROM ledger_entries WHERE day <= @day::date`
	// wholeTablesSQL: the count reads whole partitions, which core's settings keep every other statement from.
	wholeTablesSQL = `SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on`
)

// CloseDay closes the first day that is not closed, if it can be, and gives it: Over and no Holder says that it was closed
// now. One core at a time does; the others get nil.
func (l *Ledger) CloseDay(ctx context.Context) (*Day, error) {
	var next *Day
	err := l.InTx(store.WithClass(ctx, store.ClassLists), func(tx pgx.Tx) error {
		next = nil
		var mine bool
		if err := tx.QueryRow(ctx, store.TryHoldSQL, store.Args{"lock": l.LockKey(store.LockLedger, tenant.Platform)}).Scan(&mine); err != nil || !mine {
			return err
		}
		var err error
		if next, err = nextDay(ctx, tx); err != nil || next == nil || !next.Over || next.Holder != nil {
			return err
		}
		if _, err := tx.Exec(ctx, wholeTablesSQL); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, countDaySQL, store.Args{"day": next.Day, "from": next.From, "to": next.To}); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, closeDaySQL, store.Args{"day": next.Day}); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, forgetEntriesSQL, store.Args{"day": next.Day})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: close a day: %w", err)
	}
	return next, nil
}

// nextDay gives the first day that is not closed; nil before there is a ledger.
func nextDay(ctx context.Context, tx pgx.Tx) (*Day, error) {
	rows, err := tx.Query(ctx, nextDaySQL, store.Args{"margin": closeMargin})
	if err != nil {
		return nil, err
	}
	days, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[Day])
	if err != nil || len(days) == 0 {
		return nil, err
	}
	if !days[0].Over {
		return days[0], nil
	}
	if rows, err = tx.Query(ctx, heldSQL, store.Args{"to": days[0].To}); err != nil {
		return nil, err
	}
	holders, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[Holder])
	if len(holders) > 0 {
		days[0].Holder = holders[0]
	}
	return days[0], err
}

// LedgerHeld says what keeps a day that is over from being closed; nil for nothing.
func (l *Ledger) LedgerHeld(ctx context.Context) (held *api.LedgerHold, err error) {
	err = l.InTx(store.WithClass(ctx, store.ClassLists), func(tx pgx.Tx) error {
		held = nil
		day, err := nextDay(ctx, tx)
		if err == nil && day != nil && day.Holder != nil {
			by := day.Holder
			held = &api.LedgerHold{
				Day: day.Day.Format(time.DateOnly), PID: int64(by.PID), Application: by.Application, Role: by.Role, Since: api.At(by.Since),
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: the oldest transaction: %w", store.NotApplied(err))
	}
	return held, nil
}
