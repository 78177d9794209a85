package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// partitionMissing says that a row found no partition: 23514 without a constraint's name, or what is
// left of it after a COPY of Citus to a worker. Nothing took effect.
func partitionMissing(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refused.Code == "23514" && refused.ConstraintName == "" ||
		refused.Code == "XX000" && strings.HasPrefix(refused.Message, "no partition of relation "))
}

// retryWithPartitions runs work, which holds no connection when it returns. If a row found no
// partition, as on a machine that was suspended for longer than the partitions made in advance, the
// partitions are created and work runs once more.
func (s *Store) retryWithPartitions(ctx context.Context, work func() error) error {
	err := work()
	if s.makePartitions == nil || !partitionMissing(err) {
		return err
	}
	// Serialised: all calls but the first find them created.
	if err := s.createPartitionsOnce(ctx); err != nil {
		return fmt.Errorf("%w: no partition for today: %w", ErrUnavailable, err)
	}
	return work()
}

func (s *Store) createPartitionsOnce(ctx context.Context) error {
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

// OnMissingPartition sets how missing partitions are created. It is called before the first
// statement.
func (s *Store) OnMissingPartition(makePartitions func(context.Context) error) {
	s.makePartitions = makePartitions
}
