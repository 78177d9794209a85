package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"
)

// Citus' schema-based sharding keeps all tables of a schema on one worker, and moves schemas between
// workers. A cell is such a schema. Core connects to the coordinator alone: advisory locks are there.
//
// Migrations are applied to plain tables, since Citus refuses some ALTER TABLE of distributed ones. Then
// the schema is distributed, before it has a tenant.

// withCitusSQL says whether the database has Citus.
const withCitusSQL = `to_regclass('pg_catalog.pg_dist_schema') IS NOT NULL`

// citusSQL runs where Citus is. Citus does not distribute the schema public.
const citusSQL = `
SELECT citus_is_coordinator() AS coordinator,
       EXISTS (SELECT FROM pg_dist_schema WHERE schemaid = ` + OwnSchemaSQL + `) AS distributed,
       current_setting('citus.enable_schema_based_sharding')::boolean AND COALESCE(current_schema() <> 'public', false) AS wanted,
       to_regclass('goose_db_version') IS NULL AS empty, COALESCE(current_schema(), '') AS schema`

type citusState struct {
	Coordinator, Distributed, Wanted, Empty bool
	Schema                                  string
}

// citus gives how Citus has the schema; nil where there is no Citus.
func (s *Store) citus(ctx context.Context) (*citusState, error) {
	var there bool
	if err := s.pool.QueryRow(ctx, `SELECT `+withCitusSQL).Scan(&there); err != nil || !there {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, citusSQL)
	if err != nil {
		return nil, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[citusState])
}

// checkCitus refuses a server of Citus that is not the coordinator: cores exclude each other by advisory
// locks, which each server has for itself.
func (s *Store) checkCitus(ctx context.Context) error {
	state, err := s.citus(ctx)
	if err != nil || state == nil {
		return err
	}
	if !state.Coordinator {
		return errors.New("store: the server is a worker of Citus; connect to its coordinator")
	}
	if state.Distributed {
		s.noteDistributed()
	}
	return nil
}

// Distributed says that Citus distributes the schema of the tables.
func (s *Store) Distributed() bool { return s.distributed.Load() }

func (s *Store) noteDistributed() {
	s.distributed.Store(true)
	s.pool.Reset()
}

// planForCitus lets the coordinator plan a statement for its arguments, where it must: it has no generic
// plan of an INSERT from arrays. Workers have settings of their own.
func (s *Store) planForCitus(ctx context.Context, conn *pgx.Conn) error {
	if !s.distributed.Load() {
		return nil
	}
	_, err := conn.Exec(ctx, `SET plan_cache_mode = auto`)
	return err
}

// undistributeEmpty makes a distributed schema without tables a plain one: it was created while
// schema-based sharding was on.
func (s *Store) undistributeEmpty(ctx context.Context) error {
	state, err := s.citus(ctx)
	if err != nil || state == nil || !state.Distributed || !state.Empty {
		return err
	}
	_, err = s.pool.Exec(ctx, `SELECT citus_schema_undistribute(oid::regnamespace) FROM pg_namespace WHERE nspname = current_schema()`)
	return err
}

const (
	tenantsThereSQL = `SELECT EXISTS (SELECT FROM tenants)`
	deletesSQL      = `SELECT count_fold_bound() = '0'::xid8`
	// The two ways to fold counts, see core/internal/caps.
	foldByDeletingSQL = `CREATE OR REPLACE FUNCTION count_fold_bound() RETURNS xid8 LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT ''0''::xid8'`
	foldBySnapshotSQL = `CREATE OR REPLACE FUNCTION count_fold_bound() RETURNS xid8 LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT pg_snapshot_xmin(pg_current_snapshot())'`
)

// withoutKeySQL lists the tables whose updates and deletes logical replication, by which Citus moves a
// schema while it is written to, cannot name the rows of.
const withoutKeySQL = `
SELECT 'ALTER TABLE ' || oid::regclass || ' REPLICA IDENTITY FULL' FROM pg_class
WHERE relnamespace = ` + OwnSchemaSQL + ` AND relkind IN ('r', 'p') AND relreplident = 'd'
  AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)
ORDER BY relname`

// distribution is what has to be done to the schema: to have it distributed by Citus and ready to be
// moved, and counts folded as the result needs it, which a dump that was restored elsewhere may not have.
func (s *Store) distribution(ctx context.Context) (statements []string, err error) {
	state, err := s.citus(ctx)
	if err != nil {
		return nil, err
	}
	distributed := state != nil && state.Distributed
	var distribute []string
	if state != nil && state.Wanted && !distributed {
		var tenants bool
		if err := s.pool.QueryRow(ctx, tenantsThereSQL).Scan(&tenants); err != nil {
			return nil, err
		}
		if distributed = !tenants; distributed {
			distribute = append(distribute, `SELECT citus_schema_distribute(oid::regnamespace) FROM pg_namespace WHERE nspname = current_schema()`)
		}
	}
	if distributed {
		if statements, err = Query(ctx, s, pgx.RowTo[string], withoutKeySQL, Args{}); err != nil {
			return nil, err
		}
	}
	statements = append(statements, distribute...)
	var deletes bool
	if err := s.pool.QueryRow(ctx, deletesSQL).Scan(&deletes); err != nil {
		return nil, err
	}
	switch {
	case distributed && !deletes:
		statements = append(statements, foldByDeletingSQL)
	case !distributed && deletes:
		statements = append(statements, foldBySnapshotSQL)
	}
	return statements, nil
}

// distribute distributes the schema by Citus, if schema-based sharding is on and there is no tenant yet.
// One caller at a time does it, under the lock of the migrations.
func (s *Store) distribute(ctx context.Context, db *sql.DB, locker lock.SessionLocker) (err error) {
	if todo, err := s.distribution(ctx); err != nil || len(todo) == 0 {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := locker.SessionLock(ctx, conn); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.SessionUnlock(context.WithoutCancel(ctx), conn)) }()
	todo, err := s.distribution(ctx) // another caller may have done it
	if err != nil {
		return err
	}
	for _, statement := range todo {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("store: distribute the schema: %w", err)
		}
	}
	return s.checkCitus(ctx)
}
