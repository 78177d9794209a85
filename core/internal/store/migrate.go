package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the schema to this binary's version. It holds a session lock, so that concurrent
// runs are serialised. It returns the versions that it applied. It makes the schema that search_path
// names first.
func (s *Store) Migrate(ctx context.Context) ([]int64, error) {
	if err := s.makeSchema(ctx); err != nil {
		return nil, fmt.Errorf("store: migrate: %w", err)
	}
	if err := s.undistributeEmpty(ctx); err != nil {
		return nil, fmt.Errorf("store: migrate: %w", err)
	}
	db := stdlib.OpenDBFromPool(s.pool)
	defer func() { _ = db.Close() }() // closes the view of the pool, not the pool
	// Tried each second for five minutes: a second `core migrate` waits for the first.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, fmt.Errorf("store: migrate: %w", err)
	}
	provider, err := newProvider(db, goose.WithSessionLocker(locker))
	if err != nil {
		return nil, fmt.Errorf("store: migrate: %w", err)
	}
	if err := s.checkSeal(ctx); err != nil {
		return nil, fmt.Errorf("store: migrate: %w", err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: migrate: %w", err)
	}
	applied := make([]int64, 0, len(results))
	for _, result := range results {
		applied = append(applied, result.Source.Version)
	}
	if err := s.distribute(ctx, db, locker); err != nil {
		return applied, fmt.Errorf("store: migrate: %w", err)
	}
	return applied, nil
}

// SchemaPending returns how many migrations the database lacks, or an error of IsOtherSchema. A newer database lacks none: a
// migration never breaks the binary that is running. It takes no lock, so that cores that start at
// the same time, or during a `core migrate`, do not wait.
func (s *Store) SchemaPending(ctx context.Context) (int, error) {
	db := stdlib.OpenDBFromPool(s.pool)
	defer func() { _ = db.Close() }()
	provider, err := newProvider(db)
	if err != nil {
		return 0, fmt.Errorf("store: schema: %w", err)
	}
	if missing, err := s.missingSchema(ctx); err != nil || missing != "" {
		return len(provider.ListSources()), err
	}
	statuses, err := provider.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("store: schema: %w", err)
	}
	if err := s.checkSeal(ctx); err != nil {
		return 0, err
	}
	pending := 0
	for _, status := range statuses {
		if status.State == goose.StatePending {
			pending++
		}
	}
	return pending, nil
}

// newProvider has each migration with the seal of the schema after it, in one transaction.
func newProvider(db *sql.DB, options ...goose.ProviderOption) (*goose.Provider, error) {
	all, err := readMigrations()
	if err != nil {
		return nil, err
	}
	steps := make([]*goose.Migration, len(all))
	for i, one := range all {
		steps[i] = goose.NewGoMigration(one.version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, one.text); err != nil {
				return err
			}
			// COMMENT takes no parameters; the sum is hexadecimal.
			_, err := tx.ExecContext(ctx, `COMMENT ON TABLE goose_db_version IS '`+one.sum+`'`)
			return err
		}}, nil)
	}
	return goose.NewProvider(goose.DialectPostgres, db, nil, append(options, goose.WithGoMigrations(steps...))...)
}
