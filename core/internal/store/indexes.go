package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"
)

// An index whose concurrent build was interrupted stays: writers maintain it, no reader uses it,
// and `IF NOT EXISTS` finds it.

// invalidIndexesSQL lists them, on our tables and their partitions. An interrupted REINDEX
// CONCURRENTLY leaves a copy of the index.
const invalidIndexesSQL = `
SELECT c.relname AS name, c.relname ~ '_cc(new|old)[0-9]*$' AS copy
FROM pg_index x
JOIN pg_class c ON c.oid = x.indexrelid AND c.relkind = 'i'
WHERE NOT x.indisvalid
  AND x.indrelid IN (
    SELECT t.oid FROM pg_class t LEFT JOIN pg_inherits i ON i.inhrelid = t.oid LEFT JOIN pg_class parent ON parent.oid = i.inhparent
    WHERE t.relnamespace = ` + OwnSchemaSQL + `
      AND COALESCE(parent.relname, t.relname) = ANY(@tables::name[]))
ORDER BY c.relname`

type invalidIndex struct {
	Name string
	Copy bool
}

var createTable = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)

// ownTables are the tables that the migrations create.
func ownTables() ([]string, error) {
	var tables []string
	err := fs.WalkDir(migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := migrations.ReadFile(path)
		for _, found := range createTable.FindAllSubmatch(text, -1) {
			tables = append(tables, string(found[1]))
		}
		return err
	})
	slices.Sort(tables)
	return slices.Compact(tables), err
}

func (s *Store) invalidIndexes(ctx context.Context) ([]invalidIndex, error) {
	tables, err := ownTables()
	if err != nil {
		return nil, err
	}
	found, err := Query(ctx, s, pgx.RowToStructByName[invalidIndex], invalidIndexesSQL, Args{"tables": tables})
	if err != nil {
		return nil, fmt.Errorf("store: indexes: %w", NothingChanged(err))
	}
	return found, nil
}

// InvalidIndexes lists the indexes that an interrupted build left, or that are being built at this
// moment: writes maintain them, and no read uses them.
func (s *Store) InvalidIndexes(ctx context.Context) ([]string, error) {
	found, err := s.invalidIndexes(ctx)
	names := make([]string, len(found))
	for i, index := range found {
		names[i] = index.Name
	}
	return names, err
}

// collationSQL gives no row for a collation without versions.
const collationSQL = `
SELECT datcollversion, COALESCE(pg_database_collation_actual_version(oid), 'none')
FROM pg_database
WHERE datname = current_database() AND datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid) AND datcollversion IS NOT NULL`

// ChangedCollation says that the operating system's collation is no longer the one with which the database was made; ""
// if it is.
func (s *Store) ChangedCollation(ctx context.Context) (string, error) {
	type versions struct{ Made, Now string }
	found, err := Query(ctx, s, pgx.RowToStructByPos[versions], collationSQL, Args{})
	if err != nil {
		return "", fmt.Errorf("store: collation: %w", NothingChanged(err))
	}
	if len(found) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the database was made with version %s of its collation, the server has %s; "+
		"REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION", found[0].Made, found[0].Now), nil
}

// repairIndexes rebuilds what an interrupted build left. One caller at a time does it, under the lock
// of the migrations. It waits for another session's running build or migrate: the index is valid by
// then, and is rebuilt once more.
func (s *Store) repairIndexes(ctx context.Context, db *sql.DB, locker lock.SessionLocker) (err error) {
	found, err := s.invalidIndexes(ctx)
	if err != nil || len(found) == 0 {
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
	for _, index := range found {
		repair := `REINDEX INDEX CONCURRENTLY `
		if index.Copy {
			repair = `DROP INDEX CONCURRENTLY IF EXISTS `
		}
		if _, err := conn.ExecContext(ctx, repair+pgx.Identifier{index.Name}.Sanitize()); err != nil {
			return fmt.Errorf("store: index %s, which an interrupted build left: %w", index.Name, err)
		}
	}
	return nil
}
