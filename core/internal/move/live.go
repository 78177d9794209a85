package move

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// Cores read settings by when they were changed, by this cell's clock. A queue whose two times are equal is deleted.
	touchQueuesSQL = `
UPDATE queues SET deleted_at = CASE WHEN deleted_at = updated_at THEN clock_timestamp() END WHERE tenant_id = @tenant_id`
	touchTimesSQL = `
UPDATE queues SET updated_at = COALESCE(deleted_at, clock_timestamp()) WHERE tenant_id = @tenant_id`
	// What lies with the tenant's jobs and not in the directory.
	typesSQL = `
SELECT types_version, checks_results FROM tenants WHERE id = @tenant_id`
	setTypesSQL = `
UPDATE tenants SET types_version = @version, checks_results = @checks, updated_at = clock_timestamp() WHERE id = @tenant_id`
	firstDaySQL = `
SELECT COALESCE(min(day)::text, '-infinity') FROM ledger_days`
)

// arrive copies all that was not copied before, and makes the target serve, in one transaction. The source takes no writes of the
// tenant, so that its snapshot has everything.
func (m *Mover) arrive(ctx context.Context) error {
	return m.inBothThen(ctx, func(b between) (*pgx.Batch, error) {
		if err := m.sameDays(ctx, b); err != nil {
			return nil, err
		}
		if err := m.mapLanes(ctx, b); err != nil {
			return nil, err
		}
		days, err := m.differing(ctx, b)
		if err != nil {
			return nil, err
		}
		for _, day := range days {
			if err := m.copyDay(ctx, b, day); err != nil {
				return nil, err
			}
		}
		if err := m.copyEnded(ctx, b, "dead_letters", "true"); err != nil {
			return nil, err
		}
		if err := m.copyLive(ctx, b); err != nil {
			return nil, err
		}
		if err := m.settleIn(ctx, b); err != nil {
			return nil, err
		}
		last := &pgx.Batch{}
		last.Queue(arriveSQL, store.Args{"tenant_id": m.tenant})
		return last, nil
	})
}

// forgetLedgerSQL: a day of which history was copied may have been closed in the target since. The source's is the whole.
const forgetLedgerSQL = `
DELETE FROM ledger WHERE tenant_id = @tenant_id`

// sameDays refuses cells whose ledgers are closed up to different days: a day would be counted twice, or never. The
// target closes none until the copy is committed.
func (m *Mover) sameDays(ctx context.Context, b between) error {
	if err := m.stillArriving(ctx, b); err != nil {
		return err
	}
	if _, err := b.target.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": m.target.LockKey(store.LockLedger, tenant.Platform)}); err != nil {
		return err
	}
	source, err := closedUntil(ctx, b.source)
	if err != nil {
		return err
	}
	target, err := closedUntil(ctx, b.target)
	if err != nil {
		return err
	}
	if source == nil || target == nil || !source.Equal(*target) {
		return ErrLedger
	}
	_, err = b.target.Exec(ctx, forgetLedgerSQL, store.Args{"tenant_id": m.tenant})
	return err
}

const daysClosedSQL = `
SELECT max(day) FROM ledger_days`

func closedUntil(ctx context.Context, tx pgx.Tx) (day *time.Time, err error) {
	err = tx.QueryRow(ctx, daysClosedSQL).Scan(&day)
	return day, err
}

// copyLive copies the rows of all tables but history.
func (m *Mover) copyLive(ctx context.Context, b between) error {
	some := slices.DeleteFunc(ofWay(withSnapshot), func(one table) bool { return one.name == "dead_letters" })
	filled, err := b.filled(ctx, some, m.tenant)
	if err != nil {
		return err
	}
	for i, one := range some {
		if !filled[i] {
			continue
		}
		change := map[string]string{}
		if one.name == "jobs" { // the count of all tenants' running jobs is the cell's, and none of these runs
			change["counted"] = "t.counted & ~" + caps.RunningAllSQL + "::smallint"
		}
		if _, err := b.copyRows(ctx, one.name, one.condition("t", m.tenant), change); err != nil {
			return err
		}
	}
	for _, one := range ofWay(withJobs) {
		which := map[string]string{"attempts": "epoch > 0", "dependencies": "linked", "job_output": "linked"}[one.name]
		live := fmt.Sprintf("t.%s IN (SELECT id FROM jobs WHERE tenant_id = %s AND %s) AND t.tenant_id = %s", one.by, quoted(m.tenant), which, quoted(m.tenant))
		if _, err := b.copyRows(ctx, one.name, live, nil); err != nil {
			return err
		}
	}
	return nil
}

// settleIn does in the target what its cores need to find the rows, and counts the jobs.
func (m *Mover) settleIn(ctx context.Context, b between) error {
	own := store.Args{"tenant_id": m.tenant}
	var version int64
	var checks bool
	if err := b.source.QueryRow(ctx, typesSQL, own).Scan(&version, &checks); err != nil {
		return err
	}
	if m.to != "" {
		if err := m.earlierDays(ctx, b); err != nil {
			return err
		}
	}
	if err := m.target.Counts.CountMoved(ctx, b.target, m.tenant); err != nil {
		return err
	}
	for _, one := range []struct {
		sql  string
		args store.Args
	}{
		{touchQueuesSQL, own},
		{touchTimesSQL, own},
		{setTypesSQL, store.Args{"tenant_id": m.tenant, "version": version, "checks": checks}},
	} {
		if _, err := b.target.Exec(ctx, one.sql, one.args); err != nil {
			return err
		}
	}
	return nil
}

// earlierDays takes the days that the source's ledger has and the target's has not. A cell that is not home was empty when its
// ledger began: what was before lies in the ledgers of those who are moved there.
func (m *Mover) earlierDays(ctx context.Context, b between) error {
	var first string
	if err := b.target.QueryRow(ctx, firstDaySQL).Scan(&first); err != nil {
		return err
	}
	_, err := b.copyRows(ctx, "ledger_days", "t.day < '"+first+"'::date", nil)
	return err
}
