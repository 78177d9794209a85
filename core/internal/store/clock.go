package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// NowTime bounds a query for the time, which runs often.
const NowTime = 5 * time.Second

// Now is PostgreSQL's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(WithClass(ctx, ClassOutcomes), min(NowTime, s.callTime))
	defer cancel()
	conn, err := s.Acquire(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Release()
	now, err := Clock(ctx, conn)
	return now, NotApplied(Classify(err))
}

const clockSQL = `SELECT statement_timestamp()`

// Clock is PostgreSQL's time: the only one used for decisions (D3).
func Clock(ctx context.Context, db Querier) (time.Time, error) {
	rows, err := db.Query(ctx, clockSQL)
	if err != nil {
		return time.Time{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
}
