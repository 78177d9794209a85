package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// partitionMissing says that a row found no partition: 23514 without a constraint's
// name. Nothing took effect.
func partitionMissing(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "23514" && refused.ConstraintName == ""
}

// orMakePartitions runs work, which holds no connection when it returns. Where a row
// of it found no partition, as on a machine that slept for longer than the days that
// lie ready, the partitions are made and work runs once more.
func (s *Store) orMakePartitions(ctx context.Context, work func() error) error {
	err := work()
	if s.makePartitions == nil || !partitionMissing(err) {
		return err
	}
	// One after the other: all but the first find them made.
	if err := s.makeInTurn(ctx); err != nil {
		return fmt.Errorf("%w: no partition for today: %w", ErrUnavailable, err)
	}
	return work()
}

func (s *Store) makeInTurn(ctx context.Context) error {
	select {
	case s.making <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.making }()
	if err := ctx.Err(); err != nil { // at the same moment
		return err
	}
	return s.makePartitions(ctx)
}

// OnMissingPartition says how partitions are made that a row found missing. It is called
// before the first statement.
func (s *Store) OnMissingPartition(makePartitions func(context.Context) error) {
	s.makePartitions = makePartitions
}
