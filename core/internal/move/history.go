package move

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

const (
	// historyPage is how many rows of history one transaction copies.
	historyPage = 5000
	// changesPage is how many noted changes one transaction applies; the fence is closed when fewer are left.
	changesPage = 2000
	// catchUp bounds how often changes are applied before the fence is closed nevertheless.
	catchUp = 200
)

// makeDays makes the partitions in the target that rows of the source need.
func (m *Mover) makeDays(ctx context.Context) error {
	for _, table := range []string{retention.FinishedJobs, retention.Attempts} {
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

// pickPageSQL picks the next page of a table, after the id of lastIDSQL. Pages are committed in the order of ids, so the last id in the target is where
// a move that was killed goes on.
const (
	lastIDSQL = `
SELECT COALESCE((SELECT id FROM %[1]s WHERE tenant_id = @tenant_id ORDER BY uuid_send(id) DESC LIMIT 1), '00000000-0000-0000-0000-000000000000')`
	pickPageSQL = `
CREATE TEMP TABLE picked ON COMMIT DROP AS
SELECT DISTINCT id FROM (
  SELECT id FROM %[1]s WHERE tenant_id = @tenant_id AND uuid_send(id) > uuid_send(@after::uuid) ORDER BY uuid_send(id) LIMIT @page) AS page`
)

// paged copies a table of history with what belongs to its rows.
func (m *Mover) paged(ctx context.Context, name string, with func(context.Context, between) error) error {
	for {
		var rows int64
		err := m.inBoth(ctx, func(b between) error {
			var after uuid.UUID
			if err := b.target.QueryRow(ctx, fmt.Sprintf(lastIDSQL, name), store.Args{"tenant_id": m.tenant}).Scan(&after); err != nil {
				return err
			}
			picked, err := b.source.Exec(ctx, fmt.Sprintf(pickPageSQL, name), store.Args{"tenant_id": m.tenant, "after": after, "page": historyPage})
			if rows = picked.RowsAffected(); err != nil || rows == 0 {
				return err
			}
			if err := m.mapLanes(ctx, b); err != nil {
				return err
			}
			return with(ctx, b)
		})
		if err != nil {
			return fmt.Errorf("history of %s: %w", name, err)
		}
		if rows == 0 {
			return nil
		}
	}
}

// copyHistory copies what a tenant has of ended jobs and workflows.
func (m *Mover) copyHistory(ctx context.Context) error {
	if err := m.makeDays(ctx); err != nil {
		return err
	}
	for _, name := range []string{"finished_jobs", "dead_letters"} {
		if err := m.paged(ctx, name, func(ctx context.Context, b between) error {
			return m.copyEnded(ctx, b, name)
		}); err != nil {
			return err
		}
	}
	return m.paged(ctx, "workflows", m.copyWorkflows)
}

// picked is a condition for rows of the page.
func (m *Mover) picked(column string) string {
	return fmt.Sprintf("%s IN (SELECT id FROM picked)", column)
}

// copyEnded copies the picked jobs that are in one of the two tables, with their attempts and edges. A job that was
// claimed once and completed has no attempt.
func (m *Mover) copyEnded(ctx context.Context, b between, name string) error {
	own := fmt.Sprintf("t.tenant_id = %s AND ", quoted(m.tenant))
	if _, err := b.copyRows(ctx, name, own+m.picked("t.id"), nil); err != nil {
		return err
	}
	tried := fmt.Sprintf("t.job_id IN (SELECT p.id FROM picked AS p JOIN %s AS e ON e.id = p.id WHERE e.tenant_id = %s", name, quoted(m.tenant))
	if name == "finished_jobs" {
		tried += " AND (e.epoch > 1 OR e.state <> 'completed')"
	}
	if _, err := b.copyRows(ctx, "attempts", own+tried+")", nil); err != nil {
		return err
	}
	linked := fmt.Sprintf("t.child_id IN (SELECT p.id FROM picked AS p JOIN %s AS e ON e.id = p.id WHERE e.tenant_id = %s)", name, quoted(m.tenant))
	_, err := b.copyRows(ctx, "dependencies", own+linked, nil)
	return err
}

func (m *Mover) copyWorkflows(ctx context.Context, b between) error {
	own := fmt.Sprintf("t.tenant_id = %s AND ", quoted(m.tenant))
	if _, err := b.copyRows(ctx, "workflows", own+m.picked("t.id"), nil); err != nil {
		return err
	}
	_, err := b.copyRows(ctx, "workflow_jobs", fmt.Sprintf("t.workflow_id IN (SELECT w.id FROM workflows AS w JOIN picked AS p ON p.id = w.id WHERE w.tenant_id = %s)", quoted(m.tenant)), nil)
	return err
}

const (
	changesSQL = `
SELECT change_id, kind, id FROM tenant_changes WHERE tenant_id = @tenant_id ORDER BY change_id LIMIT @page`
	pickChangedSQL = `
CREATE TEMP TABLE picked ON COMMIT DROP AS SELECT DISTINCT id FROM unnest(@ids::uuid[]) AS noted(id)`
	forgetChangesSQL = `
DELETE FROM tenant_changes WHERE change_id = ANY(@changes::bigint[])`
	forgetAllChangesSQL = `
DELETE FROM tenant_changes WHERE tenant_id = @tenant_id`
)

// forgetCopiesSQL are the copies of rows that have changed.
var forgetCopiesSQL = map[string][]string{ //nolint:gochecknoglobals // a constant in all but the keyword
	kindJob: {
		`DELETE FROM finished_jobs WHERE id = ANY(@ids::uuid[]) AND tenant_id = @tenant_id`,
		`DELETE FROM dead_letters WHERE id = ANY(@ids::uuid[]) AND tenant_id = @tenant_id`,
		`DELETE FROM attempts WHERE job_id = ANY(@ids::uuid[]) AND tenant_id = @tenant_id`,
		`DELETE FROM dependencies WHERE child_id = ANY(@ids::uuid[]) AND tenant_id = @tenant_id`,
	},
	kindWorkflow: {
		`DELETE FROM workflow_jobs WHERE workflow_id IN (SELECT id FROM workflows WHERE id = ANY(@ids::uuid[]) AND tenant_id = @tenant_id)`,
		`DELETE FROM workflows WHERE id = ANY(@ids::uuid[]) AND tenant_id = @tenant_id`,
	},
}

type change struct {
	ChangeID int64
	Kind     string
	ID       uuid.UUID
}

// applyChanges copies a page of the rows that have changed again, and gives how many changes that were. Noted are ids;
// what is copied is how their rows are now, so it may be done twice.
func (m *Mover) applyChanges(ctx context.Context) (int, error) {
	noted, err := store.Query(ctx, m.source.Store, pgx.RowToStructByName[change], changesSQL, store.Args{"tenant_id": m.tenant, "page": changesPage})
	if err != nil || len(noted) == 0 {
		return 0, err
	}
	ids := map[string][]uuid.UUID{}
	changes := make([]int64, len(noted))
	for i, one := range noted {
		ids[one.Kind], changes[i] = append(ids[one.Kind], one.ID), one.ChangeID
	}
	for kind, some := range ids {
		if err := m.copyAgain(ctx, kind, some); err != nil {
			return 0, fmt.Errorf("changes of a %s: %w", kind, err)
		}
	}
	_, err = store.Query(ctx, m.source.Store, pgx.RowTo[int64], forgetChangesSQL, store.Args{"changes": changes})
	return len(noted), err
}

func (m *Mover) copyAgain(ctx context.Context, kind string, ids []uuid.UUID) error {
	return m.inBoth(ctx, func(b between) error {
		for _, sql := range forgetCopiesSQL[kind] {
			if _, err := b.target.Exec(ctx, sql, store.Args{"ids": ids, "tenant_id": m.tenant}); err != nil {
				return err
			}
		}
		if _, err := b.source.Exec(ctx, pickChangedSQL, store.Args{"ids": ids}); err != nil {
			return err
		}
		if kind == kindWorkflow {
			return m.copyWorkflows(ctx, b)
		}
		if err := m.mapLanes(ctx, b); err != nil {
			return err
		}
		for _, name := range []string{"finished_jobs", "dead_letters"} {
			if err := m.copyEnded(ctx, b, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// applyUntilFew applies changes until hardly any are left, or it does not keep up.
func (m *Mover) applyUntilFew(ctx context.Context) error {
	for range catchUp {
		applied, err := m.applyChanges(ctx)
		if err != nil || applied < changesPage/10 {
			return err
		}
	}
	return nil
}

// applyRest applies all changes; no more are noted.
func (m *Mover) applyRest(ctx context.Context) error {
	for {
		if applied, err := m.applyChanges(ctx); err != nil || applied == 0 {
			return err
		}
	}
}

const daysClosedSQL = `
SELECT max(day) FROM ledger_days`

func closedUntil(ctx context.Context, tx pgx.Tx) (day *time.Time, err error) {
	err = tx.QueryRow(ctx, daysClosedSQL).Scan(&day)
	return day, err
}
