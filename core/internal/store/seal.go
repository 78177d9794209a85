package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// errOtherSchema: the database ran migrations of the same numbers with other contents, such as those of a commit
// between two releases. No request meets it: core does not start.
var errOtherSchema = errors.New("the tables of this database were created by another build of core, whose migrations differ from this one's: " +
	"use the build that created them, or an empty database")

// IsOtherSchema reports whether core cannot use a database because another build created its tables.
func IsOtherSchema(err error) bool { return errors.Is(err, errOtherSchema) }

// migration is one of this binary's, with the seal of the schema that it leaves: the checksum of all migrations up to it.
type migration struct {
	version   int64
	text, sum string
}

// readMigrations returns this binary's migrations by version.
func readMigrations() ([]migration, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	all := make([]migration, 0, len(names))
	hash := sha256.New()
	for _, name := range names { // sorted
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(hash, "%d %d\n%s", version, len(text), text)
		all = append(all, migration{version, string(text), fmt.Sprintf("sha256:%x", hash.Sum(nil))})
	}
	return all, nil
}

// The seal is a comment on goose's table.
const readSealSQL = `
SELECT (SELECT max(version_id) FROM goose_db_version)             AS version,
       COALESCE(obj_description('goose_db_version'::regclass), '') AS sum`

// checkSeal returns errOtherSchema if the database ran other migrations than this binary has up to the same version.
// A database that a newer core migrated is not checked.
func (s *Store) checkSeal(ctx context.Context) error {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var migrated bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&migrated); err != nil || !migrated {
		return Classify(err)
	}
	var version int64
	var sum string
	if err := conn.QueryRow(ctx, readSealSQL).Scan(&version, &sum); err != nil {
		return Classify(err)
	}
	all, err := readMigrations()
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.version == version && one.sum != sum {
			return errOtherSchema
		}
	}
	return nil
}
