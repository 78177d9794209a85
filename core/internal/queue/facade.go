package queue

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

// Options say how to reach PostgreSQL, and what is kept there for how long.
type Options struct {
	store.Options
	// Retention says how long what has ended is kept.
	Retention retention.Periods
	// Attempts asks for what is told of each attempt that ends, as Tracing does.
	Attempts bool
}

// Store has all statements.
type Store struct {
	*store.Store
	*usage.Counts
	*directory.Directory
	*audit.Log
	*retention.Forgetter
	retention retention.Periods
	// attempts says that attempts which end are told of.
	attempts bool
}

// Open connects, and refuses a server that is too old or can lose acknowledged work.
func Open(ctx context.Context, options Options) (*Store, error) {
	db, err := store.Open(ctx, options.Options)
	if err != nil {
		return nil, err
	}
	s := &Store{
		Store: db, Counts: usage.New(db), Directory: &directory.Directory{Store: db}, Log: &audit.Log{Store: db},
		Forgetter: retention.New(db, options.Retention),
		retention: options.Retention, attempts: options.Attempts || options.Tracing != nil,
	}
	db.OnMissingPartition(s.MakePartitions)
	return s, nil
}

// Migrate brings the schema to this binary's version, makes the partitions of the next days,
// and lets counts be looked at again. It returns the versions that it applied.
func (s *Store) Migrate(ctx context.Context) ([]int64, error) {
	applied, err := s.Store.Migrate(ctx)
	if err != nil {
		return applied, err
	}
	if err := s.MakePartitions(ctx); err != nil {
		return applied, err
	}
	return applied, s.RestartUsage(ctx)
}
