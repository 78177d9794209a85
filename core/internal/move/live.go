package move

import (
	"context"
	"fmt"

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

// arrive copies all that is not history, and makes the target serve, in one transaction. The source's fence is closed, so
// that its snapshot has everything. It does nothing where an earlier run has done it.
func (m *Mover) arrive(ctx context.Context) error {
	return m.inBoth(ctx, func(b between) error {
		var state string
		if err := b.target.QueryRow(ctx, lockFenceSQL, store.Args{"tenant_id": m.tenant}).Scan(&state); err != nil {
			return err
		}
		switch state {
		case fenceHere:
			return nil
		case fenceArriving:
		default:
			return fmt.Errorf("the fence in the target is %q: %w", state, ErrAborting)
		}
		if err := m.sameDays(ctx, b); err != nil {
			return err
		}
		if err := m.mapLanes(ctx, b); err != nil {
			return err
		}
		if err := m.copyLive(ctx, b); err != nil {
			return err
		}
		if err := m.settleIn(ctx, b); err != nil {
			return err
		}
		return setFence(ctx, b.target, m.tenant, fenceHere)
	})
}

// sameDays refuses cells whose ledgers are closed up to different days: a day would be counted twice, or never. The
// target closes none until the copy is committed.
func (m *Mover) sameDays(ctx context.Context, b between) error {
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
	return nil
}

// copyLive copies the rows of all tables but history.
func (m *Mover) copyLive(ctx context.Context, b between) error {
	countsAll, err := m.target.Counts.CountsAll(ctx, b.target)
	if err != nil {
		return err
	}
	// the count of all tenants' running jobs is the cell's
	all := "t.counted & ~" + caps.RunningAllSQL + "::smallint"
	if countsAll {
		all = "CASE WHEN t.state = 'running' AND left(t.queue, 1) <> '_' THEN t.counted | " + caps.RunningAllSQL + "::smallint ELSE " + all + " END"
	}
	some := ofWay(behindFence)
	filled, err := b.filled(ctx, some, m.tenant)
	if err != nil {
		return err
	}
	for i, one := range some {
		if !filled[i] {
			continue
		}
		change := map[string]string{}
		if one.name == "jobs" {
			change["counted"] = all
		}
		if _, err := b.copyRows(ctx, one.name, one.condition("t", m.tenant), change); err != nil {
			return err
		}
	}
	for _, one := range ofWay(ofLiveJobs) {
		which := map[string]string{
			"attempts":     "epoch > 1 OR epoch = 1 AND state <> 'running'", // none has ended of the others
			"dependencies": "linked",
		}[one.name]
		live := fmt.Sprintf("t.%s IN (SELECT id FROM jobs WHERE tenant_id = %s AND (%s)) AND t.tenant_id = %s", one.by, quoted(m.tenant), which, quoted(m.tenant))
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
