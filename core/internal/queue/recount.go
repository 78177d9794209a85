package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// operatorTime bounds what an operator's command may take that looks at every job: with
// millions of them it is minutes.
const operatorTime = time.Hour

// foreignBooksSQL says whether the counts were kept by another server: a dump was
// restored, and transaction numbers began anew. What they say of the order of
// things means nothing then.
const foreignBooksSQL = `
SELECT EXISTS (SELECT FROM usage_log     WHERE bound > pg_snapshot_xmax(pg_current_snapshot()))
    OR EXISTS (SELECT FROM usage_credits WHERE xid   > pg_snapshot_xmax(pg_current_snapshot()))`

const closeBooksSQL = `
WITH log AS (DELETE FROM usage_log), credits AS (DELETE FROM usage_credits), counts AS (DELETE FROM usage_counts)
UPDATE jobs SET counted = 0 WHERE counted <> 0`

// ForeignBooks says whether the counts were kept on another server, so that no core
// should run before RestartUsage.
func (s *Store) ForeignBooks(ctx context.Context) (bool, error) {
	foreign, err := query(ctx, s, pgx.RowTo[bool], foreignBooksSQL, pgx.StrictNamedArgs{})
	if err != nil {
		return false, fmt.Errorf("queue: books: %w", nothingChanged(err))
	}
	return foreign[0], nil
}

// RestartUsage begins all counts anew if they were kept on another server, as after
// the restore of a dump. It is for `core migrate`, before any core runs.
func (s *Store) RestartUsage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, operatorTime)
	defer cancel()
	err := s.inReport(ctx, func(tx pgx.Tx) error {
		var foreign bool
		if err := tx.QueryRow(ctx, foreignBooksSQL).Scan(&foreign); err != nil || !foreign {
			return err
		}
		_, err := tx.Exec(ctx, closeBooksSQL)
		return err
	})
	if err != nil {
		return fmt.Errorf("queue: restart usage: %w", err)
	}
	return nil
}

// CoresRunError says that cores are connected to a database that has to be without.
type CoresRunError struct{ Connections int }

func (e *CoresRunError) Error() string {
	return fmt.Sprintf("cores are running, with %d connections to this database; stop all of them first", e.Connections)
}

// otherCoresSQL counts connections of cores besides this one.
const otherCoresSQL = `
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'forgequeue-core' AND datname = current_database() AND pid <> pg_backend_pid()`

// leaveAloneSQL keeps off a core that starts meanwhile: a count that was read before,
// and is written after, would be the old one.
const leaveAloneSQL = `
SET LOCAL lock_timeout = '10s';
LOCK TABLE usage_log, usage_credits, usage_counts IN ACCESS EXCLUSIVE MODE;
LOCK TABLE jobs IN EXCLUSIVE MODE`

// Recount begins all counts anew, of all tenants, and gives how many jobs were in some.
// Caps are kept all the while: what is not counted yet is adopted, as jobs are that were
// there before their cap. The error is a *CoresRunError where cores run; the Store has to
// be one of a single connection, or it takes its own for theirs.
func (s *Store) Recount(ctx context.Context) (jobs int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, operatorTime)
	defer cancel()
	err = s.inReport(ctx, func(tx pgx.Tx) error {
		var others int
		if err := tx.QueryRow(ctx, otherCoresSQL).Scan(&others); err != nil {
			return err
		}
		if others > 0 {
			return &CoresRunError{others}
		}
		if _, err := tx.Exec(ctx, leaveAloneSQL); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, closeBooksSQL)
		jobs = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("queue: recount: %w", err)
	}
	return jobs, nil
}
