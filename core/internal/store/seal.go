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

// The seal of a schema is a comment on goose's table: the checksum of the migrations that the database ran.
const readSealSQL = `
SELECT (SELECT max(version_id) FROM goose_db_version)             AS version,
       COALESCE(obj_description('goose_db_version'::regclass), '') AS sum`

// checkSeal returns errOtherSchema if the database ran other migrations than this binary has up to the same version.
// A database that a newer core migrated is not checked.
func (s *Store) checkSeal(ctx context.Context) error {
	version, sum, err := s.readSeal(ctx)
	if err != nil || version == 0 {
		return err
	}
	own, newest, err := migrationsSum(version)
	if err != nil || version > newest {
		return err
	}
	if sum != own {
		return errOtherSchema
	}
	return nil
}

// seal writes down what Migrate ran.
func (s *Store) seal(ctx context.Context) error {
	version, _, err := s.readSeal(ctx)
	if err != nil {
		return err
	}
	own, newest, err := migrationsSum(version)
	if err != nil || version > newest {
		return err
	}
	// COMMENT takes no parameters; the sum is hexadecimal.
	return Exec(ctx, s, `COMMENT ON TABLE goose_db_version IS '`+own+`'`, nil)
}

func (s *Store) readSeal(ctx context.Context) (version int64, sum string, err error) {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return 0, "", err
	}
	defer conn.Release()
	var migrated bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&migrated); err != nil || !migrated {
		return 0, "", Classify(err)
	}
	err = conn.QueryRow(ctx, readSealSQL).Scan(&version, &sum)
	return version, sum, Classify(err)
}

// migrationsSum returns the checksum of this binary's migrations up to version, and the version of its newest.
func migrationsSum(version int64) (sum string, newest int64, err error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return "", 0, err
	}
	hash := sha256.New()
	for _, name := range names { // sorted
		if newest, err = goose.NumericComponent(name); err != nil {
			return "", 0, err
		}
		if newest > version {
			continue
		}
		text, err := migrations.ReadFile(name)
		if err != nil {
			return "", 0, err
		}
		fmt.Fprintf(hash, "%d %d\n%s", newest, len(text), text)
	}
	return fmt.Sprintf("sha256:%x", hash.Sum(nil)), newest, nil
}
