// Package failover says what a promoted standby has not received from the primary that it replaced.
package failover

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// pageRows is how many rows of the old primary are compared at a time.
	pageRows = 5000
	// reportSQL resets the planner's settings for one transaction that reads much.
	reportSQL = `
SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true)`
	// The last minute in which jobs were counted: about the time of the failover.
	sinceSQL = `
SELECT COALESCE(GREATEST((SELECT max(at) FROM job_stats WHERE grain = 0), (SELECT max(at) FROM job_stats WHERE grain = 1), (SELECT max(at) FROM job_stats WHERE grain = 2)),
                statement_timestamp()) - @window::interval`
	liveSQL = `
SELECT id, tenant_id, queue, state, epoch, true AS live FROM jobs WHERE id > @after ORDER BY id LIMIT @page`
	endedSQL = `
SELECT id, tenant_id, queue, state, epoch, false AS live FROM (
  SELECT id, tenant_id, queue, state, epoch FROM finished_jobs WHERE finished_at >= @since
  UNION ALL
  SELECT id, tenant_id, queue, 'dead_letter', epoch FROM dead_letters WHERE died_at >= @since) AS ended`
	knownSQL = `
SELECT id, epoch, true AS live FROM jobs WHERE id = ANY(@ids::uuid[])
UNION ALL SELECT id, epoch, false FROM finished_jobs WHERE id = ANY(@ids::uuid[])
UNION ALL SELECT id, epoch, false FROM dead_letters WHERE id = ANY(@ids::uuid[])`
	changesSQL = `
SELECT id, COALESCE('tenant ' || tenant_id || ': ', '') || action || COALESCE(' ' || object, '') || ', at ' || to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    || ', by ' || actor_kind || COALESCE(' key ' || key_id, '') AS says
FROM audit_log WHERE at >= @since ORDER BY at, id`
	knownChangesSQL = `
SELECT id FROM audit_log WHERE id = ANY(@ids::uuid[])`
)

// job is a job as the old primary has it. Live: it has not ended.
type job struct {
	ID     uuid.UUID
	Tenant tenant.ID `db:"tenant_id"`
	Queue  string
	State  string
	Epoch  int64
	Live   bool
}

// known is what the new primary has of a job.
type known struct {
	ID    uuid.UUID
	Epoch int64
	Live  bool
}

// Lost compares a primary with the one that it replaced, which must run where no core reaches it, and writes a line for each job, end of a
// job, claim and change of a setting that only the old one has. All its live jobs are compared, and what ended or was changed within
// window before it last counted a job. Nothing is changed in either: open the old one read-only. A job that was deleted in the new primary since looks like
// a lost one. What the new primary did since is not looked at.
func Lost(ctx context.Context, old, promoted *cell.Cell, window time.Duration, line func(string)) error {
	ctx = store.WithClass(ctx, store.ClassLists)
	since, err := store.Query(ctx, old.Store, pgx.RowTo[time.Time], sinceSQL, store.Args{"window": window})
	if err != nil {
		return fmt.Errorf("failover: the old primary: %w", store.NotApplied(err))
	}
	var after uuid.UUID
	for {
		page, err := store.Query(ctx, old.Store, pgx.RowToStructByName[job], liveSQL, store.Args{"after": after, "page": pageRows})
		if err != nil {
			return fmt.Errorf("failover: live jobs of the old primary: %w", store.NotApplied(err))
		}
		if err := compare(ctx, promoted, page, line); err != nil {
			return err
		}
		if len(page) < pageRows {
			break
		}
		after = page[len(page)-1].ID
	}
	if err := inPages(ctx, old, endedSQL, since[0], func(page []job) error { return compare(ctx, promoted, page, line) }); err != nil {
		return fmt.Errorf("failover: ended jobs of the old primary: %w", err)
	}
	if err := inPages(ctx, old, changesSQL, since[0], func(page []change) error { return compareChanges(ctx, promoted, page, line) }); err != nil {
		return fmt.Errorf("failover: the old primary's audit log: %w", err)
	}
	return nil
}

// inPages reads what a statement gives since some time, in one transaction, and hands it on in pages.
func inPages[T any](ctx context.Context, old *cell.Cell, sql string, since time.Time, do func([]T) error) error {
	return old.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, reportSQL); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql, store.Args{"since": since})
		if err != nil {
			return err
		}
		defer rows.Close()
		var page []T
		for rows.Next() {
			row, err := pgx.RowToStructByName[T](rows)
			if err != nil {
				return err
			}
			if page = append(page, row); len(page) == pageRows {
				if err := do(page); err != nil {
					return err
				}
				page = page[:0]
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return do(page)
	})
}

func compare(ctx context.Context, promoted *cell.Cell, page []job, line func(string)) error {
	ids := make([]uuid.UUID, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	rows, err := store.Query(ctx, promoted.Store, pgx.RowToStructByName[known], knownSQL, store.Args{"ids": ids})
	if err != nil {
		return fmt.Errorf("failover: the new primary's jobs: %w", store.NotApplied(err))
	}
	has := make(map[uuid.UUID]known, len(rows))
	for _, row := range rows {
		has[row.ID] = row
	}
	for _, one := range page {
		if says := one.lost(has); says != "" {
			line(fmt.Sprintf("%s: job %s of tenant %s, queue %q", says, one.ID, one.Tenant, one.Queue))
		}
	}
	return nil
}

// lost says what is lost of a job, "" for nothing.
func (j job) lost(in map[uuid.UUID]known) string {
	now, there := in[j.ID]
	switch {
	case !there:
		return "lost, " + j.State
	case !j.Live && now.Live:
		return "not ended, was " + j.State
	case j.State == "running" && now.Live && now.Epoch < j.Epoch:
		return "claim undone"
	}
	return ""
}

// change is an entry of the audit log as text.
type change struct {
	ID   uuid.UUID
	Says string
}

func compareChanges(ctx context.Context, promoted *cell.Cell, page []change, line func(string)) error {
	ids := make([]uuid.UUID, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	has, err := store.Query(ctx, promoted.Store, pgx.RowTo[uuid.UUID], knownChangesSQL, store.Args{"ids": ids})
	if err != nil {
		return fmt.Errorf("failover: the new primary's audit log: %w", store.NotApplied(err))
	}
	there := make(map[uuid.UUID]bool, len(has))
	for _, id := range has {
		there[id] = true
	}
	for _, one := range page {
		if !there[one.ID] {
			line("change lost: " + one.Says)
		}
	}
	return nil
}
