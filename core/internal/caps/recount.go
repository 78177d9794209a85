package caps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// OperatorTime bounds an operator's command that reads every job: with millions of them it is
// minutes.
const OperatorTime = time.Hour

// foreignCountersSQL says whether the counts were written by another server: a dump was restored, and
// transaction ids started again. Their order is then meaningless. Where Citus distributes the schema, it
// is not used.
const foreignCountersSQL = `
SELECT ` + foldBoundSQL + ` <> '0'::xid8
  AND (EXISTS (SELECT FROM usage_log     WHERE GREATEST(bound, pg_snapshot_xmax(seen)) > pg_snapshot_xmax(pg_current_snapshot()))
    OR EXISTS (SELECT FROM usage_credits WHERE xid   > pg_snapshot_xmax(pg_current_snapshot())))`

const resetCountersSQL = `
WITH log AS (DELETE FROM usage_log), credits AS (DELETE FROM usage_credits), counts AS (DELETE FROM usage_counts)
UPDATE jobs SET counted = 0 WHERE counted <> 0`

// ForeignCounters says whether the counts were written by another server, so that no core should run
// before ResetForeignCounters.
func (s *Counts) ForeignCounters(ctx context.Context) (bool, error) {
	foreign, err := store.Query(ctx, s.Store, pgx.RowTo[bool], foreignCountersSQL, store.Args{})
	if err != nil {
		return false, fmt.Errorf("caps: foreign counters: %w", store.NotApplied(err))
	}
	return foreign[0], nil
}

// ResetForeignCounters resets all counts if they were written by another server, as after the restore of a
// dump. It is for `core migrate`, before any core runs.
func (s *Counts) ResetForeignCounters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, OperatorTime)
	defer cancel()
	err := s.inReport(ctx, func(tx pgx.Tx) error {
		var foreign bool
		if err := tx.QueryRow(ctx, foreignCountersSQL).Scan(&foreign); err != nil || !foreign {
			return err
		}
		_, err := tx.Exec(ctx, resetCountersSQL)
		return err
	})
	if err != nil {
		return fmt.Errorf("caps: reset foreign counters: %w", err)
	}
	return nil
}

// CoresRunError says that cores are connected to a database that must have none.
type CoresRunError struct{ Sessions []string }

func (e *CoresRunError) Error() string {
	shown := e.Sessions[:min(len(e.Sessions), 5)]
	return fmt.Sprintf("cores, or commands of theirs, are connected to this database (%d: %s); stop all of them first. "+
		"End sessions of a machine that is gone with SELECT pg_terminate_backend(pid)", len(e.Sessions), strings.Join(shown, ", "))
}

// otherCoresSQL finds connections of cores besides this one.
const otherCoresSQL = `
SELECT 'pid ' || pid || coalesce(' from ' || host(client_addr), '') FROM pg_stat_activity
WHERE application_name = 'forgequeue-core' AND datname = current_database() AND pid <> pg_backend_pid()
ORDER BY pid`

// lockTablesSQL blocks a core that starts at the same time: it could write a count that it had read
// before the reset.
const lockTablesSQL = `
SET LOCAL lock_timeout = '10s';
LOCK TABLE usage_log, usage_credits, usage_counts IN ACCESS EXCLUSIVE MODE;
LOCK TABLE jobs IN EXCLUSIVE MODE`

// disconnectTime is how long the connections of a core that has just ended may take to close.
const disconnectTime = 5 * time.Second

// Recount resets all counts, of all tenants, and gives how many jobs were counted. Caps stay in
// force: jobs are backfilled, like those stored before their cap. The error is a *CoresRunError if
// cores run; the Store must have a single connection, or it takes its own for theirs.
func (s *Counts) Recount(ctx context.Context) (jobs int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, OperatorTime)
	defer cancel()
	for begun := time.Now(); ; {
		jobs, err = s.recount(ctx)
		if _, run := errors.AsType[*CoresRunError](err); !run || time.Since(begun) > disconnectTime {
			break
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("caps: recount: %w", context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err != nil {
		return 0, fmt.Errorf("caps: recount: %w", err)
	}
	return jobs, nil
}

func (s *Counts) recount(ctx context.Context) (jobs int64, err error) {
	err = s.inReport(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, otherCoresSQL)
		if err != nil {
			return err
		}
		others, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		if len(others) > 0 {
			return &CoresRunError{others}
		}
		_, err = tx.Exec(ctx, lockTablesSQL)
		if store.LockTimedOut(err) {
			return errors.New("another session uses the tables of jobs and counts, as a dump under way does; " +
				"run it again when that has ended: nothing was changed")
		}
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, resetCountersSQL)
		jobs = tag.RowsAffected()
		return err
	})
	return jobs, err
}
