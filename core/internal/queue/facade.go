package queue

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Options say how to reach PostgreSQL, and what is kept there for how long.
type Options struct {
	store.Options
	// Retention says how long what has ended is kept.
	Retention Retention
	// Attempts asks for what is told of each attempt that ends, as Tracing does.
	Attempts bool
}

// Store has all statements.
type Store struct {
	*store.Store
	checkTime time.Duration
	retention Retention
	// attempts says that attempts which end are told of.
	attempts bool
}

// Retention says how long what has ended is kept; 0 is for ever.
type Retention struct {
	// Finished is for completed and cancelled jobs, in whole days.
	Finished time.Duration
	// DeadLetters is for dead letters, the attempts of all jobs, and redrives that
	// have ended.
	DeadLetters time.Duration
	// Audit is for audit entries.
	Audit time.Duration
}

// Open connects, and refuses a server that is too old or can lose acknowledged work.
func Open(ctx context.Context, options Options) (*Store, error) {
	db, err := store.Open(ctx, options.Options)
	if err != nil {
		return nil, err
	}
	s := &Store{Store: db, checkTime: checkTime, retention: options.Retention, attempts: options.Attempts || options.Tracing != nil}
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
