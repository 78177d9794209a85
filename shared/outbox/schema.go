package outbox

import (
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Version is the version of the schema that this package has.
const Version = 1

//go:embed schema.sql
var schema string

// Schema is the SQL that makes the tables and functions, or brings those of an older version up to date: for a
// migration of your own. It can be run again.
func Schema() string { return schema }

// ErrNoSchema is the error of a database without the tables of this version.
var ErrNoSchema = errors.New("outbox: the database has no outbox of this version: run `forgequeue relay migrate`, or the SQL that `forgequeue relay schema` prints")

// migrateLock keeps two migrations apart; any number that nobody else uses.
const migrateLock = 0x666f727571 // "foruq"

// Migrate makes the tables and functions in the first schema of search_path, or brings them to this version, in one
// transaction. It can be repeated, and leaves a later version as it is.
func (t *Table) Migrate(ctx context.Context) (from int, err error) {
	err = pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrateLock)); err != nil {
			return err
		}
		if from, err = version(ctx, tx); err != nil || from > Version {
			return err
		}
		_, err = tx.Exec(ctx, schema, pgx.QueryExecModeSimpleProtocol) // several statements
		return err
	})
	if err != nil {
		return from, fmt.Errorf("outbox: migrate: %w", err)
	}
	return from, nil
}

// version is that of the database's tables; 0 for none.
func version(ctx context.Context, tx pgx.Tx) (found int, err error) {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regproc('forgequeue_outbox_version') IS NOT NULL`).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = tx.QueryRow(ctx, `SELECT forgequeue_outbox_version()`).Scan(&found)
	return found, err
}

// check is nil if the database has the tables of this version, or of a later one: that can only add to them.
func (t *Table) check(ctx context.Context) error {
	var found int
	err := t.pool.QueryRow(ctx, `SELECT forgequeue_outbox_version()`).Scan(&found)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42883" { // undefined_function
		return ErrNoSchema
	}
	if err == nil && found < Version {
		return ErrNoSchema
	}
	return err
}
